//! The scenarios. Each has a server of its own and is played through the five tools only.

use std::{future::Future, io, pin::Pin};

use super::play::{Output, Play};
use crate::{
    cli::answer::{joined, number, text},
    config::{Config, Profile},
};

mod lifecycle;
mod output;
mod policy;
mod protocol;

/// One thing that the server promises, and how to see whether it keeps it.
#[derive(Debug)]
pub(super) struct Scenario {
    /// What `--scenario` calls it.
    pub(super) name: &'static str,
    /// The promise.
    pub(super) shows: &'static str,
    /// What its config has that the demo's hasn't.
    pub(super) config: fn(&mut Config),
    pub(super) run: Run,
}

type Run = for<'a> fn(&'a mut Play) -> Pin<Box<dyn Future<Output = io::Result<()>> + 'a>>;

/// A scenario on the demo profiles as they are.
const fn scenario(name: &'static str, shows: &'static str, run: Run) -> Scenario {
    Scenario {
        name,
        shows,
        config: |_| (),
        run,
    }
}

/// A scenario that wants another config.
const fn with(config: fn(&mut Config), scenario: Scenario) -> Scenario {
    Scenario { config, ..scenario }
}

/// All of them, in the order in which they are played.
pub(super) const SCENARIOS: &[Scenario] = &[
    scenario(
        "tools",
        "there are five tools, with schemas for what they take and give; a start names the approved commands",
        |play| Box::pin(protocol::tools(play)),
    ),
    scenario(
        "arguments",
        "unknown, missing, wrong and excessive arguments are refused before anything happens",
        |play| Box::pin(protocol::arguments(play)),
    ),
    scenario(
        "concurrent",
        "a call that waits holds up no other, and eight sessions run side by side",
        |play| Box::pin(protocol::concurrent(play)),
    ),
    scenario(
        "streams",
        "both streams are followed, each in its own order, to the exit code",
        |play| Box::pin(output::streams(play)),
    ),
    scenario("empty", "no output is an output, and it ends", |play| {
        Box::pin(output::empty(play))
    }),
    scenario(
        "unicode",
        "text of every script and terminal escapes come as they were written",
        |play| Box::pin(output::unicode(play)),
    ),
    scenario(
        "split-utf8",
        "a character that is written byte by byte is one character",
        |play| Box::pin(output::split_utf8(play)),
    ),
    scenario(
        "invalid-utf8",
        "each sequence that is no UTF-8 becomes U+FFFD, as in CPython",
        |play| Box::pin(output::invalid_utf8(play)),
    ),
    scenario(
        "flood",
        "of more than is kept the newest text stays, exactly, and an old cursor is told so",
        |play| Box::pin(output::flood(play)),
    ),
    scenario(
        "cursors",
        "reading consumes nothing, and a cursor beyond the end is refused",
        |play| Box::pin(output::cursors(play)),
    ),
    scenario(
        "one-call",
        "a start that waits answers with the end and the output",
        |play| Box::pin(output::one_call(play)),
    ),
    scenario(
        "pattern",
        "a read waits for a match and ends its page with it",
        |play| Box::pin(output::pattern(play)),
    ),
    scenario(
        "interactive",
        "what is written arrives, exactly, and closing stdin ends the program",
        |play| Box::pin(lifecycle::interactive(play)),
    ),
    scenario(
        "large-input",
        "a write of the largest size is taken whole, and one byte more is refused whole",
        |play| Box::pin(lifecycle::large_input(play)),
    ),
    scenario(
        "closed-stdin",
        "writing to a program that closed its stdin is refused, and the program runs on",
        |play| Box::pin(lifecycle::closed_stdin(play)),
    ),
    scenario(
        "exit-code",
        "a program's own exit code is told, and what it said on stderr",
        |play| Box::pin(lifecycle::exit_code(play)),
    ),
    scenario(
        "terminate",
        "a program that ignores TERM is killed after the grace, and once is enough",
        |play| Box::pin(lifecycle::terminate(play)),
    ),
    scenario(
        "timeout",
        "a program that outlives its time is ended",
        |play| Box::pin(lifecycle::timeout(play)),
    ),
    scenario(
        "descendants",
        "what a program leaves behind ends with it",
        |play| Box::pin(lifecycle::descendants(play)),
    ),
    scenario(
        "shutdown",
        "at the end of its stdin the server ends its sessions and exits with 0",
        |play| Box::pin(lifecycle::shutdown(play)),
    ),
    scenario(
        "killed",
        "when the server itself is killed, nothing that it hosted lives on",
        |play| Box::pin(lifecycle::killed(play)),
    ),
    with(
        |config| {
            config.max_sessions = 1;
            config.max_records = 2;
        },
        scenario(
            "limits",
            "sessions and records are limited, and what is promised is not evicted for new ones",
            |play| Box::pin(lifecycle::limits(play)),
        ),
    ),
    with(
        |config| config.retention_seconds = 1,
        scenario(
            "retention",
            "an ended session is unknown once its time is over",
            |play| Box::pin(lifecycle::retention(play)),
        ),
    ),
    scenario(
        "commands",
        "only approved ids run, with nothing added to them",
        |play| Box::pin(policy::commands(play)),
    ),
    with(
        |config| {
            let argv = vec!["/usr/bin/env".to_owned()];
            config.commands.push(Profile::new("env", argv));
        },
        scenario(
            "environment",
            "a command gets the documented environment, and a client may set only what is allowed",
            |play| Box::pin(policy::environment(play)),
        ),
    ),
    with(
        |config| {
            let argv = ["/bin/pwd", "-P"].map(str::to_owned).to_vec();
            config.commands.push(Profile::new("pwd", argv));
        },
        scenario(
            "working-directory",
            "commands run inside the roots only, wherever links lead",
            |play| Box::pin(policy::working_directory(play)),
        ),
    ),
    with(
        |config| {
            let argv = vec!["/nonexistent/program".to_owned()];
            config.commands.push(Profile::new("absent", argv));
        },
        scenario(
            "failed-start",
            "a program that can't be started says why and leaves no session",
            |play| Box::pin(policy::failed_start(play)),
        ),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_each_is_there_once() {
        let mut names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        let plain = |name: &&str| {
            name.chars()
                .all(|c| c.is_ascii_lowercase() || "-8".contains(c))
        };
        assert!(names.iter().all(plain), "{names:?}");
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count >= 16);
    }
}
