//! What a program prints, from its pipe to a page.

use std::io;

use serde_json::json;

use super::{Play, joined, number, text};
use crate::demo;

/// How a program that ended by itself, all of whose output is there, is told of.
fn exited(code: i32) -> serde_json::Value {
    json!({
        "status": "EXITED", "exit_code": code, "exit_signal": null, "termination_reason": "natural",
        "output_complete": true, "output_incomplete": false,
    })
}

pub(super) async fn streams(play: &mut Play) -> io::Result<()> {
    let labelled = json!({ "command_id": "stream", "env": { "DEMO_LABEL": "here" } });
    let started = play.expect("terminal_start", labelled).await?;
    let session = text(&started, "session_id")?.to_owned();
    let end = play.end(&session).await?;
    play.are("the session", &end, &exited(0));
    let output = play.read(&session, 0).await?;
    let lines = |stream: &str| -> String {
        (1..=20)
            .map(|number| format!("{stream} line {number}\n"))
            .collect()
    };
    play.is(
        "stdout",
        output.stdout,
        format!("label: here\n{}", lines("stdout")),
    );
    play.is("stderr", output.stderr, lines("stderr"));
    play.is(
        "every record begins where the last one ended",
        output.gapless,
        true,
    );
    play.is(
        "the cursor at the end",
        output.next,
        number(&end, "next_cursor")?,
    );
    Ok(())
}

pub(super) async fn empty(play: &mut Play) -> io::Result<()> {
    let (end, output) = play.run_to_end("empty").await?;
    play.are("the session", &end, &exited(0));
    play.is("its text", output.text, "");
    play.is("its cursor", output.next, 0);
    Ok(())
}

pub(super) async fn unicode(play: &mut Play) -> io::Result<()> {
    let (end, output) = play.run_to_end("unicode").await?;
    play.are("the session", &end, &exited(0));
    let characters = u64::try_from(output.text.chars().count()).unwrap_or(u64::MAX);
    play.is("the cursor, in characters", output.next, characters);
    for piece in [
        "Latin: Grüße, naïve, Łódź\n",
        "Arabic: مرحبا بالعالم\n",
        "Emoji: 😀 👩‍👩‍👧‍👦 🏳️‍🌈 🇪🇺\n",
        "Combining: e\u{301} o\u{308} q\u{303}\u{323}\n",
        "\u{1b}[1;32mgreen\u{1b}[0m, bell \u{7}, tab\there\r\n",
        "Progress: 10%\rProgress: 100%\n",
    ] {
        play.holds(
            format!("{piece:?} is in it"),
            output.text.contains(piece),
            &json!(output.text),
        );
    }
    play.is(
        "replaced characters",
        output.text.contains('\u{fffd}'),
        false,
    );
    Ok(())
}

pub(super) async fn split_utf8(play: &mut Play) -> io::Result<()> {
    let (end, output) = play.run_to_end("split-utf8").await?;
    play.are("the session", &end, &exited(0));
    play.is("the text", output.text, "≤ 中 é 😀\n");
    play.is("its cursor", output.next, 8);
    Ok(())
}

pub(super) async fn invalid_utf8(play: &mut Play) -> io::Result<()> {
    let (end, output) = play.run_to_end("invalid-utf8").await?;
    play.are("the session", &end, &exited(0));
    // One for each maximal part of a sequence that could have become a character, as `errors="replace"` has it.
    let expected = "lone continuation: \u{fffd}\n\
        overlong slash: \u{fffd}\u{fffd}\n\
        surrogate: \u{fffd}\u{fffd}\u{fffd}\n\
        beyond U+10FFFF: \u{fffd}\u{fffd}\u{fffd}\u{fffd}\n\
        cut short: \u{fffd} \u{fffd}\n\
        never in UTF-8: \u{fffd}\u{fffd}\n\
        unfinished at the end: \u{fffd}";
    play.is("the text", output.text, expected);
    Ok(())
}

pub(super) async fn flood(play: &mut Play) -> io::Result<()> {
    let session = play.run("flood").await?;
    let end = play.end(&session).await?;
    play.are("the session", &end, &exited(0));
    play.is(
        "the cursor at the end, in characters",
        end["next_cursor"].clone(),
        32 * 1_048_576,
    );
    play.is("something was evicted", end["truncated"].clone(), true);
    let first = json!({ "session_id": session, "cursor": 0 });
    let expired = play
        .refused("terminal_read", first, "CURSOR_EXPIRED")
        .await?;
    let base = number(&expired, "base_cursor")?;
    let output = play.read(&session, base).await?;
    play.is(
        "every record begins where the last one ended",
        output.gapless,
        true,
    );
    // The default: 65536 code points, all of one byte here.
    play.is("characters kept", output.next - output.base, 65_536);
    let wrong = (base..)
        .zip(output.text.bytes())
        .find(|(at, byte)| demo::flood_byte(*at) != *byte);
    play.is(
        "the first character that isn't what was printed at its cursor",
        json!(wrong.map(|(at, _)| at)),
        json!(null),
    );
    Ok(())
}

pub(super) async fn cursors(play: &mut Play) -> io::Result<()> {
    let session = play.run("exit7").await?;
    play.end(&session).await?;
    let first = play.read(&session, 0).await?;
    let again = play.read(&session, 0).await?;
    play.is(
        "the same text on a second reading",
        again.text,
        first.text.clone(),
    );
    let part = play.read(&session, 8).await?;
    play.is("the text from character 8 on", part.text, &first.text[8..]);
    let beyond = json!({ "session_id": session, "cursor": first.next + 1 });
    let error = play
        .refused("terminal_read", beyond, "INVALID_CURSOR")
        .await?;
    play.is(
        "the next cursor in the refusal",
        error["next_cursor"].clone(),
        first.next,
    );
    Ok(())
}

pub(super) async fn one_call(play: &mut Play) -> io::Result<()> {
    let job = json!({
        "command_id": "eof", "wait_ms": 20_000, "input": "twelve bytes", "close_stdin": true,
    });
    let answer = play.expect("terminal_start", job).await?;
    play.are("the answer", &answer, &exited(0));
    let text = joined(&answer["output"]);
    play.is("the output", text, "read 12 bytes to the end of input\n");
    play.is(
        "what was left out of it",
        answer["output"]["omitted"].clone(),
        json!(null),
    );
    Ok(())
}

pub(super) async fn pattern(play: &mut Play) -> io::Result<()> {
    let session = play.run("stream").await?;
    let wait = json!({
        "session_id": session, "until": { "pattern": "stdout line 7$" }, "wait_ms": 20_000,
    });
    let page = play.expect("terminal_read", wait).await?;
    play.is(
        "what the read waited for",
        page["wait_result"].clone(),
        "pattern",
    );
    let matched = number(&page["match"], "cursor")?;
    let output = play.read(&session, matched).await?;
    play.holds(
        "the match is where the read says",
        output.text.starts_with("stdout line 7"),
        &json!(output.text),
    );
    let length = u64::try_from("stdout line 7".len()).unwrap_or(u64::MAX);
    play.is(
        "the page's end",
        page["next_cursor"].clone(),
        matched + length,
    );
    Ok(())
}
