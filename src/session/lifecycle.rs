//! How a session ends, as a pure state machine: events in, actions out, no clock and no kernel of its own.
//!
//! What must hold:
//! - the group is swept (KILL) before the leader is reaped, on every way to an end;
//! - a leader that dies during the grace doesn't cost the rest of its group theirs;
//! - the first reason wins, the earliest deadline wins;
//! - a final status never changes.
//!
//! The driver (`session::driver`) owns the pidfd, the clock, the census and the signals.

use std::time::Duration;

use tokio::time::Instant;

use crate::session::snapshot::{Reason, Status};

/// Grace of an ending that no client chose: timeout and shutdown.
pub const DEFAULT_GRACE: Duration = Duration::from_millis(500);
/// How long after KILL the end of a group is waited for before it counts as not confirmed. A killed process is gone
/// within milliseconds unless the kernel holds it in an uninterruptible wait, which can last for ever.
pub const CONFIRM: Duration = Duration::from_millis(1_500);
/// First and longest interval between two looks at a group whose leader is dead.
const CHECK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// What the driver has to do, in the order of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// Send TERM, then CONT (a stopped process can't act on TERM), to the group.
    pub term: bool,
    /// Send KILL to the group.
    pub kill: bool,
    /// The session is final now.
    pub finish: Option<Finish>,
}

/// How a session became final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Reap the leader (it has exited) and publish.
    Reap(Status, Reason),
    /// Publish `Failed` for this reason; the leader is left to its keeper, which ends it once the drain is over.
    GiveUp(Reason),
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Running { timeout_at: Instant },
    Ending { reason: Reason, kill_at: Instant },
    Killed { reason: Reason, give_up_at: Instant },
    Final,
}

/// See the module.
#[derive(Debug)]
pub struct Lifecycle {
    phase: Phase,
    leader_exited: bool,
    check_at: Option<Instant>,
    check_interval: Duration,
}

impl Lifecycle {
    /// A session whose leader has just been started.
    pub fn new(timeout_at: Instant) -> Self {
        Self {
            phase: Phase::Running { timeout_at },
            leader_exited: false,
            check_at: None,
            check_interval: CHECK.0,
        }
    }

    /// The status to show; `None` once final, since the driver then knows the status from [`Finish`].
    pub fn status(&self) -> Option<Status> {
        match self.phase {
            Phase::Running { .. } => Some(Status::Running),
            Phase::Ending { .. } | Phase::Killed { .. } => Some(Status::Terminating),
            Phase::Final => None,
        }
    }

    /// Why the session is ending, when it is.
    pub fn reason(&self) -> Option<Reason> {
        match self.phase {
            Phase::Running { .. } | Phase::Final => None,
            Phase::Ending { reason, .. } | Phase::Killed { reason, .. } => Some(reason),
        }
    }

    /// When [`Lifecycle::due`] has to be called next; `None` when only an exit can move the session.
    pub fn next_due(&self) -> Option<Instant> {
        let deadline = match self.phase {
            Phase::Running { timeout_at } => timeout_at,
            Phase::Ending { kill_at, .. } => kill_at,
            Phase::Killed { give_up_at, .. } => give_up_at,
            Phase::Final => return None,
        };
        Some(self.check_at.map_or(deadline, |at| at.min(deadline)))
    }

    /// The leader has exited; it's a zombie until the driver reaps it.
    pub fn leader_exited(&mut self, now: Instant) -> Actions {
        self.leader_exited = true;
        match self.phase {
            Phase::Running { .. } => self.finish(Finish::Reap(Status::Exited, Reason::Natural)),
            Phase::Ending { .. } | Phase::Killed { .. } => {
                self.check_at = Some(now);
                Actions::default()
            }
            Phase::Final => Actions::default(),
        }
    }

    /// The leader's parent is gone, and the leader with it: how it ended will never be known.
    pub fn keeper_lost(&mut self) -> Actions {
        match self.phase {
            Phase::Running { .. } => self.finish(Finish::GiveUp(Reason::Natural)),
            Phase::Ending { reason, .. } | Phase::Killed { reason, .. } => {
                self.finish(Finish::GiveUp(reason))
            }
            Phase::Final => Actions::default(),
        }
    }

    /// Somebody asks for the end. `has_exited` is asked first, so that a leader that already ended by itself is
    /// reported so, although its exit has not been seen yet.
    pub fn end(
        &mut self,
        reason: Reason,
        kill_at: Instant,
        now: Instant,
        has_exited: impl FnOnce() -> bool,
    ) -> Actions {
        match self.phase {
            Phase::Running { .. } if has_exited() => return self.leader_exited(now),
            Phase::Running { .. } => {
                self.phase = Phase::Ending { reason, kill_at };
                let mut actions = self.kill_when_due(now);
                actions.term = true;
                return actions;
            }
            Phase::Ending {
                reason,
                kill_at: earlier,
            } => {
                self.phase = Phase::Ending {
                    reason,
                    kill_at: earlier.min(kill_at),
                };
            }
            Phase::Killed { .. } | Phase::Final => {}
        }
        self.kill_when_due(now)
    }

    /// The time of [`Lifecycle::next_due`] has come. `others` counts the live members of the group; it's asked only
    /// when the leader is dead.
    pub fn due(
        &mut self,
        now: Instant,
        has_exited: impl FnOnce() -> bool,
        others: impl FnOnce() -> usize,
    ) -> Actions {
        if let Phase::Running { timeout_at } = self.phase {
            if now < timeout_at {
                return Actions::default();
            }
            return self.end(Reason::Timeout, now + DEFAULT_GRACE, now, has_exited);
        }
        if self.leader_exited && self.check_at.is_some_and(|at| now >= at) {
            if others() == 0
                && let Some(reason) = self.reason()
            {
                return self.finish(Finish::Reap(Status::Terminated, reason));
            }
            self.check_at = Some(now + self.check_interval);
            self.check_interval = (self.check_interval * 2).min(CHECK.1);
        }
        if let Phase::Killed { reason, give_up_at } = self.phase
            && now >= give_up_at
        {
            return self.finish(Finish::GiveUp(reason));
        }
        self.kill_when_due(now)
    }

    fn kill_when_due(&mut self, now: Instant) -> Actions {
        match self.phase {
            Phase::Ending { reason, kill_at } if now >= kill_at => {
                self.phase = Phase::Killed {
                    reason,
                    give_up_at: now + CONFIRM,
                };
                self.check_interval = CHECK.0;
                if self.leader_exited {
                    self.check_at = Some(now + self.check_interval);
                }
                Actions {
                    kill: true,
                    ..Actions::default()
                }
            }
            _ => Actions::default(),
        }
    }

    /// Every end sweeps: whoever is left in the group gets KILL while the unreaped leader still reserves its id.
    fn finish(&mut self, finish: Finish) -> Actions {
        self.phase = Phase::Final;
        self.check_at = None;
        Actions {
            term: false,
            kill: true,
            finish: Some(finish),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn running() -> (Lifecycle, Instant) {
        let start = Instant::now();
        (Lifecycle::new(start + ms(10_000)), start)
    }

    #[test]
    fn a_leader_that_ends_by_itself_has_its_group_swept_and_is_natural() {
        let (mut life, t) = running();
        let actions = life.leader_exited(t);
        assert_eq!(
            actions,
            Actions {
                term: false,
                kill: true,
                finish: Some(Finish::Reap(Status::Exited, Reason::Natural))
            }
        );
        assert_eq!(life.next_due(), None);
    }

    #[test]
    fn a_request_that_finds_the_leader_dead_reports_its_own_end() {
        let (mut life, t) = running();
        let actions = life.end(Reason::User, t + ms(500), t, || true);
        assert_eq!(
            actions.finish,
            Some(Finish::Reap(Status::Exited, Reason::Natural))
        );
        assert!(!actions.term);
    }

    #[test]
    fn members_keep_their_grace_after_the_leader_died() {
        let (mut life, t) = running();
        assert!(life.end(Reason::User, t + ms(500), t, || false).term);
        life.leader_exited(t + ms(5));
        let actions = life.due(t + ms(5), || true, || 1);
        assert_eq!(
            actions,
            Actions::default(),
            "one member lives and the grace isn't over"
        );
        let actions = life.due(t + ms(500), || true, || 1);
        assert!(actions.kill && actions.finish.is_none());
        let actions = life.due(t + ms(502), || true, || 0);
        assert_eq!(
            actions.finish,
            Some(Finish::Reap(Status::Terminated, Reason::User))
        );
    }

    #[test]
    fn an_empty_group_ends_the_grace_at_once() {
        let (mut life, t) = running();
        life.end(Reason::User, t + ms(2_000), t, || false);
        life.leader_exited(t + ms(3));
        assert_eq!(life.next_due(), Some(t + ms(3)));
        let actions = life.due(t + ms(3), || true, || 0);
        assert_eq!(
            actions.finish,
            Some(Finish::Reap(Status::Terminated, Reason::User))
        );
    }

    #[test]
    fn a_second_request_only_shortens() {
        let (mut life, t) = running();
        life.end(Reason::User, t + ms(1_000), t, || false);
        assert_eq!(
            life.end(Reason::Shutdown, t + ms(2_000), t, || false),
            Actions::default()
        );
        assert_eq!(life.next_due(), Some(t + ms(1_000)));
        assert!(life.end(Reason::Shutdown, t, t, || false).kill);
        assert_eq!(life.reason(), Some(Reason::User));
    }

    #[test]
    fn a_zero_grace_terms_and_kills_in_one_step() {
        let (mut life, t) = running();
        let actions = life.end(Reason::User, t, t, || false);
        assert!(actions.term && actions.kill && actions.finish.is_none());
    }

    #[test]
    fn the_timeout_ends_with_its_own_reason() {
        let (mut life, t) = running();
        assert_eq!(life.due(t + ms(9_999), || false, || 0), Actions::default());
        assert!(life.due(t + ms(10_000), || false, || 0).term);
        assert_eq!(life.reason(), Some(Reason::Timeout));
        assert_eq!(life.status(), Some(Status::Terminating));
    }

    #[test]
    fn an_end_that_cannot_be_confirmed_fails() {
        let (mut life, t) = running();
        life.end(Reason::User, t, t, || false);
        let actions = life.due(t + CONFIRM, || false, || 0);
        assert_eq!(actions.finish, Some(Finish::GiveUp(Reason::User)));
        assert_eq!(life.leader_exited(t + CONFIRM), Actions::default());
    }

    #[test]
    fn a_session_without_its_keeper_fails_for_the_reason_that_it_had() {
        let (mut life, _) = running();
        let actions = life.keeper_lost();
        assert!(actions.kill && !actions.term);
        assert_eq!(actions.finish, Some(Finish::GiveUp(Reason::Natural)));
        assert_eq!(life.keeper_lost(), Actions::default());
        let (mut life, t) = running();
        life.end(Reason::User, t + ms(500), t, || false);
        assert_eq!(
            life.keeper_lost().finish,
            Some(Finish::GiveUp(Reason::User))
        );
    }

    #[derive(Clone, Debug)]
    enum Event {
        Exit,
        KeeperLost,
        End(u64),
        Due(usize),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            Just(Event::Exit),
            Just(Event::KeeperLost),
            (0u64..2_000).prop_map(Event::End),
            (0usize..3).prop_map(Event::Due),
        ]
    }

    proptest! {
        /// Whatever happens in whatever order: finished once, never without a KILL in the same step, and always
        /// within the deadlines once somebody asked.
        #[test]
        fn every_history_ends_once_and_swept(events in prop::collection::vec((event(), 0u64..700), 1..40)) {
            let (mut life, mut now) = running();
            let mut exited = false;
            let mut finished = 0;
            for (event, pause) in events {
                now += ms(pause);
                let actions = match event {
                    Event::Exit if exited => continue,
                    Event::Exit => { exited = true; life.leader_exited(now) }
                    Event::KeeperLost => life.keeper_lost(),
                    Event::End(grace) => life.end(Reason::User, now + ms(grace), now, || exited),
                    Event::Due(others) => life.due(now, || exited, || others),
                };
                if let Some(finish) = actions.finish {
                    finished += 1;
                    prop_assert!(actions.kill);
                    if let Finish::Reap(..) = finish { prop_assert!(exited, "only a dead leader is reaped"); }
                }
                prop_assert_eq!(life.status().is_none(), finished == 1);
                prop_assert!(finished <= 1);
            }
            // Left alone, it ends by its deadlines.
            for _ in 0..1_000 {
                let Some(due) = life.next_due() else { break };
                now = now.max(due);
                if life.due(now, || exited, || 0).finish.is_some() { finished += 1; }
            }
            prop_assert_eq!(finished, 1);
        }
    }
}
