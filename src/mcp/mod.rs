//! The wire: MCP over the two descriptors that the client handed over.
//!
//! A request's way: `frame` cuts it out of the stream, `wire` reads it, `server` dispatches it, `args` checks what it
//! asks, the supervisor's handle does it, `reply` puts the outcome into words, `wire` writes it, `transport` sends it.
//! This layer owns the protocol and nothing of the sessions: signals and the end of sessions are its caller's.

use std::{io, time::Duration};

use rmcp::service::serve_directly_with_ct;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Access, Config, Profile, Results, SessionSettings, Toolsets},
    supervisor::handle::Handle,
};

mod args;
mod blocking;
mod failure;
mod frame;
mod id_scan;
mod json_string;
mod progress;
mod reply;
mod resources;
mod schema;
mod server;
mod session;
pub mod stdio;
mod subscriptions;
#[cfg(test)]
mod tests;
mod tools;
mod transport;
mod unserved;
mod wire;

pub use stdio::Protocol;

/// How long answers may take after input has ended or the server was told to stop. Covers a write's full time, and leaves a
/// process that has 3 s to exit the time to end its sessions. A client that takes none of them is given up sooner.
pub const GRACE: Duration = Duration::from_millis(1_500);

/// What the tools show of the Owner's config, and what they check themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Approved commands, in the config's order.
    pub profiles: Vec<Profile>,
    /// See [`Limits`].
    pub limits: Limits,
    /// Layout of results.
    pub results: Results,
    /// Which tools there are.
    pub toolsets: Toolsets,
    /// What the session tools may start.
    pub access: Access,
    /// What the session tools go by.
    pub session: SessionSettings,
}

impl Settings {
    /// What the Owner says of a command.
    fn description(&self, command_id: &str) -> Option<&str> {
        let mut profiles = self.profiles.iter();
        let profile = profiles.find(|profile| profile.id == command_id);
        profile.and_then(|profile| profile.description.as_deref())
    }
}

/// The Owner's bounds that clients are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest lifetime that a client may ask for.
    pub max_timeout_ms: u64,
    /// UTF-8 bytes of one write.
    pub max_input_bytes: usize,
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        Self {
            profiles: config.commands.clone(),
            limits: Limits {
                max_timeout_ms: config.max_timeout_ms,
                max_input_bytes: config.max_input_bytes,
            },
            results: config.results,
            toolsets: config.toolsets,
            access: config.session_commands,
            session: config.session.clone(),
        }
    }
}

/// Why serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Input ended. What was received before has been answered, as far as that took no longer than the grace.
    InputEnded,
    /// The client takes no more replies.
    ClientGone,
    /// The caller said so.
    Shutdown,
}

impl Ended {
    /// Its name in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Ended::InputEnded => "input_ended",
            Ended::ClientGone => "client_gone",
            Ended::Shutdown => "shutdown",
        }
    }
}

/// Serves one client until input ends, the client is gone, or `shutdown` is cancelled; and no more than 1.5 s longer, even
/// when the client doesn't read. To be called on a current-thread runtime with I/O and time enabled: calls keep the order of
/// their arrival only there.
///
/// # Errors
///
/// When the descriptors can't be made ready.
///
/// # Cancel safety
///
/// Dropping the future ends the service as `shutdown` does, without waiting for it.
pub async fn serve(
    handle: Handle,
    settings: Settings,
    protocol: Protocol,
    shutdown: CancellationToken,
) -> io::Result<Ended> {
    let ends = transport::Ends {
        service: shutdown.child_token(),
        ..transport::Ends::default()
    };
    let transport = transport::Stdio::new(protocol, settings.results, ends.clone())?;
    let server = server::Server::new(handle, settings, transport.notices(), ends.eof.clone());
    Ok(run(server, transport, ends, &shutdown).await)
}

/// Runs any server over the transport: the part of [`serve`] that knows nothing of the tools.
async fn run<S: rmcp::ServerHandler>(
    server: S,
    transport: transport::Stdio,
    ends: transport::Ends,
    shutdown: &CancellationToken,
) -> Ended {
    // Directly: the usual start waits for `initialize` and gives up at any notification that comes before it. Requests before
    // `initialize` are answered, as the stateless revision wants anyway.
    let stalled = transport.stalled();
    let service = serve_directly_with_ct(server, transport, None, ends.service.clone());
    let mut waiting = std::pin::pin!(service.waiting());
    let ended = async {
        tokio::select! {
            () = ends.eof.cancelled() => {}
            () = ends.service.cancelled() => {}
        }
        tokio::select! {
            () = tokio::time::sleep(GRACE) => {}
            () = stalled => {}
        }
    };
    let outcome = tokio::select! {
        biased;
        outcome = &mut waiting => Some(outcome),
        () = ended => None,
    };
    match outcome {
        Some(Ok(reason)) => tracing::debug!(?reason, "the service ended"),
        Some(Err(error)) => tracing::error!(%error, "the service broke down"),
        None => tracing::warn!("the client left replies unread, or a call outlasted its grace"),
    }
    // Whatever still wants to write gives up here; the service's task then ends by itself.
    ends.closing.cancel();
    if ends.gone.is_cancelled() {
        Ended::ClientGone
    } else if shutdown.is_cancelled() {
        Ended::Shutdown
    } else {
        Ended::InputEnded
    }
}
