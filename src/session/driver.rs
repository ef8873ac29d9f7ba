//! Carries a session from its start to its end: watches the leader, signals its group, sweeps, reaps, ends the drain.
//!
//! All decisions are [`Lifecycle`]'s. What this file adds is the kernel: the pidfd, the signals, the census of the
//! group, and the clock.

use std::{
    mem,
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime},
};

use nix::{errno::Errno, sys::signal::Signal};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, spawn_local},
    time::{Instant, sleep_until},
};

use crate::{
    arena::Stream,
    io::{Backend, Sink, Source, Stop, Watch},
    process::{Exit, Leader, Reaping, Spawned, Unconfirmed},
    session::{
        Session,
        input::{self, WriteJob},
        io_thread::IoThread,
        lifecycle::{Actions, CONFIRM, Finish, Lifecycle},
        pump::{self, PumpEnd},
        snapshot::{Output, Reason, Status},
        spooler,
    },
};

/// How long the pipes are drained after the group is gone. Only a descendant that left the group can hold them open
/// that long; what it writes later is not this session's output.
const DRAIN: Duration = Duration::from_millis(1_000);
/// How long "the output has settled" is held back for the exit that nearly always follows at once: the kernel closes
/// a dying process's descriptors just before it announces the exit, and a client that waits for output should learn
/// both in one answer.
const SETTLE: Duration = Duration::from_millis(2);

/// A child whose pipes and end are watched by this thread's runtime.
#[derive(Debug)]
pub(super) struct Attached {
    /// Keeps the group's number this session's own.
    pub(super) leader: Leader,
    /// Absent when the child's stdin is `/dev/null`.
    pub(super) stdin: Option<Sink>,
    /// What the child writes to descriptor 1.
    pub(super) stdout: Source,
    /// What the child writes to descriptor 2; absent on a terminal.
    pub(super) stderr: Option<Source>,
    /// Ready when the leader exits.
    pub(super) exit: Watch,
    /// Ready when the keeper has answered, or is gone.
    pub(super) keeper: Watch,
}

impl Attached {
    /// Registers what there is to watch.
    ///
    /// # Errors
    /// The kernel's error when one of them can't be watched; the child is killed then.
    fn new(child: Spawned, backend: Backend) -> Result<Attached, Errno> {
        let channel = child.channel;
        let stdin = child.stdin.map(|fd| Sink::new(backend, channel, fd));
        let stderr = child.stderr.map(|fd| Source::new(backend, channel, fd));
        Ok(Attached {
            stdin: stdin.transpose()?,
            stdout: Source::new(backend, channel, child.stdout)?,
            stderr: stderr.transpose()?,
            exit: Watch::new(child.watched.exit)?,
            keeper: Watch::new(child.watched.keeper)?,
            leader: child.leader,
        })
    }
}

/// Runs a session whose child has just been started, until it is final and its output has settled. Returns when it
/// became final.
///
/// # Cancel safety
/// Runs as a task of its own. Dropped with the runtime, it has the keeper end the session ([`Leader`]'s drop).
pub async fn run(
    session: Arc<Session>,
    child: Spawned,
    timeout_at: Instant,
    allow_detach: bool,
    writes: mpsc::Receiver<WriteJob>,
    thread: Rc<IoThread>,
) -> Instant {
    match Attached::new(child, thread.backend) {
        Ok(child) => drive(session, child, timeout_at, allow_detach, writes, thread).await,
        Err(error) => {
            tracing::error!(session = session.id(), %error, "a new session's pipes could not be watched; it is killed");
            publish(
                &session,
                Status::Failed,
                Reason::Natural,
                None,
                Some(Output::Incomplete),
            );
            Instant::now()
        }
    }
}

/// [`run`], from where the child is attached.
pub(super) async fn drive(
    session: Arc<Session>,
    child: Attached,
    timeout_at: Instant,
    allow_detach: bool,
    writes: mpsc::Receiver<WriteJob>,
    thread: Rc<IoThread>,
) -> Instant {
    let Attached {
        leader,
        stdin,
        stdout,
        stderr,
        exit,
        keeper,
    } = child;
    let stop = Stop::new();
    spawn_local(input::run(Arc::clone(&session), stdin, writes));
    let spawn_pump = |stream, source| -> JoinHandle<PumpEnd> {
        spawn_local(pump::run(
            Arc::clone(&session),
            stream,
            source,
            Rc::clone(&thread),
            stop.clone(),
        ))
    };
    let pumps = (
        spawn_pump(Stream::Stdout, stdout),
        stderr.map(|stderr| spawn_pump(Stream::Stderr, stderr)),
    );
    if let Some(spool) = session.spool() {
        let spool = Arc::clone(spool);
        spawn_local(spooler::run(
            Arc::clone(&session),
            spool,
            Rc::clone(&thread),
        ));
    }
    let mut driver = Driver {
        session,
        thread,
        life: Lifecycle::new(timeout_at),
        leader: Some(leader),
        ending: None,
        drained: None,
        drain_until: None,
        settle_at: None,
        final_at: None,
        stop,
    };
    driver.watch(pumps, &exit, &keeper).await;
    if let Some(tty) = driver.session.tty() {
        tty.close();
    }
    // The output has settled. What has left the group goes with `ending`, unless it may stay; an end that was asked for
    // is the end of all.
    if let Some(Ending {
        reaping, status, ..
    }) = driver.ending
    {
        if allow_detach && status == Status::Exited {
            reaping.leave_descendants();
        } else {
            reaping.finish();
        }
    }
    driver.final_at.unwrap_or_else(Instant::now)
}

/// A session that is over but for the leader's status, which its keeper was asked for.
struct Ending {
    reaping: Reaping,
    status: Status,
    reason: Reason,
    /// Until when the answer is waited for; absent once it came.
    answer_by: Option<Instant>,
}

struct Driver {
    session: Arc<Session>,
    thread: Rc<IoThread>,
    life: Lifecycle,
    /// Absent once its keeper was told to reap it, or the session has failed.
    leader: Option<Leader>,
    /// Kept until the output has settled: descendants that left the group are drained before they are killed.
    ending: Option<Ending>,
    /// How the pumps ended, once both did.
    drained: Option<Output>,
    /// Set when the session is final and the pumps still run.
    drain_until: Option<Instant>,
    /// Set when the pumps are done and the session isn't final.
    settle_at: Option<Instant>,
    /// When the session became final, by the clock that nobody sets.
    final_at: Option<Instant>,
    stop: Stop,
}

impl Driver {
    async fn watch(
        &mut self,
        pumps: (JoinHandle<PumpEnd>, Option<JoinHandle<PumpEnd>>),
        exit: &Watch,
        keeper: &Watch,
    ) {
        let session = Arc::clone(&self.session);
        let drained = async {
            match pumps.1 {
                Some(second) => tokio::join!(pumps.0, second).into(),
                None => [pumps.0.await, Ok(PumpEnd::Eof)],
            }
        };
        tokio::pin!(drained);
        let (mut exit_seen, mut keeper_heard) = (false, false);
        loop {
            let answer_by = self.ending.as_ref().and_then(|ending| ending.answer_by);
            let due = [
                self.life.next_due(),
                self.drain_until,
                self.settle_at,
                answer_by,
            ]
            .into_iter()
            .flatten()
            .min();
            let actions = tokio::select! {
                biased;
                _ = exit.ready(), if !exit_seen => {
                    // An error says that the runtime is shutting down, and then nothing is watched any more.
                    exit_seen = true;
                    self.life.leader_exited(Instant::now())
                }
                () = session.end_requested.notified() => self.take_request(),
                _ = keeper.ready(), if !keeper_heard => {
                    // A keeper speaks once, or dies; readable, it stays so.
                    keeper_heard = true;
                    self.hear_keeper()
                }
                ends = &mut drained, if self.drained.is_none() => {
                    self.pumps_ended(&ends);
                    Actions::default()
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.on_time(),
            };
            self.apply(actions);
            let state = session.state();
            if state.status.is_final() && state.output != Output::Open {
                return;
            }
        }
    }

    fn take_request(&mut self) -> Actions {
        let (request, hang_up) = {
            let mut state = self.session.state();
            (state.end_request.take(), mem::take(&mut state.hang_up))
        };
        let leader = self.leader.as_ref();
        if let Some(leader) = leader.filter(|_| hang_up) {
            // One that is stopped is to hear of it.
            leader.signal_group(Signal::SIGHUP).ok();
            leader.signal_group(Signal::SIGCONT).ok();
        }
        let Some(request) = request else {
            return Actions::default();
        };
        self.life
            .end(request.reason, request.kill_at, Instant::now(), || {
                leader.is_none_or(Leader::has_exited)
            })
    }

    fn on_time(&mut self) -> Actions {
        let now = Instant::now();
        if self.settle_at.is_some_and(|at| now >= at) {
            self.settle_at = None;
            self.settle();
        }
        if self.drain_until.is_some_and(|at| now >= at) {
            self.drain_until = None;
            self.stop.request();
        }
        let unanswered = |ending: &Ending| ending.answer_by.is_some_and(|at| now >= at);
        if self.ending.as_ref().is_some_and(unanswered) {
            self.take_answer();
        }
        let Some(leader) = self.leader.as_ref() else {
            return Actions::default();
        };
        let census = &self.thread.census;
        let others = || match leader.members(&mut census.borrow_mut(), now.into_std()) {
            Ok(alive) => alive,
            Err(errno) => {
                // Not known is not gone: the grace runs on, and an end that stays unknown becomes `Failed`.
                tracing::warn!(%errno, "the processes of a group could not be counted");
                1
            }
        };
        self.life.due(now, || leader.has_exited(), others)
    }

    fn hear_keeper(&mut self) -> Actions {
        if self.ending.is_some() {
            self.take_answer();
            return Actions::default();
        }
        tracing::error!(
            session = self.session.id(),
            "the keeper of a session was killed"
        );
        self.life.keeper_lost()
    }

    /// Publishes how the leader ended: by the keeper's answer, or unconfirmed without one.
    fn take_answer(&mut self) {
        let Some(ending) = &mut self.ending else {
            return;
        };
        if ending.answer_by.take().is_none() {
            return;
        }
        let (status, reason) = (ending.status, ending.reason);
        match ending.reaping.exit() {
            Ok(exit) => self.publish(status, reason, Some(exit)),
            Err(Unconfirmed) => self.publish(Status::Failed, reason, None),
        }
    }

    fn pumps_ended(&mut self, ends: &[Result<PumpEnd, tokio::task::JoinError>; 2]) {
        let whole = matches!(ends, [Ok(PumpEnd::Eof), Ok(PumpEnd::Eof)]);
        self.drained = Some(if whole {
            Output::Complete
        } else {
            Output::Incomplete
        });
        self.drain_until = None;
        if self.session.is_final() {
            self.settle();
        } else {
            self.settle_at = Some(Instant::now() + SETTLE);
        }
    }

    /// Says that no more output comes.
    fn settle(&mut self) {
        if let Some(output) = self.drained {
            {
                let mut state = self.session.state();
                state.output = output;
                state.log.seal();
            }
            self.session.changed.notify_waiters();
            self.session.spool_wanted.notify_one();
        }
    }

    fn apply(&mut self, actions: Actions) {
        if let Some(leader) = &self.leader {
            if actions.term {
                // A group that is gone or not ours to signal shows when its end is looked for.
                leader.signal_group(Signal::SIGTERM).ok();
                leader.signal_group(Signal::SIGCONT).ok();
            }
            if actions.kill && leader.signal_group(Signal::SIGKILL) == Err(Errno::EPERM) {
                tracing::warn!(
                    session = self.session.id(),
                    "the group runs as another user now and can't be killed"
                );
            }
        }
        match actions.finish {
            None => self.show_progress(),
            Some(Finish::GiveUp(reason)) => {
                tracing::error!(
                    session = self.session.id(),
                    "the end of a killed group could not be confirmed"
                );
                self.leader = None;
                self.publish(Status::Failed, reason, None);
            }
            Some(Finish::Reap(status, reason)) => {
                let leader = self.leader.take();
                self.ending = leader.map(|leader| Ending {
                    reaping: leader.reap(),
                    status,
                    reason,
                    answer_by: Some(Instant::now() + CONFIRM),
                });
            }
        }
    }

    fn show_progress(&self) {
        let Some(status) = self.life.status() else {
            return;
        };
        let mut state = self.session.state();
        if state.status != status {
            state.status = status;
            state.reason = self.life.reason();
            state.last_activity = SystemTime::now();
            drop(state);
            self.session.changed.notify_waiters();
        }
    }

    fn publish(&mut self, status: Status, reason: Reason, exit: Option<Exit>) {
        let now = Instant::now();
        self.final_at = Some(now);
        self.settle_at = None;
        if self.drained.is_none() {
            self.drain_until = Some(now + DRAIN);
        }
        publish(&self.session, status, reason, exit, self.drained);
    }
}

fn publish(
    session: &Session,
    status: Status,
    reason: Reason,
    exit: Option<Exit>,
    output: Option<Output>,
) {
    {
        let mut state = session.state();
        let now = SystemTime::now();
        state.status = status;
        state.reason = Some(reason);
        state.exit = exit;
        state.ended = Some(now);
        state.last_activity = now;
        state.stdin_closed = true;
        if let Some(output) = output {
            state.output = output;
            state.log.seal();
        }
    }
    session.changed.notify_waiters();
    session.spool_wanted.notify_one();
    session.input_cut.notify_one();
}
