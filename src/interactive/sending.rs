//! Typing: what is sent for each kind of input, and what is remembered of the moment.

use std::{
    future::{Future, pending},
    sync::Arc,
};

use unicode_width::UnicodeWidthChar;

use super::{
    Shared,
    echo::{Echoing, Typed},
    failures::{failure, refused},
    registry::{Entry, Sent},
    requests::{Failure, FailureKind, Input, SendAnswer, SendRequest},
};
use crate::{
    audit::Client,
    screen::{Screen, control},
    supervisor::{handle::Line, refusal::Refusal},
};

/// How often the place of the cursor is looked up while output goes on.
const ATTEMPTS: usize = 4;

impl Shared {
    /// `session_send`.
    pub(super) async fn send(
        &self,
        request: SendRequest,
        cancelled: impl Future<Output = ()>,
    ) -> Result<SendAnswer, Failure> {
        let entry = self.registry.find(&request.session_id)?;
        self.may_type(&request.input, request.confirmed)?;
        let typing = self.type_in(
            &entry,
            request.input,
            request.client,
            FailureKind::SendError,
        );
        let bytes_sent = tokio::select! {
            biased;
            typed = typing => typed?.0,
            // It is typed all the same.
            () = cancelled => 0,
        };
        Ok(SendAnswer { bytes_sent })
    }

    /// Lets input through the safety gate.
    ///
    /// # Errors
    /// [`Failure::Confirmation`].
    pub(super) fn may_type(&self, input: &Input, confirmed: bool) -> Result<(), Failure> {
        match input {
            Input::Text { text, .. } if !confirmed => self.gate.pass(text),
            _ => Ok(()),
        }
    }

    /// Types it, and tells how many bytes that were and where the session stood.
    pub(super) async fn type_in(
        &self,
        entry: &Entry,
        input: Input,
        client: Option<Client>,
        usual: FailureKind,
    ) -> Result<(usize, Arc<Sent>), Failure> {
        let id = &entry.id;
        let refused = refused(usual);
        let place = self.place(id).map_err(&refused)?;
        let line = self.handle.line(id).map_err(&refused)?;
        let is_secret = matches!(input, Input::Password(_));
        let (text, is_echoed) = match input {
            Input::Text { text, press_enter } => (entered(text, press_enter), true),
            Input::Password(secret) => (entered(secret.reveal().to_owned(), true), true),
            Input::Key(key) => (key.encode(place.application_cursor).to_owned(), false),
            Input::Control(char) => {
                let sent = control(char).ok_or_else(|| {
                    let message = format!(
                        "argument `control_char`: {char:?} is none; use one of a-z [ \\ ] ^ _ @"
                    );
                    failure(FailureKind::ValidationError, message)
                })?;
                (sent.to_string(), false)
            }
        };
        let echoing = if is_echoed {
            echoing(line)
        } else {
            Echoing::Nobody
        };
        let typed = Typed {
            echoing,
            prompt: place.prompt,
            cols: place.cols,
            // No echo is looked for, and most passwords are typed so: what isn't kept can't be told.
            text: match echoing {
                Echoing::Nobody => String::new(),
                _ => text.clone(),
            },
        };
        let written = if is_secret {
            self.handle.write_secret(id, text, client, pending()).await
        } else {
            self.handle.write(id, text, false, client, pending()).await
        };
        let written = written.map_err(&refused)?;
        let sent = entry.typed(Sent {
            typed,
            from: place.cursor,
            at: written.next_cursor.max(place.cursor),
            finished: place.finished,
        });
        Ok((written.accepted, sent))
    }

    /// Where the session stands, all at one time if its output lets it.
    fn place(&self, id: &str) -> Result<StandsAt, Refusal> {
        let mut before = self.handle.status(id)?.next_cursor;
        for _ in 1..ATTEMPTS {
            let place = self
                .handle
                .screen(id, |screen| StandsAt::on(screen, before))?;
            let after = self.handle.status(id)?.next_cursor;
            if after == before {
                return Ok(place);
            }
            before = after;
        }
        self.handle
            .screen(id, |screen| StandsAt::on(screen, before))
    }
}

/// Where a session stands.
struct StandsAt {
    prompt: String,
    cols: u16,
    cursor: u64,
    finished: u64,
    application_cursor: bool,
}

impl StandsAt {
    fn on(screen: &Screen, cursor: u64) -> StandsAt {
        StandsAt {
            prompt: before_cursor(screen),
            cols: screen.size().cols,
            cursor,
            finished: screen.marks().finished,
            application_cursor: screen.application_cursor(),
        }
    }
}

/// The cursor's row up to the cursor, blanks included.
pub(super) fn before_cursor(screen: &Screen) -> String {
    let (row, column) = screen.cursor();
    let rows = screen.rows();
    let line = rows.get(usize::from(row)).map_or("", String::as_str);
    let (mut before, mut columns) = (String::new(), 0);
    for char in line.chars() {
        columns += char.width().unwrap_or(0);
        if columns > usize::from(column) {
            break;
        }
        before.push(char);
    }
    let missing = usize::from(column).saturating_sub(columns);
    before.extend(std::iter::repeat_n(' ', missing));
    before
}

fn entered(mut text: String, press_enter: bool) -> String {
    if press_enter {
        text.push('\r');
    }
    text
}

/// Who will echo what is typed now.
fn echoing(line: Line) -> Echoing {
    match line {
        Line {
            canonical: true,
            echo: true,
            awaits_input,
        } => Echoing::Terminal {
            busy: !awaits_input,
        },
        Line {
            canonical: true,
            echo: false,
            ..
        } => Echoing::Nobody,
        Line {
            canonical: false, ..
        } => Echoing::Program,
    }
}
