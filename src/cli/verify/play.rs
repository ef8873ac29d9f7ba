//! One scenario being played: a server of its own, a client, and a record of all that is asked, answered and found.

use std::{
    fs,
    io::{self, Error},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::evidence::{Assertion, Call, ms, shortened};
use crate::{
    cli::{
        answer::{number, text},
        client::Client,
        place::Place,
        stdio::IoChoice,
    },
    config::Config,
};

/// How long a job may take to end by itself, and a process to disappear.
const END_LIMIT: Duration = Duration::from_secs(20);
const GONE_LIMIT: Duration = Duration::from_secs(5);

/// What was read of a session.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Both streams, in order of arrival.
    pub(super) text: String,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// Whether each record began where the one before it had ended.
    pub(super) gapless: bool,
    pub(super) base: u64,
    pub(super) next: u64,
}

/// A scenario under way.
pub(super) struct Play {
    client: Option<Client>,
    pub(super) place: Place,
    pub(super) calls: Vec<Call>,
    pub(super) assertions: Vec<Assertion>,
    pub(super) stderr: String,
}

impl Play {
    /// Starts a server on the demo profiles, changed as the scenario wants them.
    pub(super) async fn start(change: fn(&mut Config), io: IoChoice) -> io::Result<Play> {
        let place = Place::new()?;
        let mut config = place.demo_config()?;
        change(&mut config);
        let file = place.write(&config)?;
        let client = Client::start(Some(&file), io).await?;
        Ok(Play {
            client: Some(client),
            place,
            calls: Vec::new(),
            assertions: Vec::new(),
            stderr: String::new(),
        })
    }

    pub(super) fn client(&self) -> io::Result<&Client> {
        self.client
            .as_ref()
            .ok_or_else(|| Error::other("the server was ended by this scenario"))
    }

    /// Calls a tool and records it.
    pub(super) async fn call(&mut self, tool: &'static str, arguments: Value) -> io::Result<Value> {
        let began = Instant::now();
        let answer = self.client()?.call(tool, arguments.clone()).await?;
        self.record(tool, arguments, &answer, began.elapsed());
        Ok(answer)
    }

    /// Records a call that was made beside others.
    pub(super) fn record(
        &mut self,
        tool: &'static str,
        arguments: Value,
        answer: &Value,
        took: Duration,
    ) {
        self.calls.push(Call {
            tool,
            arguments: shortened(&arguments),
            answer: shortened(answer),
            duration_ms: ms(took),
        });
    }

    /// A call without whose success the scenario can't go on.
    pub(super) async fn expect(
        &mut self,
        tool: &'static str,
        arguments: Value,
    ) -> io::Result<Value> {
        let answer = self.call(tool, arguments).await?;
        if answer["ok"] == json!(true) {
            return Ok(answer);
        }
        Err(Error::other(format!("{tool}: {}", answer["error"])))
    }

    /// A call that must be refused with this code. Returns the error.
    pub(super) async fn refused(
        &mut self,
        tool: &'static str,
        arguments: Value,
        code: &str,
    ) -> io::Result<Value> {
        let what = format!("{tool} {} is refused with {code}", shortened(&arguments));
        let answer = self.call(tool, arguments).await?;
        let refused = answer["ok"] == json!(false) && answer["error"]["code"] == code;
        self.holds(what, refused, &answer);
        Ok(answer["error"].clone())
    }

    /// Records whether something holds.
    pub(super) fn holds(&mut self, what: impl Into<String>, holds: bool, found: &Value) {
        self.assertions.push(Assertion {
            what: what.into(),
            holds,
            found: shortened(found),
        });
    }

    /// Records whether something is as expected.
    pub(super) fn is(&mut self, what: &str, found: impl Into<Value>, expected: impl Into<Value>) {
        let (found, expected) = (found.into(), expected.into());
        let what = format!("{what} is {}", shortened(&expected));
        self.holds(what, found == expected, &found);
    }

    /// Records whether these members of an object are as expected.
    pub(super) fn are(&mut self, of: &str, object: &Value, expected: &Value) {
        for (name, value) in expected.as_object().into_iter().flatten() {
            self.is(
                &format!("{name} of {of}"),
                object[name].clone(),
                value.clone(),
            );
        }
    }

    /// Starts an approved command and returns its session's id.
    pub(super) async fn run(&mut self, command_id: &str) -> io::Result<String> {
        let started = self
            .expect("terminal_start", json!({ "command_id": command_id }))
            .await?;
        text(&started, "session_id").map(str::to_owned)
    }

    /// Runs an approved command to its end and reads all of its output.
    pub(super) async fn run_to_end(&mut self, command_id: &str) -> io::Result<(Value, Output)> {
        let session = self.run(command_id).await?;
        let end = self.end(&session).await?;
        Ok((end, self.read(&session, 0).await?))
    }

    /// Waits until a session has printed something at `cursor` and returns the page.
    pub(super) async fn page(&mut self, session: &str, cursor: u64) -> io::Result<Value> {
        let began = Instant::now();
        loop {
            let page = self
                .expect(
                    "terminal_read",
                    json!({ "session_id": session, "cursor": cursor, "wait_ms": 2000 }),
                )
                .await?;
            if page["next_cursor"] != json!(cursor) {
                return Ok(page);
            }
            if began.elapsed() > END_LIMIT {
                return Err(Error::other("nothing was printed in 20 s"));
            }
        }
    }

    /// Waits for a session's end and the end of its output.
    pub(super) async fn end(&mut self, session: &str) -> io::Result<Value> {
        let wait = json!({
            "session_id": session, "from": "tail", "max_bytes": 4, "until": "end",
            "wait_ms": u64::try_from(END_LIMIT.as_millis()).unwrap_or(u64::MAX),
        });
        self.expect("terminal_read", wait).await?;
        let status = self
            .expect("terminal_status", json!({ "session_id": session }))
            .await?;
        let running = matches!(text(&status, "status")?, "RUNNING" | "TERMINATING");
        if running {
            return Err(Error::other("the session has not ended in 20 s"));
        }
        Ok(status)
    }

    /// Reads what is kept from `cursor` on, page by page.
    pub(super) async fn read(&mut self, session: &str, cursor: u64) -> io::Result<Output> {
        let mut output = Output {
            gapless: true,
            next: cursor,
            ..Output::default()
        };
        loop {
            let page = self
                .expect(
                    "terminal_read",
                    json!({ "session_id": session, "cursor": output.next }),
                )
                .await?;
            let mut at = output.next;
            for record in page["records"].as_array().into_iter().flatten() {
                let piece = text(record, "text")?;
                output.gapless &= record["cursor"] == json!(at);
                at += u64::try_from(piece.chars().count()).unwrap_or(u64::MAX);
                output.text.push_str(piece);
                match text(record, "stream")? {
                    "stdout" => output.stdout.push_str(piece),
                    _ => output.stderr.push_str(piece),
                }
            }
            output.next = number(&page, "next_cursor")?;
            output.base = number(&page, "base_cursor")?;
            output.gapless &= at == output.next;
            if page["has_more"] != json!(true) {
                return Ok(output);
            }
        }
    }

    /// Ends the server by the end of its stdin.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        let Some(client) = self.client.take() else {
            return Ok(());
        };
        let closed = client.close().await?;
        self.is(
            "the server's exit code at the end of its stdin",
            closed.status.code(),
            0,
        );
        self.stderr = closed.stderr;
        Ok(())
    }

    /// Ends the server as nothing can prepare for.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        let client = self.client.take();
        let client = client.ok_or_else(|| Error::other("the server is gone already"))?;
        self.stderr = client.kill().await?.stderr;
        Ok(())
    }

    /// Records whether a process disappears, or is but a zombie that waits for its parent.
    pub(super) async fn disappears(&mut self, what: &str, pid: u64) {
        let began = Instant::now();
        while alive(pid) && began.elapsed() < GONE_LIMIT {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let found = json!({ "process": pid, "gone_after_ms": ms(began.elapsed()) });
        self.holds(format!("{what} is gone"), !alive(pid), &found);
    }
}

fn alive(pid: u64) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // The state follows the name, which may hold parentheses and blanks itself.
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}
