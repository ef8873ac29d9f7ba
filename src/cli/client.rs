//! This program as an MCP client sees it: started anew over a pair of pipes, spoken to through the SDK's own client.

use std::{io, path::Path, process::ExitStatus, process::Stdio, time::Duration};

use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, Implementation, JsonObject},
    service::{RunningService, serve_client},
};
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt,
    process::{Child, ChildStderr, Command},
    task::JoinHandle,
};

use super::stdio::IoChoice;

/// How much of the server's stderr is kept. Its logs are a few lines; the rest is read and dropped.
const STDERR_BYTES: usize = 16 * 1024;
/// How long the server may take to be gone once its stdin has ended. It promises 3 s.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// A running server and the client that started it.
pub(super) struct Client {
    service: RunningService<RoleClient, ()>,
    server: Child,
    stderr: JoinHandle<String>,
}

/// A server that is gone.
#[derive(Debug)]
pub(super) struct Closed {
    /// How it ended.
    pub(super) status: ExitStatus,
    /// What it had to say.
    pub(super) stderr: String,
}

/// Name and version of the SDK.
pub(super) fn sdk() -> String {
    let sdk = Implementation::from_build_env();
    format!("{} {}", sdk.name, sdk.version)
}

impl Client {
    /// Starts `sluicegate stdio` and shakes hands.
    ///
    /// # Errors
    /// The server can't be started or doesn't come up; what it said on stderr is in the error.
    pub(super) async fn start(config: Option<&Path>, io: IoChoice) -> io::Result<Client> {
        let mut command = Command::new(super::this_program()?);
        command.args(["stdio", "--io", io.as_str()]);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        let mut server = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(stdout), Some(stdin), Some(stderr)) = (
            server.stdout.take(),
            server.stdin.take(),
            server.stderr.take(),
        ) else {
            return Err(io::Error::other("the server's pipes are missing"));
        };
        let stderr = tokio::spawn(kept(stderr));
        match serve_client((), (stdout, stdin)).await {
            Ok(service) => Ok(Client {
                service,
                server,
                stderr,
            }),
            Err(error) => {
                // It ended its stdout, which it does at its exit; should it hang, what it has said is not to be had.
                let limit = tokio::time::timeout(CLOSE_LIMIT, stderr).await;
                let said = limit.ok().and_then(Result::ok).unwrap_or_default();
                let said = said.trim_start_matches("sluicegate: ").trim_end();
                Err(if said.is_empty() {
                    io::Error::other(format!("the server did not come up: {error}"))
                } else {
                    io::Error::other(format!("the server did not come up: {said}"))
                })
            }
        }
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

    /// The tools as the server lists them.
    pub(super) async fn tools(&self) -> io::Result<Vec<Value>> {
        let tools = self
            .service
            .list_all_tools()
            .await
            .map_err(io::Error::other)?;
        tools
            .iter()
            .map(|tool| serde_json::to_value(tool).map_err(io::Error::from))
            .collect()
    }

    /// The revision of the protocol that was agreed on.
    pub(super) fn protocol(&self) -> Option<String> {
        self.service
            .peer_info()
            .map(|server| server.protocol_version.to_string())
    }

    /// Process id of the server.
    pub(super) fn pid(&self) -> Option<u32> {
        self.server.id()
    }

    /// Closes the server's stdin and waits for its exit.
    ///
    /// # Errors
    /// It is still there after 5 s. It is killed then.
    pub(super) async fn close(self) -> io::Result<Closed> {
        self.service.cancel().await.map_err(io::Error::other)?;
        ended(self.server, self.stderr).await
    }

    /// Kills the server, which can do nothing about it, and waits for its exit.
    pub(super) async fn kill(mut self) -> io::Result<Closed> {
        self.server.start_kill()?;
        ended(self.server, self.stderr).await
    }
}

async fn ended(mut server: Child, stderr: JoinHandle<String>) -> io::Result<Closed> {
    let gone = async {
        let status = server.wait().await?;
        let stderr = stderr.await.map_err(io::Error::other)?;
        Ok(Closed { status, stderr })
    };
    tokio::time::timeout(CLOSE_LIMIT, gone)
        .await
        .map_err(|_| io::Error::other("the server did not exit within 5 s of its stdin's end"))?
}

/// The beginning of the stream, which is read to its end: a server must not be held up by a full pipe.
async fn kept(mut stderr: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        let room = STDERR_BYTES - kept.len();
        kept.extend_from_slice(&piece[..read.min(room)]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}
