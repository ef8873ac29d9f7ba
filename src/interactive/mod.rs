//! Terminals for a client that types, reads and waits: what the nine session tools do.
//!
//! The layer knows sessions by the supervisor's handle only. It keeps what a handle doesn't know: how far each session
//! was read, what was typed last, and when it has been idle for too long.
//!
//! - `requests` what is asked and answered; `failures` how a refusal is told
//! - `registry` the sessions of these tools; `creating`, `closing` their start and end
//! - `sending` types; `gate` stops what looks destructive
//! - `reading` returns the stream or the screen; `stream` takes text, `truncate` cuts it; `settle` says when output has
//!   settled, `prompt` whether a line asks for input
//! - `waiting` waits for patterns; `echo` keeps what was typed out of them
//! - `executing` runs one command from start to end; `script` is what a shell is given for that

mod closing;
mod creating;
mod echo;
mod executing;
mod failures;
mod gate;
mod prompt;
mod reading;
mod registry;
mod requests;
mod script;
mod sending;
mod settle;
mod stream;
mod truncate;
mod waiting;

use std::{
    future::Future,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use gate::Gate;
use registry::Registry;

use crate::{config::SessionSettings, screen::Screen, supervisor::handle::Handle};

pub use crate::config::Access;
pub use crate::screen::{Key, Size};
pub use requests::{
    ChangedLine, CloseAnswer, CloseRequest, CreateAnswer, CreateRequest, DEFAULT_SCROLLBACK,
    DEFAULT_SHELL, DEFAULT_TIMEOUT, DEFAULT_WAIT, ExecAnswer, ExecRequest, Failure, FailureKind,
    Input, InteractAnswer, InteractRequest, ListAnswer, ListedSession, ReadAnswer, ReadMode,
    ReadRequest, ResizeAnswer, ResizeRequest, Secret, SendAnswer, SendRequest, ShellState,
    WaitAnswer, WaitRequest,
};

/// The session tools. Each call takes a future that resolves when nobody waits for its answer any more; what such a call
/// would have read is left for the next one.
#[derive(Debug)]
pub struct Interactive {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    handle: Handle,
    settings: SessionSettings,
    access: Access,
    gate: Gate,
    registry: Arc<Registry>,
}

impl Interactive {
    /// The tools over the sessions of `handle`, by settings that were checked.
    pub fn new(handle: Handle, settings: SessionSettings, access: Access) -> Interactive {
        let gate = Gate::new(settings.safety_gate, &settings.dangerous_patterns);
        let registry = Arc::new(Registry::new(handle.clone(), &settings));
        Interactive {
            shared: Arc::new(Shared {
                handle,
                settings,
                access,
                gate,
                registry,
            }),
        }
    }

    /// `session_create`.
    ///
    /// # Cancel safety
    /// Dropped while the program is being started, it is killed; the session of a call that is dropped later goes on.
    ///
    /// # Errors
    /// The command is none that may be started, it can't be started, or as many run as may.
    pub async fn create(
        &self,
        request: CreateRequest,
        over: impl Future<Output = ()>,
    ) -> Result<CreateAnswer, Failure> {
        self.shared.create(request, over).await
    }

    /// `session_send`.
    ///
    /// # Cancel safety
    /// Dropped, the input is typed all the same.
    ///
    /// # Errors
    /// No such session, its end, input that is none or has to be confirmed.
    pub async fn send(
        &self,
        request: SendRequest,
        over: impl Future<Output = ()>,
    ) -> Result<SendAnswer, Failure> {
        self.shared.send(request, over).await
    }

    /// `session_read`.
    ///
    /// # Cancel safety
    /// Dropped, nothing counts as read.
    ///
    /// # Errors
    /// No such session.
    pub async fn read(
        &self,
        request: ReadRequest,
        over: impl Future<Output = ()>,
    ) -> Result<ReadAnswer, Failure> {
        self.shared.read(request, over).await
    }

    /// `session_resize`.
    ///
    /// # Errors
    /// No such session, or its end.
    pub async fn resize(
        &self,
        request: ResizeRequest,
        _over: impl Future<Output = ()>,
    ) -> Result<ResizeAnswer, Failure> {
        let ResizeRequest { session_id, size } = request;
        let shared = &self.shared;
        let entry = shared.registry.find(&session_id)?;
        let resized = shared.handle.resize(&entry.id, size);
        resized.map_err(failures::refused(FailureKind::ResizeError))?;
        Ok(ResizeAnswer {
            rows: size.rows,
            cols: size.cols,
        })
    }

    /// `session_close`.
    ///
    /// # Cancel safety
    /// Dropped, the session is closed all the same.
    ///
    /// # Errors
    /// The session is not on a terminal.
    pub async fn close(
        &self,
        request: CloseRequest,
        over: impl Future<Output = ()>,
    ) -> Result<CloseAnswer, Failure> {
        self.shared.close(request, over).await
    }

    /// `session_exec`.
    ///
    /// # Cancel safety
    /// Dropped, the command is ended.
    ///
    /// # Errors
    /// As [`Interactive::create`].
    pub async fn exec(
        &self,
        request: ExecRequest,
        over: impl Future<Output = ()>,
    ) -> Result<ExecAnswer, Failure> {
        self.shared.exec(request, over).await
    }

    /// `session_interact`.
    ///
    /// # Cancel safety
    /// Dropped, the input is typed all the same, and nothing counts as read.
    ///
    /// # Errors
    /// As [`Interactive::send`], and a pattern that is none, before anything is typed.
    pub async fn interact(
        &self,
        request: InteractRequest,
        over: impl Future<Output = ()>,
    ) -> Result<InteractAnswer, Failure> {
        self.shared.interact(request, over).await
    }

    /// `session_wait_for`.
    ///
    /// # Cancel safety
    /// Dropped, nothing counts as read.
    ///
    /// # Errors
    /// No such session, or a pattern that is none.
    pub async fn wait_for(
        &self,
        request: WaitRequest,
        over: impl Future<Output = ()>,
    ) -> Result<WaitAnswer, Failure> {
        self.shared.wait_for(request, over).await
    }

    /// `session_list`.
    ///
    /// # Errors
    /// None.
    pub async fn list(&self, _over: impl Future<Output = ()>) -> Result<ListAnswer, Failure> {
        let shared = &self.shared;
        let sessions = shared.registry.all().into_iter();
        let listed = sessions.filter_map(|(entry, snapshot)| {
            let screen = |screen: &Screen| (screen.size(), screen.alternate());
            // One that has just been forgotten is none any more.
            let (size, tui_active) = shared.handle.screen(&entry.id, screen).ok()?;
            let idle = registry::idle(&snapshot).as_secs_f64();
            Some(ListedSession {
                session_id: entry.id.clone(),
                label: entry.label.clone(),
                command: entry.command.clone(),
                pid: snapshot.process_id,
                is_alive: !snapshot.status.is_final(),
                created_at: seconds(snapshot.created_at),
                last_activity: seconds(snapshot.last_activity_at),
                idle_seconds: (idle * 10.0).round() / 10.0,
                tui_active,
                snapshot_available: true,
                rows: size.rows,
                cols: size.cols,
            })
        });
        let sessions: Vec<ListedSession> = listed.collect();
        Ok(ListAnswer {
            count: sessions.len(),
            sessions,
        })
    }
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}
