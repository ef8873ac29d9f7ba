//! What both threads know of a session.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};

use crate::{
    arena::RecordLog,
    config::WhenSlow,
    io::Stop,
    process::Exit,
    session::{
        input::WriteJob,
        snapshot::{Output, Reason, Snapshot, Status},
        tty::Tty,
    },
    spool::{SpoolState, Spooled},
};

/// A wish to end the session. Later wishes merge into it: the first reason and the earliest deadline win.
#[derive(Clone, Copy, Debug)]
pub struct EndRequest {
    /// Why.
    pub reason: Reason,
    /// When the grace is over.
    pub kill_at: Instant,
}

/// Everything about a session that changes.
#[derive(Debug)]
pub struct State {
    /// The text in memory.
    pub log: RecordLog,
    /// Where it is in its life.
    pub status: Status,
    /// Why it ends or ended.
    pub reason: Option<Reason>,
    /// How the leader ended, once reaped.
    pub exit: Option<Exit>,
    /// Whether more output may come.
    pub output: Output,
    /// Nothing more can be written.
    pub stdin_closed: bool,
    /// A write was cut off.
    pub input_uncertain: bool,
    /// Last output, input or change of status.
    pub last_activity: SystemTime,
    /// Last output.
    pub last_output: Option<SystemTime>,
    /// Bytes read of both pipes.
    pub output_bytes: u64,
    /// When the status became final.
    pub ended: Option<SystemTime>,
    /// Not yet taken up by the driver.
    pub end_request: Option<EndRequest>,
    /// A wish that the group hears that its terminal is gone; not yet taken up by the driver.
    pub hang_up: bool,
}

/// Where a session's text goes that memory has no room for.
#[derive(Clone, Debug)]
pub struct Spooling {
    /// Its files.
    pub spool: Arc<Spooled>,
    /// What happens when they are slower than the child.
    pub when_slow: WhenSlow,
}

impl State {
    /// Takes note of bytes that were read of one of the pipes.
    pub fn printed(&mut self, bytes: u64, now: SystemTime) {
        self.output_bytes += bytes;
        self.last_output = Some(now);
        self.last_activity = now;
    }
}

/// One session. See the module.
#[derive(Debug)]
pub struct Session {
    id: String,
    command_id: String,
    pid: i32,
    created: SystemTime,
    state: Mutex<State>,
    /// Woken when text arrives, the output settles or the status changes.
    pub(crate) changed: Notify,
    /// Wakes the driver: an end request is there.
    pub(crate) end_requested: Notify,
    /// Wakes the input writer: `stdin_closed` or the status changed under it.
    pub(crate) input_cut: Notify,
    /// Wakes the spooler: there is text for it, or the output has settled.
    pub(crate) spool_wanted: Notify,
    /// Woken when text has gone to the spool, or won't go there any more.
    pub(crate) spool_moved: Notify,
    /// Woken when nobody wants it retained.
    pub(crate) forgotten: Arc<Notify>,
    spooling: Option<Spooling>,
    tty: Option<Tty>,
    writes: mpsc::Sender<WriteJob>,
}

impl Session {
    /// A session whose child `pid` has just been started. `writes` leads to its input writer. With `spooling` a
    /// [`spooler`](super::spooler) is to run beside its pumps. With `tty` the child is on that terminal.
    #[expect(
        clippy::too_many_arguments,
        reason = "parts of one value, each made by somebody else"
    )]
    pub fn new(
        id: String,
        command_id: String,
        pid: i32,
        mut log: RecordLog,
        spooling: Option<Spooling>,
        tty: Option<Tty>,
        stdin_closed: bool,
        writes: mpsc::Sender<WriteJob>,
    ) -> Self {
        let now = SystemTime::now();
        if spooling.is_some() {
            log.keep_leaving();
        }
        Self {
            id,
            command_id,
            pid,
            created: now,
            state: Mutex::new(State {
                log,
                status: Status::Running,
                reason: None,
                exit: None,
                output: Output::Open,
                stdin_closed,
                input_uncertain: false,
                last_activity: now,
                last_output: None,
                output_bytes: 0,
                ended: None,
                end_request: None,
                hang_up: false,
            }),
            changed: Notify::new(),
            end_requested: Notify::new(),
            input_cut: Notify::new(),
            spool_wanted: Notify::new(),
            spool_moved: Notify::new(),
            forgotten: Arc::default(),
            spooling,
            tty,
            writes,
        }
    }

    /// Unguessable name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The leader's.
    pub fn process_id(&self) -> i32 {
        self.pid
    }

    /// The approved command that it runs.
    pub fn command_id(&self) -> &str {
        &self.command_id
    }

    /// The lock. A panic while it was held broke an invariant in one place only; the text that it guards stays
    /// readable, so poisoning is passed over.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One consistent view.
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_of(&self.state())
    }

    /// The view that `state`, this session's, gives.
    pub fn snapshot_of(&self, state: &State) -> Snapshot {
        let exit = state.exit.as_ref();
        Snapshot {
            session_id: self.id.clone(),
            command_id: self.command_id.clone(),
            process_id: self.pid,
            status: state.status,
            exit_code: exit.and_then(|exit| exit.code),
            exit_signal: exit.and_then(|exit| exit.signal),
            termination_reason: state.reason,
            stdin_closed: state.stdin_closed,
            input_uncertain: state.input_uncertain,
            base_cursor: self.base_cursor(state),
            next_cursor: state.log.next_cursor(),
            created_at: self.created,
            last_activity_at: state.last_activity,
            ended_at: state.ended,
            last_output_at: state.last_output,
            output_bytes: state.output_bytes,
            output: state.output,
            truncated: self.base_cursor(state) > 0,
            spool: self.spool_state(state),
            cpu_ms: exit.map(|exit| u64::try_from(exit.cpu.as_millis()).unwrap_or(u64::MAX)),
            max_rss_bytes: exit.map(|exit| exit.max_rss_bytes),
        }
    }

    /// Where its text goes that memory has no room for.
    pub fn spool(&self) -> Option<&Arc<Spooled>> {
        self.spooling.as_ref().map(|spooling| &spooling.spool)
    }

    /// Cursor of the oldest readable code point, in memory or in the spool, as of `state`, this session's.
    pub fn base_cursor(&self, state: &State) -> u64 {
        let memory = state.log.base_cursor();
        let spooled = self.spool().and_then(|spool| spool.base_before(memory));
        spooled.unwrap_or(memory)
    }

    fn spool_state(&self, state: &State) -> SpoolState {
        match self.spool().map(|spool| spool.state()) {
            None => SpoolState::Off,
            Some(SpoolState::Ok) if state.log.overflows() > 0 => SpoolState::Dropping,
            Some(state) => state,
        }
    }

    /// Waits while the spool is behind and the child is to wait for it. What is left in the pipes of one that has ended waits
    /// for nothing: there is room for it.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn spool_has_room(&self, stop: &Stop) {
        let blocks = |spooling: &Spooling| spooling.when_slow == WhenSlow::Block;
        if !self.spooling.as_ref().is_some_and(blocks) {
            return;
        }
        loop {
            let (moved, changed) = (self.spool_moved.notified(), self.changed.notified());
            tokio::pin!(moved, changed);
            moved.as_mut().enable();
            changed.as_mut().enable();
            {
                let state = self.state();
                if !state.log.is_crowded() || state.status.is_final() {
                    return;
                }
            }
            tokio::select! {
                () = moved => {}
                () = changed => {}
                () = stop.requested() => return,
            }
        }
    }

    /// Its terminal, if it is on one.
    pub fn tty(&self) -> Option<&Tty> {
        self.tty.as_ref()
    }

    /// Has its group get SIGHUP. Harmless on a final session.
    pub fn hang_up(&self) {
        self.state().hang_up = true;
        self.end_requested.notify_one();
    }

    /// Resolves once no more output comes.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn settled(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.state().output != Output::Open {
                return;
            }
            changed.await;
        }
    }

    /// Whether the status can change no more.
    pub fn is_final(&self) -> bool {
        self.state().status.is_final()
    }

    /// Asks for the end; the driver takes it up. Harmless on a final session.
    pub fn request_end(&self, reason: Reason, grace: Duration) {
        let kill_at = Instant::now() + grace;
        {
            let mut state = self.state();
            let merged = match state.end_request {
                Some(earlier) => EndRequest {
                    reason: earlier.reason,
                    kill_at: earlier.kill_at.min(kill_at),
                },
                None => EndRequest { reason, kill_at },
            };
            state.end_request = Some(merged);
        }
        self.end_requested.notify_one();
    }

    /// Resolves once the status is final.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn ended(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, or a change between the two would be missed.
            changed.as_mut().enable();
            if self.is_final() {
                return;
            }
            changed.await;
        }
    }

    /// Puts a write in the queue, at once. Gives it back when the writer is gone or the queue is full.
    pub fn enqueue(&self, job: WriteJob) -> Result<(), mpsc::error::TrySendError<WriteJob>> {
        self.writes.try_send(job)
    }

    /// Resolves once what a pump had taken by now is in the log. The writer runs between a pump's steps, each of which goes from
    /// a read to the log, and after earlier writes.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn caught_up(&self) {
        let (reply, passed) = oneshot::channel();
        let nothing = WriteJob {
            text: Bytes::new(),
            close: false,
            reply,
        };
        // A full queue, or none any more: then somebody else will look again.
        if self.enqueue(nothing).is_ok() {
            passed.await.ok();
        }
    }

    /// A write was cancelled: what the child has of it is not known, so its input ends here.
    pub fn abandon_input(&self) {
        {
            let mut state = self.state();
            if state.status.is_final() {
                return;
            }
            state.stdin_closed = true;
            state.input_uncertain = true;
        }
        self.input_cut.notify_one();
    }
}
