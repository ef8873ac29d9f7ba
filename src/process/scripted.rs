//! A child without a process, for tests of what watches children: it notes what it is sent, and a test moves it.

use std::sync::{Arc, Mutex, MutexGuard};

use nix::{errno::Errno, sys::signal::Signal};
use tokio::{sync::Notify, time::Instant};

use super::{
    Exit, Unconfirmed,
    wire::{LEAVE, REAP},
};

/// Clones are one child.
#[derive(Clone, Debug, Default)]
pub(crate) struct Child(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    told: Notify,
}

/// Where the child stands.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Whether the leader runs, and how many others of its group do.
    pub(crate) leader_runs: bool,
    pub(crate) others: usize,
    /// What the group was sent, and when.
    pub(crate) signals: Vec<(Signal, Instant)>,
    /// When the keeper was asked to reap.
    pub(crate) reap_asked: Option<Instant>,
    /// Whether descendants were to stay.
    pub(crate) left: bool,
    /// What the keeper answers. Without one it is gone.
    pub(crate) answer: Option<Exit>,
}

impl Child {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    /// Returns after the next signal or command, or at once when one came since the last call.
    pub(crate) async fn told(&self) {
        self.0.told.notified().await;
    }

    pub(super) fn signal(&self, signal: Signal) {
        let mut state = self.state();
        assert!(
            state.reap_asked.is_none(),
            "{signal} to a number that may be another's by now"
        );
        state.signals.push((signal, Instant::now()));
        self.0.told.notify_one();
    }

    pub(super) fn has_exited(&self) -> bool {
        !self.state().leader_runs
    }

    pub(super) fn members(&self) -> Result<usize, Errno> {
        let state = self.state();
        Ok(usize::from(state.leader_runs) + state.others)
    }

    pub(super) fn command(&self, command: u8) {
        let mut state = self.state();
        match command {
            REAP => {
                assert!(
                    !state.leader_runs,
                    "only a leader that has exited is reaped"
                );
                assert_eq!(state.reap_asked.replace(Instant::now()), None, "once");
            }
            LEAVE => state.left = true,
            other => panic!("no command: {other}"),
        }
        self.0.told.notify_one();
    }

    pub(super) fn answer(&self) -> Result<Exit, Unconfirmed> {
        self.state().answer.ok_or(Unconfirmed)
    }
}
