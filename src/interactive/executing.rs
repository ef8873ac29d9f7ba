//! `session_exec`: one command from its start to its end, in a session of its own.
//!
//! A shell that any command line may start gets the command as an argument. An approved one, whose arguments are the Owner's
//! affair, has it typed, with the shell's end behind it. In both cases the command's end is the session's. Whatever else
//! reads commands has the command typed at its prompt, and has done with it when the output has settled.

use std::{future::Future, pin::Pin, time::Duration};

use tokio::time::{Instant, sleep_until};

use super::{
    Shared,
    closing::{ends_within, hang_up},
    creating::{Program, Start},
    echo::{Echo, Typed},
    failures::{failure, refused},
    prompt::is_prompt,
    reading::{REAP_TIME, Waited, Wanted},
    registry::{Entry, Reading},
    requests::{
        DEFAULT_SHELL, DEFAULT_TIMEOUT, ExecAnswer, ExecRequest, Failure, FailureKind, Input,
        ReadMode,
    },
    script::{Shell, between, without_last_line},
    sending::before_cursor,
    settle::LONGEST,
    stream::{Form, Stream, Taken, split_chars},
};
use crate::{
    config::Truncation,
    supervisor::{handle::Handle, refusal::Refusal},
    text::strip::Strip,
};

/// How long the first prompt of what isn't a shell is waited for.
const STARTUP: Duration = Duration::from_secs(1);
/// What a program gets to end in, once nobody is interested in it any more.
const GRACE: Duration = Duration::from_millis(200);

/// Ends the session, however the call ends.
struct Ending {
    handle: Handle,
    id: String,
    is_over: bool,
}

impl Ending {
    /// Ends it, if it runs, and has it forgotten.
    async fn now(mut self) {
        self.is_over = true;
        end(&self.handle, &self.id).await;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.is_over {
            let (handle, id) = (self.handle.clone(), self.id.clone());
            tokio::spawn(async move { end(&handle, &id).await });
        }
    }
}

async fn end(handle: &Handle, id: &str) {
    // One that is gone has ended.
    hang_up(handle, id, None, GRACE).await.ok();
    handle.forget(id);
}

/// How a command came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The session is over.
    Over,
    /// Its time was up.
    TimedOut,
}

impl Shared {
    /// `session_exec`.
    pub(super) async fn exec(
        &self,
        request: ExecRequest,
        cancelled: impl Future<Output = ()>,
    ) -> Result<ExecAnswer, Failure> {
        if request.exec.is_empty() || request.exec.contains('\0') {
            let message = "argument `exec`: it is empty, or holds a NUL";
            return Err(failure(FailureKind::ValidationError, message));
        }
        let command = request.command.as_deref().unwrap_or(DEFAULT_SHELL);
        let program = self.program(command)?;
        let token = uuid::Uuid::new_v4().simple().to_string();
        let mut input = String::new();
        let (program, in_shell) = match program {
            Program::Free(argv) => match Shell::of(&argv) {
                Some(_) => (
                    Program::Free(Shell::running(&argv, &request.exec, &token)),
                    true,
                ),
                None => (Program::Free(argv), false),
            },
            Program::Approved { id, argv } => {
                let typing = Shell::of(&argv).and_then(|shell| shell.typing(&request.exec, &token));
                let in_shell = typing.is_some();
                input = typing.unwrap_or_default();
                (Program::Approved { id, argv }, in_shell)
            }
        };
        let _place = self.registry.reserve()?;
        let start = Start {
            program,
            rows: request.rows,
            cols: request.cols,
            scrollback: 0,
            input,
            client: request.client.clone(),
        };
        let mut cancelled = std::pin::pin!(cancelled);
        let refused = refused(FailureKind::ExecError);
        let started = self.start(start, cancelled.as_mut()).await;
        let snapshot = started.map_err(super::failures::refused(FailureKind::SpawnError))?;
        let ending = Ending {
            handle: self.handle.clone(),
            id: snapshot.session_id.clone(),
            is_over: false,
        };
        self.registry.hide(&ending.id);
        let timeout = request.timeout.unwrap_or(DEFAULT_TIMEOUT);
        let form = self.form(true, request.truncation);
        let done = if in_shell {
            self.in_shell(&ending.id, &token, timeout, form, cancelled)
                .await
        } else {
            let label = snapshot.command_id.clone();
            let entry = Entry::new(&snapshot, label.clone(), label, None);
            self.at_prompt(&entry, request, timeout, form, cancelled)
                .await?
        };
        let (taken, exit_code, end) = done.map_err(refused)?;
        ending.now().await;
        Ok(ExecAnswer {
            output: taken.output,
            bytes_read: taken.bytes,
            session_id: snapshot.session_id,
            truncated: taken.truncated,
            exit_code,
            timed_out: end == End::TimedOut,
        })
    }

    /// The session is the command: its end is awaited.
    async fn in_shell(
        &self,
        id: &str,
        token: &str,
        timeout: Duration,
        form: Form,
        cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(Taken, Option<i32>, End), Refusal> {
        let end = self.until_over(id, timeout, cancelled).await?;
        let taken = Stream::default().take(&self.handle, id, None, raw(form))?;
        let (output, marked) = between(&taken.output, token);
        let exit_code = marked.or(self.handle.status(id)?.exit_code);
        let end = if marked.is_some() { End::Over } else { end };
        let taken = Taken {
            output: Strip::whole(output),
            bytes: output.len(),
            truncated: taken.truncated,
        };
        Ok((taken.cut(form), exit_code, end))
    }

    /// Waits until the session is over, nothing was printed for `quiet`, or 10 s more than that are over.
    async fn until_over(
        &self,
        id: &str,
        quiet: Duration,
        mut cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<End, Refusal> {
        let mut changes = self.handle.changes(id)?;
        let until = Instant::now() + quiet + LONGEST;
        let mut quiet_until = Instant::now() + quiet;
        loop {
            tokio::select! {
                biased;
                () = &mut cancelled => return Ok(End::TimedOut),
                () = sleep_until(until.min(quiet_until)) => return Ok(End::TimedOut),
                more = changes.next() => match more {
                    true => quiet_until = Instant::now() + quiet,
                    false => {
                        ends_within(&self.handle, id, REAP_TIME).await;
                        return Ok(End::Over);
                    }
                },
            }
        }
    }

    /// The session reads commands: this one is typed at its prompt.
    async fn at_prompt(
        &self,
        entry: &Entry,
        request: ExecRequest,
        timeout: Duration,
        form: Form,
        mut cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Result<(Taken, Option<i32>, End), Refusal>, Failure> {
        let usual = FailureKind::ExecError;
        let refused = refused(usual);
        let (handle, id) = (&self.handle, entry.id.as_str());
        let reading = Reading::default();
        let quiet = |quiet| Wanted {
            mode: ReadMode::Stream,
            quiet,
            form,
            scrollback: None,
        };
        let startup = self.until_settled(entry, &reading, quiet(STARTUP), cancelled.as_mut());
        startup.await.map_err(&refused)?;
        let input = Input::Text {
            text: request.exec,
            press_enter: true,
        };
        let (_, sent) = self.type_in(entry, input, request.client, usual).await?;
        let began = Instant::now();
        let waited = self
            .until_settled(entry, &reading, quiet(timeout), cancelled)
            .await;
        let waited = waited.map_err(&refused)?;
        let is_quiet = began.elapsed() >= timeout;
        Ok((|| {
            let status = handle.status(id)?;
            let at_prompt = handle.screen(id, |screen| is_prompt(&before_cursor(screen)))?;
            let from = sent.from;
            let mut stream = Stream::default();
            stream.skip_to(from);
            let taken = stream.take(handle, id, None, raw(form))?;
            let output = without_echo(&sent.typed, &taken.output, sent.at - from);
            let mut output = Strip::whole(&output);
            // What an editor ends its line with is no part of what comes then.
            output.drain(..output.len() - output.trim_start_matches('\r').len());
            if at_prompt && !status.status.is_final() {
                output.truncate(without_last_line(&output).len());
            }
            let taken = Taken {
                bytes: output.len(),
                output,
                truncated: taken.truncated,
            };
            let timed_out =
                waited == Waited::Cancelled || is_quiet && !at_prompt && !status.status.is_final();
            let end = if timed_out { End::TimedOut } else { End::Over };
            Ok((taken.cut(form), status.exit_code, end))
        })())
    }
}

/// Whole, as it came.
fn raw(form: Form) -> Form {
    Form {
        strip_ansi: false,
        truncation: Truncation::None,
        ..form
    }
}

/// The output less the echo of what was typed, and less its first characters, which were there before.
fn without_echo(typed: &Typed, output: &str, stale: u64) -> String {
    let (stale, fresh) = split_chars(output, stale);
    let (mut echo, mut visible) = (Echo::new(typed), String::new());
    echo.take(stale, &mut String::new());
    echo.forget_held(!stale.is_empty());
    echo.take(fresh, &mut visible);
    echo.end(&mut visible);
    visible
}
