//! Holds the end of a simulated session against the contract.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::{
    plan::Keeper,
    world::{Ended, World},
};
use crate::session::{
    input::{TURN, WriteEnd},
    lifecycle::{CONFIRM, DEFAULT_GRACE},
    snapshot::{Output, Reason, Snapshot, Status},
};

/// How long the output of a final session is drained.
const DRAIN: Duration = Duration::from_millis(1_000);
/// The timer counts whole milliseconds, and a group is looked at every 20 ms.
const TICK: Duration = Duration::from_millis(2);
const LOOK: Duration = Duration::from_millis(22);
/// The latest completion of a plan.
const LATE: Duration = Duration::from_millis(31);

pub(super) fn check(world: &World, final_at: Instant) {
    let end = world.session.snapshot();
    world.model.borrow().check_all(&world.session.state());
    assert!(end.status.is_final() && end.stdin_closed, "{end:?}");
    let seen = world.final_at.get().expect("seen to be final");
    assert_eq!(seen, final_at, "final when it says so");
    check_output(world, &end, final_at);
    check_signals(world);
    check_status(world, &end, final_at);
    check_input(world, &end);
}

fn check_output(world: &World, end: &Snapshot, final_at: Instant) {
    let ends = [0, 1].map(|stream| world.ends[stream].get().expect("each pump has ended"));
    let whole = ends == [Ended::Eof; 2];
    let expected = if whole {
        Output::Complete
    } else {
        Output::Incomplete
    };
    assert_eq!(end.output, expected, "{ends:?}");
    for ended in ends {
        if let Ended::Stopped(at) = ended {
            let drained = at - final_at;
            assert!(
                (DRAIN..=DRAIN + TICK + LATE).contains(&drained),
                "drained for {drained:?}"
            );
        }
    }
}

/// When the session was first asked to end, by a client or by its time, and why.
fn first_asked(world: &World) -> (Instant, Reason) {
    let timeout = (world.started + world.plan.timeout, Reason::Timeout);
    let asked = world.asked.borrow();
    match asked.first() {
        Some(&(at, reason, _)) if at <= timeout.0 => (at, reason),
        _ => timeout,
    }
}

fn check_signals(world: &World) {
    let state = world.child.state();
    let signals = &state.signals;
    let when = |wanted| {
        signals
            .iter()
            .find(|(signal, _)| *signal == wanted)
            .map(|&(_, at)| at)
    };
    let kinds: Vec<Signal> = signals.iter().map(|&(signal, _)| signal).collect();
    let terms = kinds
        .iter()
        .filter(|&&signal| signal == Signal::SIGTERM)
        .count();
    assert!(terms <= 1, "{kinds:?}");
    if terms == 1 {
        assert_eq!(kinds[..2], [Signal::SIGTERM, Signal::SIGCONT]);
    }
    let killed = when(Signal::SIGKILL).expect("every end sweeps");
    let given_up = world.keeper_died.get();
    let (asked, _) = first_asked(world);
    let Some(term) = when(Signal::SIGTERM) else {
        // It ended by itself, and its group with it, at once; or its keeper was lost.
        let end = [world.exited.get(), given_up].into_iter().flatten().min();
        assert_eq!(Some(killed), end, "swept when it ended");
        assert!(killed <= asked + TICK, "asked to end and not told");
        return;
    };
    assert!((asked..=asked + TICK).contains(&term), "told when asked");
    // The deadline is the earliest of those that had been set by then.
    let asked = world.asked.borrow();
    let deadlines = asked.iter().filter(|(at, ..)| *at <= killed);
    let timed_out = (first_asked(world).1 == Reason::Timeout).then_some(term + DEFAULT_GRACE);
    let deadlines = deadlines.map(|&(at, _, grace)| (at + grace).max(term));
    let deadline = deadlines.chain(timed_out).min().expect("somebody asked");
    assert!(killed <= deadline + TICK, "the grace was longer");
    if killed < deadline {
        let gone = world.emptied.get().is_some_and(|at| at <= killed);
        assert!(gone || given_up == Some(killed), "the grace was cut short");
    }
}

fn check_status(world: &World, end: &Snapshot, final_at: Instant) {
    let state = world.child.state();
    let termed = state
        .signals
        .iter()
        .any(|&(signal, _)| signal == Signal::SIGTERM);
    let killed = state
        .signals
        .iter()
        .find(|&&(signal, _)| signal == Signal::SIGKILL);
    let killed = killed.expect("checked before").1;
    let reason = if termed {
        first_asked(world).1
    } else {
        Reason::Natural
    };
    assert_eq!(end.termination_reason, Some(reason));
    let code = (end.exit_code, end.exit_signal);
    let in_time = |asked: Instant| match world.plan.child.keeper {
        Keeper::Answers(after) => asked + after,
        Keeper::Silent => asked + CONFIRM,
        Keeper::Dies(_) => {
            let died = world.keeper_died.get().filter(|&died| died >= asked);
            died.map_or(asked + CONFIRM, |died| died.min(asked + CONFIRM))
        }
    };
    match (state.reap_asked, state.answer) {
        (Some(asked), Some(exit)) => {
            let status = if termed {
                Status::Terminated
            } else {
                Status::Exited
            };
            assert_eq!((end.status, code), (status, (exit.code, exit.signal)));
            let gone = if termed {
                world.emptied.get()
            } else {
                world.exited.get()
            };
            let gone = gone.expect("reaped when it is gone");
            assert!(
                asked >= gone && asked <= gone + LOOK,
                "reaped {:?} late",
                asked - gone
            );
            assert!((in_time(asked)..=in_time(asked) + TICK).contains(&final_at));
        }
        (asked, answer) => {
            assert_eq!(
                (end.status, code, answer),
                (Status::Failed, (None, None), None)
            );
            let until = match (asked, world.keeper_died.get()) {
                // It had been asked, and was silent or was killed.
                (Some(asked), _) => in_time(asked),
                (None, Some(died)) if died <= final_at => died,
                // Something outlived KILL.
                (None, _) => {
                    let outlived = world
                        .emptied
                        .get()
                        .is_none_or(|at| at + LOOK > killed + CONFIRM);
                    assert!(outlived, "given up although the group was gone");
                    killed + CONFIRM
                }
            };
            assert!(
                (until..=until + TICK).contains(&final_at),
                "{:?}",
                final_at - until
            );
        }
    }
}

fn check_input(world: &World, end: &Snapshot) {
    let writes = world.writes.borrow();
    let (mut taken, mut turn, mut closed, mut overdue) =
        (Vec::new(), world.started, world.plan.stdin.is_none(), false);
    let ending = world
        .child
        .state()
        .signals
        .first()
        .expect("checked before")
        .1;
    for write in writes.iter() {
        let (answered, outcome) = write.answered.expect("every write is answered");
        let began = turn.max(write.asked);
        let took = answered - began;
        assert!(took <= TURN + TICK + LATE, "a turn of {took:?}");
        turn = answered;
        let accepted = match outcome {
            WriteEnd::Done {
                accepted,
                stdin_closed,
                ..
            } => {
                assert!(!closed, "written after the close");
                assert_eq!(accepted, write.text.len(), "done, but not whole");
                assert!(stdin_closed || !write.close);
                closed |= write.close;
                accepted
            }
            WriteEnd::Backpressure {
                accepted,
                closed: is_closed,
            } => {
                assert!(is_closed, "a pipe can't be gone on with");
                assert!(took >= TURN, "out of time after {took:?}");
                assert!(accepted < write.text.len() && !closed);
                (closed, overdue) = (true, true);
                accepted
            }
            WriteEnd::Uncertain { accepted } => {
                assert!(overdue || world.cancelled.get());
                assert!(accepted == 0 || !closed);
                closed = true;
                accepted
            }
            WriteEnd::Closed { accepted } => {
                assert!(closed || world.stdin_broke.get(), "closed by nobody");
                assert!(accepted == 0 || !closed);
                closed = true;
                accepted
            }
            WriteEnd::LineTooLong { .. } => panic!("a pipe has no lines"),
            WriteEnd::NotRunning { accepted } => {
                assert!(answered >= ending, "not running, but nobody had ended it");
                accepted
            }
        };
        taken.extend_from_slice(&write.text[..accepted]);
    }
    assert_eq!(
        *world.taken.borrow(),
        taken,
        "what the pipe took is what was reported"
    );
    assert_eq!(
        end.input_uncertain,
        overdue || world.cancelled.get(),
        "uncertain"
    );
}
