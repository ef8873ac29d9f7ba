//! The layer as a client meets it: real descriptors, rmcp's service loop, lines in and lines out.

mod arguments;
mod notices;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{CallToolRequestParams, CallToolResponse},
    service::RequestContext,
};
use serde_json::{Value, json};

use super::*;
use crate::{audit::Log, config::limits::MAX_CALLS_IN_FLIGHT};

/// What the client side of a connection is.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Pipes,
    Sockets,
}

struct Client {
    /// Absent once the client has closed it.
    to: Option<File>,
    from: BufReader<File>,
    server: JoinHandle<Ended>,
    shutdown: CancellationToken,
}

fn descriptors(kind: Kind) -> (Protocol, OwnedFd, OwnedFd) {
    match kind {
        Kind::Pipes => {
            let (input, to) = io::pipe().unwrap();
            let (from, output) = io::pipe().unwrap();
            (
                Protocol::over(input.into(), output.into()),
                to.into(),
                from.into(),
            )
        }
        Kind::Sockets => {
            let (input, to) = UnixStream::pair().unwrap();
            let (from, output) = UnixStream::pair().unwrap();
            (
                Protocol::over(input.into(), output.into()),
                to.into(),
                from.into(),
            )
        }
    }
}

impl Client {
    /// Connects to a server that runs `main` on a thread and runtime of its own.
    fn connect<F>(
        kind: Kind,
        main: impl FnOnce(Protocol, CancellationToken) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Ended>,
    {
        let (protocol, to, from) = descriptors(kind);
        let shutdown = CancellationToken::new();
        let token = shutdown.clone();
        let server = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(main(protocol, token))
        });
        Self {
            to: Some(to.into()),
            from: BufReader::new(from.into()),
            server,
            shutdown,
        }
    }

    /// Connects to the five tools.
    fn of_tools(results: Results) -> Self {
        Self::of(tools::tests::settings(results))
    }

    /// Of the tools that these settings turn on.
    fn of(settings: Settings) -> Self {
        Self::connect(Kind::Pipes, move |protocol, shutdown| async move {
            serve(idle_handle(Log::off()), settings, protocol, shutdown)
                .await
                .unwrap()
        })
    }

    fn of_double(kind: Kind) -> (Self, Arc<Seen>) {
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        let client = Self::connect(kind, |protocol, shutdown| async move {
            let ends = transport::Ends {
                service: shutdown.child_token(),
                ..transport::Ends::default()
            };
            let transport = transport::Stdio::new(protocol, Results::Both, ends.clone()).unwrap();
            let double = Double {
                eof: ends.eof.clone(),
                seen: shared,
            };
            run(double, transport, ends, &shutdown).await
        });
        (client, seen)
    }

    fn send_raw(&mut self, bytes: &[u8]) {
        self.to.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn send(&mut self, message: Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    fn call(&mut self, id: u64, tool: &str, arguments: Value) {
        self.send(json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments }
        }));
    }

    fn ping(&mut self, id: u64) {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(
            self.from.read_line(&mut line).unwrap(),
            0,
            "no more replies"
        );
        serde_json::from_str(&line).unwrap()
    }

    /// Closes the client's sending side and returns how the server ended.
    fn close(mut self) -> Ended {
        drop(self.to.take());
        self.server.join().unwrap()
    }
}

/// A handle for tests that never reach a session.
fn idle_handle(log: Log) -> Handle {
    let config = crate::config::Config::demo(
        std::path::Path::new("/"),
        std::path::Path::new("/nonexistent"),
    );
    let nursery = Arc::new(crate::process::Nursery::start().unwrap());
    Handle::start_engine(config, crate::io::Backend::Epoll, nursery, log, None)
        .unwrap()
        .0
}

/// What the double's handlers saw.
#[derive(Debug, Default)]
struct Seen {
    order: Mutex<Vec<u64>>,
    waiting: AtomicUsize,
}

/// A server with tools that behave as the real ones do at their worst.
struct Double {
    eof: CancellationToken,
    seen: Arc<Seen>,
}

impl ServerHandler for Double {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = context.extensions.get::<wire::Arguments>().unwrap();
        let arguments: Value = serde_json::from_str(arguments.0.get()).unwrap();
        let body = match &*request.name {
            "note" => {
                self.seen
                    .order
                    .lock()
                    .unwrap()
                    .push(arguments["n"].as_u64().unwrap());
                json!({ "ok": true })
            }
            "wait" => {
                self.seen.waiting.fetch_add(1, Ordering::SeqCst);
                tokio::select! {
                    () = self.eof.cancelled() => json!({ "ok": true, "cut": true }),
                    () = context.ct.cancelled() => json!({ "ok": true, "cancelled": true }),
                }
            }
            "page" => json!({ "ok": true, "text": "x".repeat(65_536) }),
            "hang" => std::future::pending().await,
            other => panic!("no tool {other}"),
        };
        Ok(wire::result(body.to_string(), None, false).into())
    }
}

fn initialize(version: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": version, "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" }
        }
    })
}

#[test]
fn every_revision_is_served() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Client::of_tools(Results::Both);
        client.send(initialize(version));
        let reply = client.receive();
        assert_eq!(reply["result"]["protocolVersion"], version);
        assert_eq!(reply["result"]["serverInfo"]["name"], "sluicegate");
        assert!(reply["result"]["instructions"].is_string());
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client.send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
        let reply = client.receive();
        assert_eq!(reply["result"]["tools"].as_array().unwrap().len(), 5);
        assert!(reply["result"].get("resultType").is_none());
        assert_eq!(client.close(), Ended::InputEnded);
    }
    let mut client = Client::of_tools(Results::Both);
    client.send(initialize("2026-07-28"));
    assert_eq!(client.receive()["result"]["protocolVersion"], "2025-11-25");

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let mut client = Client::of_tools(Results::Both);
    for (id, method, params) in [
        (1, "server/discover", json!({ "_meta": meta })),
        (2, "tools/list", json!({ "_meta": meta })),
        (
            3,
            "tools/call",
            json!({ "_meta": meta, "name": tools::STATUS, "arguments": {} }),
        ),
    ] {
        client.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let reply = client.receive();
        assert_eq!(reply["id"], id);
        assert_eq!(reply["result"]["resultType"], "complete", "{reply}");
    }
    assert_eq!(client.close(), Ended::InputEnded);
}

#[test]
fn bad_arguments_are_results_and_unknown_tools_are_errors() {
    for (results, structured) in [
        (Results::Both, true),
        (Results::Structured, true),
        (Results::Text, false),
    ] {
        let mut client = Client::of_tools(results);
        for arguments in ["[]", "7", "{}", r#"{"session_id":"s","cursor":1e400}"#] {
            client.send_raw(
                format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"terminal_read","arguments":{arguments}}}}}"#
                )
                .as_bytes(),
            );
            client.send_raw(b"\n");
            let reply = client.receive();
            assert_eq!(reply["result"]["isError"], true, "{reply}");
            let text = reply["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("INVALID_ARGUMENT"), "{text}");
            if structured {
                let body = &reply["result"]["structuredContent"];
                assert_eq!(body["error"]["code"], "INVALID_ARGUMENT");
            } else {
                assert!(reply["result"].get("structuredContent").is_none());
            }
        }
        client.call(2, "terminal_sudo", json!({}));
        assert_eq!(client.receive()["error"]["code"], -32602);
        assert_eq!(client.close(), Ended::InputEnded);
    }
}

#[test]
fn a_call_over_the_bound_is_refused_at_once() {
    let mut client = Client::connect(Kind::Pipes, |protocol, shutdown| async move {
        let ends = transport::Ends::default();
        let transport = transport::Stdio::new(protocol, Results::Both, ends.clone()).unwrap();
        let settings = tools::tests::settings(Results::Both);
        let server = server::Server::new(
            idle_handle(Log::off()),
            settings,
            transport.notices(),
            ends.eof.clone(),
        );
        server.calls.forget_permits(MAX_CALLS_IN_FLIGHT);
        run(server, transport, ends, &shutdown).await
    });
    client.call(1, tools::STATUS, json!({ "session_id": "s" }));
    let reply = client.receive();
    assert_eq!(reply["id"], 1);
    assert_eq!(reply["error"]["code"], -32029);
    client.ping(2);
    assert_eq!(client.receive()["id"], 2);
    assert_eq!(client.close(), Ended::InputEnded);
}

#[test]
fn the_log_has_calls_over_the_bound_that_would_have_done_something() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let log = Log::open(&path).unwrap();
    let kept = log.clone();
    let mut client = Client::connect(Kind::Pipes, |protocol, shutdown| async move {
        let ends = transport::Ends::default();
        let transport = transport::Stdio::new(protocol, Results::Both, ends.clone()).unwrap();
        let settings = tools::tests::settings(Results::Both);
        let server = server::Server::new(
            idle_handle(kept),
            settings,
            transport.notices(),
            ends.eof.clone(),
        );
        server.calls.forget_permits(MAX_CALLS_IN_FLIGHT);
        run(server, transport, ends, &shutdown).await
    });
    client.call(
        1,
        tools::START,
        json!({ "command_id": "c", "env": { "A": "secret" } }),
    );
    client.call(2, tools::STATUS, json!({ "session_id": "s" }));
    client.call(
        3,
        tools::WRITE,
        json!({ "session_id": "s", "text": "secret" }),
    );
    client.call(4, tools::TERMINATE, json!({ "session_id": "s" }));
    for _ in 1..=4 {
        assert_eq!(client.receive()["error"]["code"], -32029);
    }
    assert_eq!(client.close(), Ended::InputEnded);
    assert!(log.flush(Instant::now() + Duration::from_secs(30)));
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |field: &str| -> Vec<&Value> { lines.iter().map(|line| &line[field]).collect() };
    assert_eq!(of("event"), ["start_refused", "write", "terminate"]);
    assert_eq!(of("outcome"), ["TOO_MANY_CALLS"; 3]);
    assert_eq!(lines[0]["command_id"], "c");
    assert_eq!(lines[1]["session_id"], "s");
    assert!(!text.contains("secret"));
}

#[test]
fn a_stray_notification_and_malformed_lines_end_nothing() {
    for kind in [Kind::Pipes, Kind::Sockets] {
        let (mut client, _) = Client::of_double(kind);
        client.send(json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 77 }
        }));
        client.send_raw(b"not json\n{\n[]\n\"\"\n\n\r\n\xFF\xFE\n{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n");
        client.send_raw(b"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"ping\"}\r\n");
        client.ping(9);
        let mut ids = [client.receive(), client.receive()].map(|reply| reply["id"].as_u64());
        ids.sort();
        assert_eq!(ids, [Some(8), Some(9)], "{kind:?}");
        assert_eq!(client.close(), Ended::InputEnded);
    }
}

#[test]
fn an_over_long_frame_is_answered_under_its_own_id() {
    for kind in [Kind::Pipes, Kind::Sockets] {
        let (mut client, _) = Client::of_double(kind);
        let pad = "x".repeat(4 << 20);
        // The id comes last, as the TypeScript SDK writes it, and once not at all.
        client.send_raw(
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"pad\":\"{pad}\",\"id\":\"big\"}}\n{{\"pad\":\"{pad}\"}}\n")
                .as_bytes(),
        );
        let reply = client.receive();
        assert_eq!(reply["id"], "big");
        assert_eq!(reply["error"]["code"], -32600);
        client.ping(2);
        assert_eq!(client.receive()["id"], 2, "{kind:?}");
        assert_eq!(client.close(), Ended::InputEnded);
    }
}

#[test]
fn a_last_line_without_newline_is_answered() {
    let (mut client, _) = Client::of_double(Kind::Pipes);
    client.send_raw(br#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#);
    drop(client.to.take());
    assert_eq!(client.receive()["id"], 5);
    assert_eq!(client.close(), Ended::InputEnded);
}

#[test]
fn calls_reach_their_handlers_in_order_of_arrival() {
    let (mut client, seen) = Client::of_double(Kind::Pipes);
    for n in 0..300 {
        client.call(n, "note", json!({ "n": n }));
    }
    for _ in 0..300 {
        client.receive();
    }
    assert_eq!(*seen.order.lock().unwrap(), (0..300).collect::<Vec<_>>());
    assert_eq!(client.close(), Ended::InputEnded);
}

#[test]
fn the_end_of_input_cuts_waits_short_and_they_are_answered() {
    for kind in [Kind::Pipes, Kind::Sockets] {
        let (mut client, _) = Client::of_double(kind);
        for id in 0..10 {
            client.call(id, "wait", json!({}));
        }
        drop(client.to.take());
        for _ in 0..10 {
            assert_eq!(client.receive()["result"]["structuredContent"]["cut"], true);
        }
        assert_eq!(client.close(), Ended::InputEnded, "{kind:?}");
    }
}

#[test]
fn a_wait_delays_nothing_and_its_cancellation_is_silent() {
    let (mut client, seen) = Client::of_double(Kind::Pipes);
    client.call(1, "wait", json!({}));
    client.ping(2);
    assert_eq!(client.receive()["id"], 2);
    assert_eq!(seen.waiting.load(Ordering::SeqCst), 1);
    client.send(json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 }
    }));
    client.ping(3);
    assert_eq!(client.receive()["id"], 3);
    drop(client.to.take());
    let mut rest = String::new();
    assert_eq!(client.from.read_line(&mut rest).unwrap(), 0, "{rest}");
}

#[test]
fn shutdown_ends_the_service_while_input_stays_open() {
    for kind in [Kind::Pipes, Kind::Sockets] {
        let (mut client, _) = Client::of_double(kind);
        client.call(1, "wait", json!({}));
        client.ping(2);
        assert_eq!(client.receive()["id"], 2);
        client.shutdown.cancel();
        assert_eq!(
            client.receive()["result"]["structuredContent"]["cancelled"],
            true
        );
        let Client { to, server, .. } = client;
        assert_eq!(server.join().unwrap(), Ended::Shutdown, "{kind:?}");
        drop(to);
    }
}

#[test]
fn a_client_that_is_gone_ends_the_service() {
    for kind in [Kind::Pipes, Kind::Sockets] {
        let (client, _) = Client::of_double(kind);
        let Client {
            to, from, server, ..
        } = client;
        drop(from);
        let mut to = to.unwrap();
        to.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
            .unwrap();
        assert_eq!(server.join().unwrap(), Ended::ClientGone, "{kind:?}");
    }
}

#[test]
fn neither_an_unread_client_nor_a_call_without_end_holds_the_server() {
    let (mut client, _) = Client::of_double(Kind::Pipes);
    for id in 0..20 {
        client.call(id, "page", json!({}));
    }
    // Far more than the pipe holds is waiting; nothing is read.
    assert_eq!(client.close(), Ended::InputEnded);

    // The same past the bound of unread replies, where the server no longer reads its input.
    for kind in [Kind::Pipes, Kind::Sockets] {
        let (mut client, _) = Client::of_double(kind);
        for id in 0..200 {
            client.call(id, "page", json!({}));
        }
        assert_eq!(client.close(), Ended::InputEnded, "{kind:?}");
    }

    let (mut client, _) = Client::of_double(Kind::Sockets);
    client.call(1, "hang", json!({}));
    client.shutdown.cancel();
    assert_eq!(client.server.join().unwrap(), Ended::Shutdown);
}

#[test]
fn nothing_is_received_while_too_much_is_unread() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        use rmcp::{model::ServerResult, transport::Transport};

        let (protocol, to, from) = descriptors(Kind::Pipes);
        let ends = transport::Ends::default();
        let mut transport = transport::Stdio::new(protocol, Results::Both, ends.clone()).unwrap();
        let body = json!({ "ok": true, "text": "x".repeat(65_536) }).to_string();
        for id in 0..80 {
            let result = wire::result(body.clone(), None, false);
            let message = rmcp::model::JsonRpcMessage::response(
                ServerResult::CallToolResult(result),
                rmcp::model::RequestId::Number(id),
            );
            tokio::spawn(transport.send(message));
        }
        let mut to = File::from(to);
        to.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n")
            .unwrap();
        // The message is there, and is left there: 10 MiB of replies are waiting.
        for _ in 0..100 {
            tokio::select! {
                biased;
                _ = transport.receive() => panic!("received under pressure"),
                () = tokio::task::yield_now() => {}
            }
        }
        let reader = thread::spawn(move || {
            let mut from = BufReader::new(File::from(from));
            let mut line = String::new();
            for id in 0..80 {
                line.clear();
                from.read_line(&mut line).unwrap();
                assert!(line.starts_with(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},")));
            }
        });
        assert!(transport.receive().await.is_some());
        tokio::task::spawn_blocking(|| reader.join().unwrap())
            .await
            .unwrap();
        transport.close().await.unwrap();
    });
}

#[test]
fn closing_does_not_wait_for_a_full_pipe() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        use rmcp::{model::ServerResult, transport::Transport};

        let (protocol, _to, _from) = descriptors(Kind::Pipes);
        let ends = transport::Ends::default();
        let mut transport = transport::Stdio::new(protocol, Results::Both, ends.clone()).unwrap();
        let body = json!({ "ok": true, "text": "x".repeat(200_000) }).to_string();
        let result = wire::result(body, None, false);
        let message = rmcp::model::JsonRpcMessage::response(
            ServerResult::CallToolResult(result),
            rmcp::model::RequestId::Number(1),
        );
        let sending = tokio::spawn(transport.send(message));
        let closing = tokio::spawn(async move { transport.close().await });
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(!sending.is_finished() && !closing.is_finished());
        ends.closing.cancel();
        sending.await.unwrap().unwrap();
        closing.await.unwrap().unwrap();
    });
}
