//! What each session tool does with its arguments.

use std::{
    future::{Future, poll_fn},
    task::Poll,
};

use rmcp::model::CallToolResult;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::{
    args,
    reply::{self, Answer},
    tools,
};
use crate::{
    audit::{Client, Log},
    config::Results,
    interactive::{Failure, FailureKind, Interactive},
    mcp::{
        args::{BadArgument, read},
        unserved,
    },
    supervisor::refusal::Code,
};

/// The session tools of one client.
#[derive(Debug)]
pub(in crate::mcp) struct Calls {
    interactive: Interactive,
    results: Results,
}

/// A call that is on its way.
#[derive(Debug)]
pub(in crate::mcp) struct Call<'a> {
    /// One of the session tools.
    pub(in crate::mcp) tool: &'a str,
    pub(in crate::mcp) arguments: Option<&'a str>,
    pub(in crate::mcp) client: Option<Client>,
    /// Where a call is told of that nothing was done for.
    pub(in crate::mcp) log: &'a Log,
    /// The client takes it back.
    pub(in crate::mcp) cancelled: &'a CancellationToken,
    /// Input has ended, and waits with it.
    pub(in crate::mcp) eof: &'a CancellationToken,
}

impl Calls {
    pub(in crate::mcp) fn new(interactive: Interactive, results: Results) -> Self {
        Self {
            interactive,
            results,
        }
    }

    /// Serves the call.
    pub(in crate::mcp) async fn result(&self, call: Call<'_>) -> CallToolResult {
        let outcome = self.serve(&call).await;
        outcome.unwrap_or_else(|failure| {
            if let Failure::Error {
                kind: FailureKind::ValidationError,
                ..
            } = failure
            {
                let code = Code::InvalidArgument.as_str();
                let client = call.client.as_ref();
                unserved::log(call.log, call.tool, call.arguments, client, code);
            }
            reply::failure(call.tool, &failure, self.results)
        })
    }

    async fn serve(&self, call: &Call<'_>) -> Result<CallToolResult, Failure> {
        let client = call.client.clone();
        let sessions = &self.interactive;
        match call.tool {
            tools::CREATE => {
                let request = arguments::<args::Create>(call)?.request(client);
                self.told(sessions.create(request, over(call)).await)
            }
            tools::SEND => {
                let request = arguments::<args::Send>(call)?.request(client);
                self.told(sessions.send(request.map_err(bad)?, over(call)).await)
            }
            tools::READ => {
                let request = arguments::<args::Read>(call)?.into();
                self.told(sessions.read(request, over(call)).await)
            }
            tools::RESIZE => {
                let request = arguments::<args::Resize>(call)?.into();
                self.told(sessions.resize(request, over(call)).await)
            }
            tools::CLOSE => {
                let request = arguments::<args::Close>(call)?.request(client);
                self.told(sessions.close(request, over(call)).await)
            }
            tools::EXEC => {
                let request = arguments::<args::Exec>(call)?.request(client);
                self.told(sessions.exec(request, over(call)).await)
            }
            tools::INTERACT => {
                let request = arguments::<args::Interact>(call)?.request(client);
                self.told(sessions.interact(request.map_err(bad)?, over(call)).await)
            }
            tools::WAIT_FOR => {
                let request = arguments::<args::WaitFor>(call)?.into();
                self.told(sessions.wait_for(request, over(call)).await)
            }
            _ => {
                let args::List {} = arguments(call)?;
                self.told(sessions.list(over(call)).await)
            }
        }
    }

    fn told<A: Answer>(&self, answer: Result<A, Failure>) -> Result<CallToolResult, Failure> {
        Ok(reply::success(&answer?, self.results))
    }
}

fn arguments<A: DeserializeOwned>(call: &Call<'_>) -> Result<A, Failure> {
    read(call.arguments).map_err(bad)
}

fn bad(BadArgument(message): BadArgument) -> Failure {
    Failure::Error {
        kind: FailureKind::ValidationError,
        message,
    }
}

/// Until nobody waits for the answer any more. Unlike an async block it may be polled again after that: a call has several
/// waits to cut short.
fn over<'a>(call: &'a Call<'_>) -> impl Future<Output = ()> + 'a {
    let mut cancelled = Box::pin(call.cancelled.cancelled());
    let mut eof = Box::pin(call.eof.cancelled());
    poll_fn(
        move |context| match (cancelled.as_mut().poll(context), eof.as_mut().poll(context)) {
            (Poll::Pending, Poll::Pending) => Poll::Pending,
            _ => Poll::Ready(()),
        },
    )
}
