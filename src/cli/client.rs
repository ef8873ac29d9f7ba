//! This program as an MCP client sees it: started anew over a pair of pipes, spoken to through the SDK's own client.

use std::{io, process::Stdio, time::Duration};

use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, JsonObject},
    service::{RunningService, serve_client},
};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

/// A running server and the client that started it.
pub(super) struct Client {
    service: RunningService<RoleClient, ()>,
    server: Child,
}

impl Client {
    /// Starts `sluicegate stdio` with further arguments and shakes hands. The server's stderr is this process's.
    pub(super) async fn start(arguments: &[&str]) -> io::Result<Self> {
        let mut server = Command::new(super::this_program()?)
            .arg("stdio")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = server.stdout.take().zip(server.stdin.take());
        let pipes = pipes.ok_or_else(|| io::Error::other("the server's pipes are missing"))?;
        let service = serve_client((), pipes).await.map_err(io::Error::other)?;
        Ok(Self { service, server })
    }

    /// Calls a tool. The answer is its `structuredContent`, whether it says `ok` or not.
    ///
    /// # Errors
    /// The call could not be made, or was not answered in the form that the tools promise.
    pub(super) async fn call(&self, tool: &'static str, arguments: Value) -> io::Result<Value> {
        let arguments: JsonObject = serde_json::from_value(arguments).map_err(io::Error::other)?;
        let call = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self
            .service
            .call_tool(call)
            .await
            .map_err(io::Error::other)?;
        result
            .structured_content
            .ok_or_else(|| io::Error::other(format!("{tool} answered without structuredContent")))
    }

    /// As [`Client::call`], but an answer that isn't `ok` is an error too.
    pub(super) async fn expect(&self, tool: &'static str, arguments: Value) -> io::Result<Value> {
        let answer = self.call(tool, arguments).await?;
        if answer["ok"] == json!(true) {
            return Ok(answer);
        }
        Err(io::Error::other(format!("{tool}: {}", answer["error"])))
    }

    /// Process id of the server.
    pub(super) fn pid(&self) -> Option<u32> {
        self.server.id()
    }

    /// Closes the server's stdin and waits for its exit.
    pub(super) async fn close(self) -> io::Result<std::process::ExitStatus> {
        let Self {
            service,
            mut server,
        } = self;
        service.cancel().await.map_err(io::Error::other)?;
        tokio::time::timeout(Duration::from_secs(5), server.wait())
            .await
            .map_err(|_| {
                io::Error::other("the server did not exit within 5 s of its stdin's end")
            })?
    }
}
