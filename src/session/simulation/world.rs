//! Plays a plan around the real tasks of a session, looks on at every await of its pipes, and judges the end.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use nix::sys::signal::Signal;
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_local,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    model::Model,
    plan::{Act, ChildPlan, Keeper, Obedience, Plan},
    verdict,
};
use crate::{
    arena::{READ_BYTES, RecordLog, Slab, Stream, max_blocks},
    io::{Backend, Read, Runtime, Sink, Source, Stop, Watch, Write, scripted},
    process::{Census, Exit, Leader, scripted::Child},
    session::{
        Session,
        driver::{self, Attached},
        input::{WriteEnd, WriteJob},
        io_thread::IoThread,
        lifecycle::DEFAULT_GRACE,
        snapshot::{Output, Reason, Status},
    },
    text::utf8::Scratch,
};

/// Longer than any session can last: the longest timeout of a plan, a grace, the two waits for confirmation, the drain.
const LONGEST: Duration = Duration::from_secs(20);

/// One write, and what became of it.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) text: Vec<u8>,
    pub(super) close: bool,
    pub(super) asked: Instant,
    pub(super) answered: Option<(Instant, WriteEnd)>,
}

/// How a pump's last read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Eof,
    Failed,
    /// The stop came first, at that time.
    Stopped(Instant),
}

/// What happened, for the verdict.
#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) session: Arc<Session>,
    pub(super) child: Child,
    pub(super) model: RefCell<Model>,
    pub(super) ends: [Cell<Option<Ended>>; 2],
    /// What the child's stdin took.
    pub(super) taken: RefCell<Vec<u8>>,
    /// Whether the pipe said that its reader is gone, or that it failed.
    pub(super) stdin_broke: Cell<bool>,
    pub(super) writes: RefCell<Vec<Written>>,
    /// When ends were asked for, why, and with which grace.
    pub(super) asked: RefCell<Vec<(Instant, Reason, Duration)>>,
    /// Whether a write was cancelled while the session was not final.
    pub(super) cancelled: Cell<bool>,
    pub(super) started: Instant,
    /// When the leader ended, and how.
    pub(super) exited: Cell<Option<Instant>>,
    /// When the last process of the group had ended.
    pub(super) emptied: Cell<Option<Instant>>,
    pub(super) keeper_died: Cell<Option<Instant>>,
    /// When the status was first seen to be final, and when the output to have settled.
    pub(super) final_at: Cell<Option<Instant>>,
    awaits: Cell<usize>,
    seen: Cell<(Status, Output)>,
}

/// Plays the plan to its end; panics where the contract is broken. Returns to how many awaits the pipes' tasks came.
pub(super) fn play(plan: &Plan) -> usize {
    let runtime = Runtime::new(Backend::Scripted).expect("a runtime");
    runtime.block_on(play_in_time(plan.clone()))
}

async fn play_in_time(plan: Plan) -> usize {
    let slab = Slab::new(max_blocks(plan.budget.bytes) + 2).expect("a mapping");
    let thread = Rc::new(IoThread::new(
        Backend::Scripted,
        slab.clone(),
        Scratch::new(READ_BYTES),
        Census::new().expect("/proc"),
    ));
    let (writes, queue) = mpsc::channel(64);
    let session = Arc::new(Session::new(
        "simulated".to_owned(),
        "simulated".to_owned(),
        i32::MAX,
        RecordLog::new(slab.clone(), plan.budget),
        None,
        None,
        plan.stdin.is_none(),
        writes,
    ));
    let child = Child::default();
    {
        let mut state = child.state();
        state.leader_runs = true;
        state.others = plan.child.others;
    }
    let started = Instant::now();
    let world = Rc::new(World {
        model: RefCell::new(Model::new(plan.budget)),
        session: Arc::clone(&session),
        child: child.clone(),
        ends: Default::default(),
        taken: RefCell::default(),
        stdin_broke: Cell::default(),
        writes: RefCell::default(),
        asked: RefCell::default(),
        cancelled: Cell::default(),
        started,
        exited: Cell::default(),
        emptied: Cell::default(),
        keeper_died: Cell::default(),
        final_at: Cell::default(),
        awaits: Cell::default(),
        seen: Cell::new((Status::Running, Output::Open)),
        plan: plan.clone(),
    });
    let witness = |stream| -> Rc<dyn scripted::Witness> {
        Rc::new(Pipe {
            world: Rc::clone(&world),
            stream,
        })
    };
    let source = |(events, end): (Vec<scripted::Event>, scripted::End), stream| {
        Source::Scripted(scripted::Source::new(events, end, witness(Some(stream))))
    };
    let (exit, keeper) = (Stop::new(), Stop::new());
    let attached = Attached {
        leader: Leader::scripted(child),
        stdin: plan
            .stdin
            .map(|(room, reader)| Sink::Scripted(scripted::Sink::new(room, reader, witness(None)))),
        stdout: source(plan.stdout, Stream::Stdout),
        stderr: Some(source(plan.stderr, Stream::Stderr)),
        exit: Watch::scripted(exit.clone()),
        keeper: Watch::scripted(keeper.clone()),
    };
    spawn_local(play_child(Rc::clone(&world), plan.child, exit, keeper));
    spawn_local(watch_status(Rc::clone(&world)));
    let timeout_at = started + plan.timeout;
    let driven = spawn_local(driver::drive(
        Arc::clone(&session),
        attached,
        timeout_at,
        false,
        queue,
        thread,
    ));
    for (pause, act) in plan.acts {
        sleep(pause).await;
        world.act(act);
    }
    let final_at = timeout(LONGEST, driven).await;
    let final_at = final_at
        .expect("the session hangs")
        .expect("the driver panicked");
    // Whatever else was to happen, and answers that are on their way.
    sleep(Duration::from_secs(5)).await;
    world.look();
    verdict::check(&world, final_at);
    drop(session);
    world.awaits.get()
}

impl World {
    /// Looks at the session as a client could at any time.
    fn look(&self) {
        let state = self.session.state();
        let at = self.awaits.get();
        self.model.borrow().check(&state, at * 7);
        let (status, output) = self.seen.get();
        if status.is_final() {
            assert_eq!(state.status, status, "a final status changed");
        }
        if status == Status::Terminating {
            assert_ne!(
                state.status,
                Status::Running,
                "an ending session runs again"
            );
        }
        if output != Output::Open {
            assert_eq!(state.output, output, "a settled output changed");
        }
        self.seen.set((state.status, state.output));
    }

    fn act(self: &Rc<Self>, act: Act) {
        let now = Instant::now();
        match act {
            Act::Write { text, close } => self.write(text, close),
            Act::Cancel => {
                if !self.session.is_final() {
                    self.cancelled.set(true);
                }
                self.session.abandon_input();
            }
            Act::Terminate(grace) => {
                self.asked.borrow_mut().push((now, Reason::User, grace));
                self.session.request_end(Reason::User, grace);
            }
            Act::Shutdown => {
                self.asked
                    .borrow_mut()
                    .push((now, Reason::Shutdown, DEFAULT_GRACE));
                self.session.request_end(Reason::Shutdown, DEFAULT_GRACE);
            }
        }
    }

    fn write(self: &Rc<Self>, text: Vec<u8>, close: bool) {
        let (reply, end) = oneshot::channel();
        let job = WriteJob {
            text: Bytes::from(text.clone()),
            close,
            reply,
        };
        // Refused at once when the writer has ended with its session.
        let Ok(()) = self.session.enqueue(job) else {
            assert!(self.session.is_final(), "a write was not taken");
            return;
        };
        let index = self.writes.borrow().len();
        self.writes.borrow_mut().push(Written {
            text,
            close,
            asked: Instant::now(),
            answered: None,
        });
        let world = Rc::clone(self);
        spawn_local(async move {
            let end = end.await.expect("a write is always answered");
            world.writes.borrow_mut()[index].answered = Some((Instant::now(), end));
        });
    }
}

/// One pipe's witness; without a stream it is stdin's.
struct Pipe {
    world: Rc<World>,
    stream: Option<Stream>,
}

impl scripted::Witness for Pipe {
    fn at_await(&self) {
        let world = &self.world;
        let at = world.awaits.replace(world.awaits.get() + 1);
        world.look();
        if let Some((when, act)) = &world.plan.at_await
            && *when == at
        {
            world.act(act.clone());
        }
    }

    fn read(&self, read: Read, bytes: &[u8], stop: &Stop) {
        let stream = self.stream.expect("an output pipe");
        let mut model = self.world.model.borrow_mut();
        let end = match read {
            Read::Data(n) => {
                assert_eq!(n, bytes.len());
                model.add(stream, bytes);
                // What had arrived is kept, and no more is read.
                stop.is_requested().then(|| Ended::Stopped(Instant::now()))
            }
            Read::Eof => Some(Ended::Eof),
            Read::Failed(_) => Some(Ended::Failed),
            Read::Stopped => Some(Ended::Stopped(Instant::now())),
        };
        if let Some(end) = end {
            model.end(stream);
            let earlier = self.world.ends[stream as usize].replace(Some(end));
            assert_eq!(earlier, None, "a read after the end");
        }
    }

    fn wrote(&self, write: Write, taken: &[u8]) {
        self.world.taken.borrow_mut().extend_from_slice(taken);
        if matches!(write, Write::Closed | Write::Failed(_)) {
            self.world.stdin_broke.set(true);
        }
    }
}

/// Notes when the status becomes final.
async fn watch_status(world: Rc<World>) {
    world.session.ended().await;
    world.final_at.set(Some(Instant::now()));
}

/// The leader, its group and its keeper.
async fn play_child(world: Rc<World>, plan: ChildPlan, exit: Stop, keeper: Stop) {
    let child = &world.child;
    // When each is due to end, by itself or as an answer to a signal: the leader, then the group.
    let mut due = [plan.exits.map(|(at, _)| world.started + at), None];
    let mut how = Exit {
        code: plan.exits.map(|(_, code)| code),
        signal: None,
        cpu: Duration::ZERO,
        max_rss_bytes: 0,
    };
    let (mut heard, mut answer_at) = (0, None);
    let dies_at = match plan.keeper {
        Keeper::Dies(at) => Some(world.started + at),
        _ => None,
    };
    loop {
        let keeper_due = answer_at.or(dies_at).filter(|_| !keeper.is_requested());
        let next = [due[0], due[1], keeper_due].into_iter().flatten().min();
        tokio::select! {
            biased;
            () = child.told() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
        let now = Instant::now();
        let mut state = child.state();
        for &(signal, at) in &state.signals[heard..] {
            let react = |obedience: Obedience| match signal {
                Signal::SIGTERM => obedience.term,
                Signal::SIGKILL => obedience.kill,
                _ => None,
            };
            for (due, obedience) in due.iter_mut().zip([plan.leader, plan.group]) {
                let end = react(obedience).map(|after| at + after);
                *due = [*due, end].into_iter().flatten().min();
            }
        }
        heard = state.signals.len();
        let over = |due: Option<Instant>| due.is_some_and(|at| at <= now);
        if over(due[0]) && state.leader_runs {
            if due[0] != plan.exits.map(|(at, _)| world.started + at) {
                let last = state.signals.iter().rev().map(|&(signal, _)| signal as i32);
                how.code = None;
                how.signal = last.into_iter().next();
            }
            state.leader_runs = false;
            world.exited.set(Some(now));
            exit.request();
        }
        if over(due[1]) {
            state.others = 0;
        }
        if !state.leader_runs && state.others == 0 && world.emptied.get().is_none() {
            world.emptied.set(Some(now));
        }
        for due in &mut due {
            *due = due.filter(|&at| at > now);
        }
        if let (Some(asked), Keeper::Answers(after), None) =
            (state.reap_asked, plan.keeper, answer_at)
        {
            answer_at = Some(asked + after);
        }
        if over(keeper_due) || (over(answer_at) && !keeper.is_requested()) {
            if over(answer_at) {
                state.answer = Some(how);
            } else {
                world.keeper_died.set(Some(now));
            }
            keeper.request();
        }
    }
}
