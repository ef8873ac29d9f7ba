//! Text that leaves a log for a file, against a log that has room for all of it.

use proptest::prelude::*;

use super::*;
use crate::arena::{
    BLOCK_BYTES, Budget, Page, PageLimits, RecordLog, Slot, Unit, max_blocks, slot_base,
};

use Stream::{Stderr, Stdout};

fn log(bytes: usize, records: Option<u64>) -> RecordLog {
    let slab = Slab::new(max_blocks(bytes) + MAX_LEAVING).expect("map");
    RecordLog::new(slab, Budget { bytes, records })
}

/// Takes the blocks that are ready for slots of a file.
fn hand_over(log: &mut RecordLog, file: &mut Vec<Slot>) {
    let mut bytes = Vec::new();
    while let Some((base, next)) = log.encode_leaving(0, &mut bytes) {
        assert_eq!(slot_base(&bytes), Some(base));
        let slot = Slot::decode(std::mem::take(&mut bytes).into_boxed_slice()).expect("a slot");
        assert_eq!((slot.base(), slot.next()), (base, next));
        file.push(slot);
        assert!(log.left(base, next));
    }
}

fn whole(bytes: usize, records: usize, unit: Unit) -> PageLimits {
    PageLimits {
        bytes,
        records,
        unit,
    }
}

#[test]
fn text_that_is_too_much_is_given_up_all_at_once_and_counted() {
    let mut log = log(4, None);
    log.keep_leaving();
    let text = "x".repeat(BLOCK_BYTES);
    let mut at_most = 0;
    while log.overflows() == 0 {
        log.append(Stdout, &text, text.len());
        at_most = at_most.max(log.full_leaving());
    }
    assert_eq!(at_most, MAX_LEAVING - 1);
    assert!(log.next_cursor() - log.base_cursor() <= 2 * BLOCK_BYTES as u64);
    let mut out = Page::default();
    let all = whole(1 << 24, 1 << 24, Unit::Runs);
    log.page(log.base_cursor(), all, &mut out).expect("there");
    assert_eq!(out.next_cursor, log.next_cursor());
    assert!(!log.left(0, 1), "what was given up can't have left");
}

#[test]
fn shut_a_log_evicts_as_one_without_a_file() {
    let mut log = log(100, None);
    log.keep_leaving();
    log.append(Stdout, &"a".repeat(1_000), 1_000);
    assert_eq!(log.base_cursor(), 0);
    log.open_leaving(false);
    assert_eq!(log.base_cursor(), 900);
    log.append(Stdout, &"b".repeat(10), 10);
    assert_eq!(log.base_cursor(), 910);
    log.open_leaving(true);
    log.append(Stdout, &"c".repeat(10), 10);
    assert_eq!(log.base_cursor(), 910);
}

#[test]
fn what_is_no_slot_is_not_taken_for_one() {
    let mut log = log(4, None);
    log.keep_leaving();
    for turn in 0..40_000 {
        log.append(if turn % 3 == 0 { Stderr } else { Stdout }, "é", 1);
    }
    let mut slot = Vec::new();
    log.encode_leaving(0, &mut slot).expect("one is full");
    let decodes = |bytes: &[u8]| Slot::decode(bytes.into()).is_some();
    assert!(decodes(&slot));
    assert!(!decodes(&slot[..slot.len() - 1]));
    assert!(!decodes(&[]));
    assert!(!decodes(&vec![0; BLOCK_BYTES]));
    let directory = BLOCK_BYTES - 2;
    for (at, byte) in [
        (0, b'?'),
        (16, 0),
        (20, 255),
        (22, 255),
        (24, 255),
        (26, 9),
        (28, 3),
        (32, 255),
        (directory, 3),
        (directory, 0),
    ] {
        let mut broken = slot.clone();
        broken[at] = byte;
        assert!(!decodes(&broken), "byte {at} of the slot");
    }
}

fn piece() -> impl Strategy<Value = (bool, String)> {
    let text = prop_oneof![
        3 => "[ -~\n]{1,40}",
        2 => "[a-c\u{e9}\u{4e2d}\u{1f600}]{1,40}",
        2 => ("[a\u{e9}\u{4e2d}\u{1f600}]{1,8}|[a-z]{1,8}\n", 1usize..90_000)
            .prop_map(|(piece, len)| piece.repeat(1 + len / piece.len())),
    ];
    (any::<bool>(), text)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn slots_and_log_together_hold_every_code_point(
        bytes in prop_oneof![4usize..400, 1_000usize..200_000],
        records in prop_oneof![Just(None), (1u64..100_000).prop_map(Some)],
        pieces in prop::collection::vec(piece(), 1..40),
        page_bytes in prop_oneof![4usize..100, Just(65_536)],
        places in prop::collection::vec(0.0f64..1.0, 8),
        unit in prop_oneof![Just(Unit::Runs), Just(Unit::CodePoints)],
    ) {
        let (mut small, mut large) = (log(bytes, records), log(1 << 23, None));
        small.keep_leaving();
        let mut file = Vec::new();
        for (turn, (is_err, text)) in pieces.iter().enumerate() {
            let stream = if *is_err { Stderr } else { Stdout };
            for log in [&mut small, &mut large] {
                log.append(stream, text, text.chars().count());
            }
            if turn % 3 == 0 {
                hand_over(&mut small, &mut file);
            }
        }
        hand_over(&mut small, &mut file);
        prop_assert_eq!(small.overflows(), 0);
        prop_assert_eq!(small.base_cursor(), file.last().map_or(0, Slot::next));
        let limits = whole(page_bytes, 1_024, unit);
        let (mut ours, mut theirs) = (Page::default(), Page::default());
        for place in places {
            let cursor = (place * large.next_cursor() as f64) as u64;
            small.page_behind(&file, cursor, limits, &mut ours).expect("kept");
            large.page(cursor, limits, &mut theirs).expect("kept");
            prop_assert_eq!((&ours.text, &ours.runs, ours.next_cursor), (&theirs.text, &theirs.runs, theirs.next_cursor));
            small.page_back_behind(&file, cursor, 0, limits, &mut ours).expect("kept");
            large.page_back(cursor, 0, limits, &mut theirs).expect("kept");
            prop_assert_eq!((&ours.text, &ours.runs, ours.next_cursor), (&theirs.text, &theirs.runs, theirs.next_cursor));
            for stream in [Stdout, Stderr] {
                let look = |slots: &[Slot], log: &RecordLog| {
                    let mut at = cursor;
                    loop {
                        match log.line_start_behind(slots, stream, at) {
                            crate::arena::LineStart::Before(before) => at = before,
                            end => return end,
                        }
                    }
                };
                prop_assert_eq!(look(&file, &small), look(&[], &large));
            }
            // Slots that don't reach the log's text serve what they hold.
            if file.len() > 1 && cursor < file[0].next() {
                small.page_behind(&file[..1], cursor, limits, &mut ours).expect("kept");
                prop_assert!(ours.next_cursor > cursor && ours.next_cursor <= file[0].next());
            }
        }
    }
}
