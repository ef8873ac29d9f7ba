//! The demo profiles: what a client can run before an Owner has written a config. Each is this binary itself,
//! started as a real child process with a hidden command. They are a demonstration, not a production list.

use std::path::Path;

use crate::config::{Config, Profile};

mod programs;

pub use programs::{flood_byte, run_program};

/// The hidden command that runs a demo program: `sluicegate demo-program NAME`.
pub const COMMAND: &str = "demo-program";

/// Profiles by name, with what the model is told.
const PROFILES: [(&str, &str); 13] = [
    (
        "stream",
        "Prints 20 numbered lines on each of stdout and stderr in 2 s; shows DEMO_LABEL if it is set",
    ),
    (
        "interactive",
        "Echoes what is written to it; ends when stdin is closed",
    ),
    ("long", "Runs for a minute and prints a line every 5 s"),
    (
        "unicode",
        "Prints text of many scripts, emoji, combining marks and terminal escapes",
    ),
    (
        "flood",
        "Prints 32 MiB of numbered lines as fast as they are taken: more than is kept, so it truncates",
    ),
    ("exit7", "Prints a line on stderr and exits with code 7"),
    ("empty", "Prints nothing and exits with code 0"),
    (
        "children",
        "Starts two processes that would outlive it, and exits; they end with its group",
    ),
    (
        "closed-stdin",
        "Closes its stdin, then prints a line every 200 ms for 3 s",
    ),
    (
        "split-utf8",
        "Writes each character byte by byte with pauses between the bytes",
    ),
    (
        "invalid-utf8",
        "Writes bytes that are no UTF-8; each wrong sequence becomes U+FFFD",
    ),
    (
        "eof",
        "Reads stdin to its end and reports how many bytes came",
    ),
    (
        "ignore-term",
        "Ignores SIGTERM, so that only SIGKILL or 60 s end it",
    ),
];

/// The demo profiles, served by the binary `exe`.
///
/// An argv in a config is text: of a path that is not UTF-8 the profiles hold an approximation that can't start.
pub fn profiles(exe: &Path) -> Vec<Profile> {
    let exe = exe.to_string_lossy();
    PROFILES
        .iter()
        .map(|&(id, description)| Profile {
            allowed_env: match id {
                "stream" => vec!["DEMO_LABEL".to_owned()],
                _ => Vec::new(),
            },
            description: Some(description.to_owned()),
            // These two are there to outlast the default.
            timeout_ms: match id {
                "long" | "ignore-term" => Some(90_000),
                _ => None,
            },
            ..Profile::new(
                id,
                vec![exe.clone().into_owned(), COMMAND.to_owned(), id.to_owned()],
            )
        })
        .collect()
}

impl Config {
    /// The config that needs none: the demo profiles of `exe`, in `root` only, every limit at its default.
    /// Both paths are absolute.
    pub fn demo(root: &Path, exe: &Path) -> Config {
        Config::with_defaults(vec![root.to_owned()], root.to_owned(), profiles(exe))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_config_is_one_that_loads_without_a_word() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::demo(dir.path(), Path::new("/opt/sluicegate"));
        let text = config.to_json().unwrap();
        let loaded = Config::from_bytes(Path::new("demo"), text.as_bytes()).unwrap();
        assert_eq!(loaded.warnings, []);
        assert_eq!(loaded.config, config);
    }

    #[test]
    fn every_profile_has_a_program_behind_it() {
        for profile in profiles(Path::new("/opt/sluicegate")) {
            assert!(programs::exists(&profile.argv[2]), "{}", profile.id);
        }
        assert!(!programs::exists("none"));
    }
}
