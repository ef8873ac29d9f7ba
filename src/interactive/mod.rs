//! Terminals for a client that types, reads and waits: what the nine session tools do.
//!
//! The layer knows sessions by the supervisor's handle only. It keeps what a handle doesn't know: how far each session
//! was read, what was typed last, and when it has been idle for too long.

mod echo;
mod gate;
mod prompt;
mod requests;
mod settle;
mod truncate;

pub use crate::config::Access;
pub use crate::screen::{Key, Size};
pub use requests::{
    ChangedLine, CloseAnswer, CloseRequest, CreateAnswer, CreateRequest, DEFAULT_SCROLLBACK,
    DEFAULT_SHELL, DEFAULT_TIMEOUT, DEFAULT_WAIT, ExecAnswer, ExecRequest, Failure, FailureKind,
    Input, InteractAnswer, InteractRequest, ListAnswer, ListedSession, ReadAnswer, ReadMode,
    ReadRequest, ResizeAnswer, ResizeRequest, Secret, SendAnswer, SendRequest, ShellState,
    WaitAnswer, WaitRequest,
};

// STUB
use crate::{config::SessionSettings, supervisor::handle::Handle};
/// stub
#[derive(Debug)]
pub struct Interactive;
#[allow(missing_docs, clippy::all)]
impl Interactive {
    pub fn new(_: Handle, _: SessionSettings, _: Access) -> Self {
        Self
    }
    pub async fn create(
        &self,
        _: CreateRequest,
        _: impl Future<Output = ()>,
    ) -> Result<CreateAnswer, Failure> {
        loop {}
    }
    pub async fn send(
        &self,
        _: SendRequest,
        _: impl Future<Output = ()>,
    ) -> Result<SendAnswer, Failure> {
        loop {}
    }
    pub async fn read(
        &self,
        _: ReadRequest,
        _: impl Future<Output = ()>,
    ) -> Result<ReadAnswer, Failure> {
        loop {}
    }
    pub async fn resize(
        &self,
        _: ResizeRequest,
        _: impl Future<Output = ()>,
    ) -> Result<ResizeAnswer, Failure> {
        loop {}
    }
    pub async fn close(
        &self,
        _: CloseRequest,
        _: impl Future<Output = ()>,
    ) -> Result<CloseAnswer, Failure> {
        loop {}
    }
    pub async fn exec(
        &self,
        _: ExecRequest,
        _: impl Future<Output = ()>,
    ) -> Result<ExecAnswer, Failure> {
        loop {}
    }
    pub async fn interact(
        &self,
        _: InteractRequest,
        _: impl Future<Output = ()>,
    ) -> Result<InteractAnswer, Failure> {
        loop {}
    }
    pub async fn wait_for(
        &self,
        _: WaitRequest,
        _: impl Future<Output = ()>,
    ) -> Result<WaitAnswer, Failure> {
        loop {}
    }
    pub async fn list(&self, _: impl Future<Output = ()>) -> Result<ListAnswer, Failure> {
        loop {}
    }
}
