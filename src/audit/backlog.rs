//! Lines that wait to be written: bounded in bytes, in order, and exact about what found no room.

use std::{collections::VecDeque, time::SystemTime};

/// Lines that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) lines: u64,
    /// When the first of them was made.
    pub(super) since: SystemTime,
}

impl Lost {
    /// Adds later ones.
    pub(super) fn and(earlier: Option<Lost>, later: Lost) -> Lost {
        match earlier {
            Some(earlier) => Lost {
                lines: earlier.lines + later.lines,
                since: earlier.since,
            },
            None => later,
        }
    }
}

/// What is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Line {
        bytes: Vec<u8>,
        made: SystemTime,
    },
    /// At this place.
    Lost(Lost),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Backlog {
    items: VecDeque<Item>,
    bytes: usize,
    capacity: usize,
    /// What was lost after the last item.
    lost: Option<Lost>,
}

impl Backlog {
    /// Room for `capacity` bytes of lines.
    pub(super) fn new(capacity: usize) -> Backlog {
        Backlog {
            items: VecDeque::new(),
            bytes: 0,
            capacity,
            lost: None,
        }
    }

    /// Takes a line, or counts it and returns false.
    pub(super) fn push(&mut self, bytes: Vec<u8>, made: SystemTime) -> bool {
        if self.bytes + bytes.len() > self.capacity {
            let one = Lost {
                lines: 1,
                since: made,
            };
            self.lost = Some(Lost::and(self.lost, one));
            return false;
        }
        self.items.extend(self.lost.take().map(Item::Lost));
        self.bytes += bytes.len();
        self.items.push_back(Item::Line { bytes, made });
        true
    }

    /// Gives the next one up.
    pub(super) fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front();
        if let Some(Item::Line { bytes, .. }) = &item {
            self.bytes -= bytes.len();
        }
        item.or_else(|| self.lost.take().map(Item::Lost))
    }

    /// Whether there is nothing to give up.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.lost.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// Every line that was ever pushed, in order; those without room are `None`.
    #[derive(Default)]
    struct Naive {
        pushed: Vec<Option<u64>>,
        waiting: Vec<usize>,
    }

    fn at(n: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(n)
    }

    proptest! {
        #[test]
        fn lines_come_in_order_and_every_missing_one_is_counted_where_it_is_missing(
            capacity in 1_usize..40,
            steps in prop::collection::vec(prop::option::weighted(0.7, 1_usize..20), 1..200),
        ) {
            let mut backlog = Backlog::new(capacity);
            let mut naive = Naive::default();
            let mut seen: Vec<Option<u64>> = Vec::new();
            let take = |backlog: &mut Backlog, naive: &mut Naive, seen: &mut Vec<Option<u64>>| {
                match backlog.pop() {
                    Some(Item::Line { made, .. }) => {
                        naive.waiting.remove(0);
                        seen.push(Some(made.duration_since(at(0)).unwrap().as_secs()));
                    }
                    Some(Item::Lost(lost)) => {
                        assert_eq!(lost.since, at(seen.len() as u64), "the first that is missing");
                        seen.extend((0..lost.lines).map(|_| None));
                    }
                    None => return false,
                }
                true
            };
            for step in steps {
                let Some(length) = step else {
                    take(&mut backlog, &mut naive, &mut seen);
                    continue;
                };
                let number = naive.pushed.len() as u64;
                let fits = naive.waiting.iter().sum::<usize>() + length <= capacity;
                prop_assert_eq!(backlog.push(vec![b'x'; length], at(number)), fits);
                if fits {
                    naive.waiting.push(length);
                }
                naive.pushed.push(fits.then_some(number));
            }
            while take(&mut backlog, &mut naive, &mut seen) {}
            prop_assert!(backlog.is_empty());
            prop_assert_eq!(seen, naive.pushed);
        }
    }
}
