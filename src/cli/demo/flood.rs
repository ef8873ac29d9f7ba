//! The flood: how fast it is followed, what is kept of it, and what a bare pipe would do.

use std::{
    fs,
    io::{self, Read},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use indicatif::DecimalBytes;
use serde_json::json;

use super::{
    scenes::{LIMIT, ended, start},
    stage::Stage,
};
use crate::{
    cli::{
        answer::{joined, number, text},
        client::Client,
        this_program,
    },
    config::Profile,
    demo,
};

/// How long it is let flow, through the server and through a bare pipe.
const HOSTED: Duration = Duration::from_millis(1_500);
const BARE: Duration = Duration::from_millis(800);
/// How often the moving line moves.
const TICK: Duration = Duration::from_millis(50);
/// More bytes than anything prints in that time.
const ENDLESS: &str = "flood:1000000000000000";

/// The profiles, with a flood that doesn't end by itself.
pub(super) fn endless(mut profiles: Vec<Profile>) -> Vec<Profile> {
    for profile in profiles.iter_mut().filter(|profile| profile.id == "flood") {
        profile.argv = vec![
            profile.argv[0].clone(),
            demo::COMMAND.into(),
            ENDLESS.into(),
        ];
    }
    profiles
}

/// Bytes a second through a pipe that is read and nothing else.
pub(super) fn bare(stage: &Stage<'_>) -> io::Result<f64> {
    let mut child = Command::new(this_program()?)
        .args([demo::COMMAND, ENDLESS])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let bar = stage.progress(BARE);
    bar.set_message("a bare pipe, for comparison");
    let drained = child.stdout.take().map(|mut pipe| {
        let mut buffer = vec![0; 65_536];
        // The program's own start is not the pipe's speed.
        pipe.read_exact(&mut buffer[..1])?;
        let (began, mut bytes, mut next) = (Instant::now(), 0_u64, TICK);
        while began.elapsed() < BARE {
            bytes += u64::try_from(pipe.read(&mut buffer)?).unwrap_or(u64::MAX);
            if began.elapsed() > next {
                bar.set_position(super::in_ms(next));
                next += TICK;
            }
        }
        io::Result::Ok(bytes as f64 / began.elapsed().as_secs_f64())
    });
    child.kill()?;
    child.wait()?;
    bar.finish_and_clear();
    drained.ok_or_else(|| io::Error::other("the child's pipe is missing"))?
}

/// The same program, hosted.
pub(super) async fn hosted(client: &Client, bare: f64, stage: &mut Stage<'_>) -> io::Result<()> {
    stage.scene(
        "flood",
        "A flood: a window of the newest text, exactly, in bounded memory",
    )?;
    let session = start(client, "flood").await?;
    let bar = stage.progress(HOSTED);
    let began = Instant::now();
    let (mut memory, mut speed) = (0.0_f64, 0.0);
    let mut first: Option<(Instant, u64)> = None;
    while match first {
        Some((since, _)) => since.elapsed() < HOSTED,
        // Should there be none, the checks below will say so.
        None => began.elapsed() < LIMIT,
    } {
        let status = client
            .expect("terminal_status", json!({ "session_id": session }))
            .await?;
        let (now, next) = (Instant::now(), number(&status, "next_cursor")?);
        memory = memory.max(resident(client.pid()).unwrap_or_default());
        match first {
            // As with the bare pipe.
            None if next > 0 => first = Some((now, next)),
            None => {}
            Some((since, from)) => {
                speed = (next - from) as f64 / (now - since).as_secs_f64();
                let base = number(&status, "base_cursor")?;
                bar.set_position(super::in_ms(since.elapsed()));
                bar.set_message(format!(
                    "{}/s · {} kept · {} evicted · {memory:.1} MiB",
                    DecimalBytes(speed as u64),
                    DecimalBytes(next - base),
                    DecimalBytes(base)
                ));
            }
        }
        tokio::time::sleep(TICK).await;
    }
    bar.finish_and_clear();
    client
        .expect(
            "terminal_terminate",
            json!({ "session_id": session, "grace_ms": 0 }),
        )
        .await?;
    let end = ended(client, &session).await?;
    let (base, next) = (number(&end, "base_cursor")?, number(&end, "next_cursor")?);
    memory = memory.max(resident(client.pid()).unwrap_or_default());
    stage.line(&format!("followed   {}/s", DecimalBytes(speed as u64)))?;
    stage.line(&format!(
        "bare pipe  {}/s: the same program, its pipe read and nothing else",
        DecimalBytes(bare as u64)
    ))?;
    stage.line(&format!(
        "kept       {} of {}",
        DecimalBytes(next - base),
        DecimalBytes(next)
    ))?;
    stage.line(&format!("evicted    {}", DecimalBytes(base)))?;
    stage.line(&format!(
        "memory     {memory:.1} MiB resident at most, the whole server"
    ))?;
    stage.found("bytes_per_second", speed.round());
    stage.found("bare_pipe_bytes_per_second", bare.round());
    stage.found("base_cursor", base);
    stage.found("next_cursor", next);
    stage.found("resident_mib", memory);
    look_at_window(client, &session, (base, next), stage).await
}

/// Holds what is kept against what was printed, which can be told from the cursor alone.
async fn look_at_window(
    client: &Client,
    session: &str,
    (base, next): (u64, u64),
    stage: &mut Stage<'_>,
) -> io::Result<()> {
    let refused = client
        .call(
            "terminal_read",
            json!({ "session_id": session, "cursor": 0 }),
        )
        .await?;
    let error = &refused["error"];
    stage.line(&format!("reading from 0: {}", text(error, "message")?))?;
    stage.check(
        "an evicted cursor is refused, with the one to go on from",
        error["code"] == "CURSOR_EXPIRED" && error["base_cursor"] == json!(base),
    )?;
    let (mut cursor, mut exact) = (base, true);
    while cursor < next {
        let page = client
            .expect(
                "terminal_read",
                json!({ "session_id": session, "cursor": cursor }),
            )
            .await?;
        let window = joined(&page);
        exact &= (cursor..)
            .zip(window.bytes())
            .all(|(at, byte)| byte == demo::flood_byte(at));
        let end = number(&page, "next_cursor")?;
        exact &= end > cursor && u64::try_from(window.len()).is_ok_and(|len| cursor + len == end);
        if end <= cursor {
            break;
        }
        cursor = end;
    }
    stage.check(
        "each character that is kept is the one that was printed at its cursor",
        exact && next > base && base > 0,
    )
}

/// Resident memory of a process in MiB.
fn resident(pid: Option<u32>) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid?)).ok()?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib = line.trim().trim_end_matches(" kB").parse::<f64>().ok()?;
    Some(kib / 1024.0)
}
