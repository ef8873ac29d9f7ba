//! A request to end reads and writes, for the tasks of one thread.

use std::{cell::Cell, rc::Rc};

use tokio::sync::Notify;

/// Cheap to clone; all clones are one request. It can't be taken back.
#[derive(Clone, Debug, Default)]
pub struct Stop(Rc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    requested: Cell<bool>,
    // Its waiters are links in their own futures, so waiting allocates nothing.
    waiters: Notify,
}

impl Stop {
    /// A stop that nobody has requested.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Requests it. Again is the same as once.
    pub fn request(&self) {
        self.0.requested.set(true);
        self.0.waiters.notify_waiters();
    }

    /// Whether it was requested.
    pub fn is_requested(&self) -> bool {
        self.0.requested.get()
    }

    /// Returns once it is requested.
    ///
    /// # Cancel safety
    /// Dropping the future only ends the waiting.
    pub async fn requested(&self) {
        // One thread: nothing can come between the look and the registration, which the first poll makes.
        if !self.is_requested() {
            self.0.waiters.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Context};

    use super::*;

    #[test]
    fn all_waiters_of_all_clones_see_one_request_and_so_do_late_ones() {
        let stop = Stop::new();
        let clone = stop.clone();
        let mut context = Context::from_waker(std::task::Waker::noop());
        let (mut first, mut second) = (pin!(stop.requested()), pin!(clone.requested()));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        clone.request();
        assert!(first.as_mut().poll(&mut context).is_ready());
        assert!(second.as_mut().poll(&mut context).is_ready());
        assert!(pin!(stop.requested()).poll(&mut context).is_ready());
        assert!(stop.is_requested());
    }
}
