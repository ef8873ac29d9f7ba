//! The Owner's config: read, checked, and then trusted everywhere else.
//!
//! `source` opens the file and says who else may write it, `syntax` makes a tree of its text, `document` reads typed
//! fields that know their place from the tree, `validate` holds one function per rule. Every finding is reported at once; whoever starts the server
//! prints the first ([`startup_line`]). What is read here is never read again: paths are resolved anew at each use,
//! which is the affair of `policy`.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use limits::defaults;

use crate::screen::Size;

mod document;
pub mod env_names;
mod finding;
pub mod limits;
pub mod log_file;
#[cfg(test)]
mod mutation_tests;
mod pin;
#[cfg(test)]
mod promises;
mod restrictions;
mod schema;
#[cfg(test)]
pub(crate) mod schema_twin;
mod source;
pub mod spool_dir;
mod syntax;
mod trust;
mod validate;

pub use finding::{Finding, Severity, quoted, startup_line};
pub use pin::Pin;
pub use restrictions::{JobLimits, Restrictions, Sandbox};
pub use schema::schema;
pub use trust::{Doubt, Who, doubts};

/// What the child finds on descriptor 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StdinKind {
    /// A pipe that the client writes into.
    #[default]
    Pipe,
    /// `/dev/null`.
    Null,
}

/// How tool results are laid out on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Results {
    /// The body as a text block and as `structuredContent`.
    #[default]
    Both,
    /// The body as `structuredContent`, the text block a one-line summary.
    Structured,
    /// The body as a text block only; no output schema is declared.
    Text,
}

/// What happens when text comes faster than the spool's disk takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenSlow {
    /// The command waits, as one that writes to a file would.
    #[default]
    Block,
    /// Text is dropped, and the command doesn't notice.
    Drop,
}

/// Where text goes that has no room in memory any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spool {
    /// A private directory. Absolute; made when it is missing.
    pub dir: PathBuf,
    /// Bytes of files that one session may have.
    pub bytes_per_session: u64,
    /// Bytes of files that all sessions may have together.
    pub bytes_total: u64,
    /// See [`WhenSlow`].
    pub when_slow: WhenSlow,
}

/// One approved command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// The name that a client uses.
    #[serde(skip)]
    pub id: String,
    /// Program and arguments; `argv[0]` is absolute, none holds a NUL.
    pub argv: Vec<String>,
    /// Names of variables that the client may set; none is denied.
    pub allowed_env: Vec<String>,
    /// One line for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Variables that the Owner fixes, in the config's order.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        serialize_with = "members_of_env"
    )]
    pub env: Vec<(String, String)>,
    /// Default working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Default lifetime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What is on descriptor 0.
    pub stdin: StdinKind,
    /// Whether descendants that left the group stay when the command has ended by itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_detach: bool,
    /// What the kernel holds the command to.
    #[serde(flatten)]
    pub restrictions: Restrictions,
    /// What the executable's content must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Pin>,
    /// What it may touch; without it, whatever its user may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// Size of the terminal that it runs on; without it, on pipes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty: Option<Size>,
}

impl Profile {
    /// A profile of the required fields, every other at its default. Checks nothing.
    pub fn new(id: impl Into<String>, argv: Vec<String>) -> Profile {
        Profile {
            id: id.into(),
            argv,
            allowed_env: Vec::new(),
            description: None,
            env: Vec::new(),
            cwd: None,
            timeout_ms: None,
            stdin: StdinKind::default(),
            allow_detach: false,
            restrictions: Restrictions::default(),
            sha256: None,
            sandbox: None,
            tty: None,
        }
    }
}

/// A checked config: every rule of the format holds for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Config {
    /// Directories that a working directory must lie in. Absolute; resolved when used.
    pub allowed_roots: Vec<PathBuf>,
    /// Working directory when neither client nor profile names one.
    pub default_cwd: PathBuf,
    /// Approved commands, in the config's order.
    #[serde(serialize_with = "members_of_commands")]
    pub commands: Vec<Profile>,
    /// Sessions that may be not final at once.
    pub max_sessions: usize,
    /// Sessions that may be retained at once.
    pub max_records: usize,
    /// UTF-8 bytes kept per session.
    pub buffer_bytes: usize,
    /// Code points kept per session; `None` when only `buffer_bytes` binds.
    pub buffer_records: Option<u64>,
    /// Lifetime when neither client nor profile names one.
    pub default_timeout_ms: u64,
    /// Longest lifetime that a client may ask for.
    pub max_timeout_ms: u64,
    /// How long a final session stays readable.
    pub retention_seconds: u64,
    /// UTF-8 bytes of one write.
    pub max_input_bytes: usize,
    /// Layout of results.
    pub results: Results,
    /// Where the audit log goes, when one is kept. Absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_log: Option<PathBuf>,
    /// Where text goes that leaves memory, when it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spool: Option<Spool>,
}

/// How closely a config is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// Whether it may be served.
    StartUp,
    /// Also whether its programs can be started, and are what they are pinned to be.
    Check,
}

/// A config that was taken, and what the Owner should know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The config.
    pub config: Config,
    /// Findings that stop nothing.
    pub warnings: Vec<Finding>,
}

impl Config {
    /// Reads and checks the config in the file `path`.
    ///
    /// # Errors
    /// All findings, warnings among them, in the order of the file; at least one is an error.
    pub fn load(path: &Path) -> Result<Loaded, Vec<Finding>> {
        Config::read(path, Depth::StartUp)
    }

    /// Reads and checks the config in the file `path`, and the programs that it approves.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn check(path: &Path) -> Result<Loaded, Vec<Finding>> {
        Config::read(path, Depth::Check)
    }

    fn read(path: &Path, depth: Depth) -> Result<Loaded, Vec<Finding>> {
        let source = source::read(path).map_err(|finding| vec![*finding])?;
        let joined = |mut findings: Vec<Finding>| {
            findings.splice(0..0, source.warnings.clone());
            findings
        };
        match Config::examine(path, &source.bytes, depth) {
            Ok(loaded) => Ok(Loaded {
                config: loaded.config,
                warnings: joined(loaded.warnings),
            }),
            Err(findings) => Err(joined(findings)),
        }
    }

    /// Checks a config's bytes; `file` is only what findings call them.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_bytes(file: &Path, bytes: &[u8]) -> Result<Loaded, Vec<Finding>> {
        Config::examine(file, bytes, Depth::StartUp)
    }

    /// Checks a config's bytes, and the programs that it approves.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn check_bytes(file: &Path, bytes: &[u8]) -> Result<Loaded, Vec<Finding>> {
        Config::examine(file, bytes, Depth::Check)
    }

    fn examine(file: &Path, bytes: &[u8], depth: Depth) -> Result<Loaded, Vec<Finding>> {
        let text = source::text(file, bytes).map_err(|finding| vec![*finding])?;
        let mut findings = finding::Findings::new(file, text);
        let config = syntax::parse(text, &mut findings)
            .and_then(|root| document::read(&root, &mut findings))
            .and_then(|draft| validate::check(draft, depth, &mut findings));
        let refused = findings.refused();
        match config {
            Some(config) if !refused => Ok(Loaded {
                config,
                warnings: findings.into_sorted(),
            }),
            _ => {
                assert!(
                    refused,
                    "a config that isn't built has an error that says why"
                );
                Err(findings.into_sorted())
            }
        }
    }

    /// A config of the required fields, every other at its default. Checks nothing.
    pub fn with_defaults(
        allowed_roots: Vec<PathBuf>,
        default_cwd: PathBuf,
        commands: Vec<Profile>,
    ) -> Config {
        Config {
            allowed_roots,
            default_cwd,
            commands,
            max_sessions: in_memory(defaults::MAX_SESSIONS),
            max_records: in_memory(defaults::MAX_RECORDS),
            buffer_bytes: in_memory(defaults::BUFFER_BYTES),
            buffer_records: Some(defaults::BUFFER_RECORDS),
            default_timeout_ms: defaults::DEFAULT_TIMEOUT_MS,
            max_timeout_ms: defaults::MAX_TIMEOUT_MS,
            retention_seconds: defaults::RETENTION_SECONDS,
            max_input_bytes: in_memory(defaults::MAX_INPUT_BYTES),
            results: Results::default(),
            audit_log: None,
            spool: None,
        }
    }

    /// The config as a file holds it, every field written out, with a line end.
    ///
    /// # Errors
    /// A path that is not UTF-8 has no spelling in JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// The profile of this name.
    pub fn command(&self, id: &str) -> Option<&Profile> {
        self.commands.iter().find(|profile| profile.id == id)
    }
}

/// A count within one of the bounds of [`limits`], all of which are far below `usize::MAX`.
fn in_memory(count: u64) -> usize {
    usize::try_from(count).expect("every bound of the format fits in memory")
}

fn members_of_commands<S: Serializer>(
    commands: &[Profile],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(commands.iter().map(|profile| (&profile.id, profile)))
}

fn members_of_env<S: Serializer>(
    env: &[(String, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(env.iter().map(|(name, value)| (name, value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    const GOOD: &str = r#"{"allowed_roots": ["/usr"], "default_cwd": "/usr", "commands": {"a": {"argv": ["/bin/true"]}}}"#;

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("owner.json");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    #[test]
    fn what_is_left_out_is_at_its_default() {
        let (_dir, path) = file(GOOD, 0o600);
        let loaded = Config::load(&path).unwrap();
        assert_eq!(loaded.warnings, []);
        let config = loaded.config;
        assert_eq!((config.max_sessions, config.max_records), (8, 32));
        assert_eq!(
            (config.buffer_bytes, config.buffer_records),
            (1_048_576, Some(65_536))
        );
        assert_eq!(
            (config.default_timeout_ms, config.max_timeout_ms),
            (30_000, 300_000)
        );
        assert_eq!(
            (config.retention_seconds, config.max_input_bytes),
            (300, 65_536)
        );
        assert_eq!(config.results, Results::Both);
        let profile = config.command("a").unwrap();
        assert_eq!(profile.stdin, StdinKind::Pipe);
        assert_eq!((&profile.cwd, profile.timeout_ms), (&None, None));
        assert!(profile.allowed_env.is_empty() && profile.env.is_empty());
        assert_eq!(config.command("A"), None);
    }

    #[test]
    fn commands_and_variables_keep_the_order_of_the_file() {
        let text = r#"{"allowed_roots": ["/usr"], "default_cwd": "/usr", "commands": {
            "z": {"argv": ["/bin/true"], "env": {"Z": "1", "A": "2"}}, "a": {"argv": ["/bin/true"]}}}"#;
        let config = Config::from_bytes(Path::new("f"), text.as_bytes())
            .unwrap()
            .config;
        let ids: Vec<&str> = config
            .commands
            .iter()
            .map(|profile| profile.id.as_str())
            .collect();
        assert_eq!(ids, ["z", "a"]);
        let names: Vec<&str> = config.commands[0]
            .env
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["Z", "A"]);
    }

    #[test]
    fn findings_about_the_file_come_before_those_about_its_text() {
        let (_dir, path) = file(&GOOD.replace("\"/bin/true\"", "\"true\""), 0o620);
        let findings = Config::load(&path).unwrap_err();
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[0].severity, Severity::Warning);
        assert_eq!(findings[1].path, "commands.a.argv[0]");
        let line = startup_line(&findings).unwrap();
        assert!(
            line.contains("argv[0]: is \"true\"") && !line.contains("more"),
            "{line}"
        );
    }

    #[test]
    fn paths_are_judged_by_where_they_lead() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(base.join("work/sub")).unwrap();
        fs::create_dir(base.join("work-evil")).unwrap();
        std::os::unix::fs::symlink("work", base.join("link")).unwrap();
        std::os::unix::fs::symlink("../work-evil", base.join("work/out")).unwrap();
        let load = |cwd: &str| {
            let mut config = Config::with_defaults(
                vec![base.join("link")],
                base.join(cwd),
                Config::from_bytes(Path::new("f"), GOOD.as_bytes())
                    .unwrap()
                    .config
                    .commands,
            );
            config.commands[0].cwd = Some(base.join(cwd));
            Config::from_bytes(Path::new("f"), config.to_json().unwrap().as_bytes())
        };
        for inside in [
            "work",
            "link",
            "link/sub",
            "work/sub/..",
            "work/out/../work/sub",
        ] {
            let loaded = load(inside).unwrap_or_else(|findings| panic!("{inside}: {findings:?}"));
            assert_eq!(
                loaded.config.default_cwd,
                base.join(inside),
                "kept as it is named"
            );
        }
        for outside in ["work-evil", "work/out", "work/.."] {
            let paths: Vec<String> = load(outside)
                .unwrap_err()
                .into_iter()
                .map(|finding| finding.path)
                .collect();
            assert_eq!(paths, ["default_cwd", "commands.a.cwd"], "{outside}");
        }
    }

    #[test]
    fn a_file_full_of_mistakes_lists_the_first_and_counts_the_rest() {
        let text = format!("{{\"allowed_roots\": [{}0]}}", "1,".repeat(100_000));
        let findings = Config::from_bytes(Path::new("f"), text.as_bytes()).unwrap_err();
        assert_eq!(findings.len(), 201);
        assert!(
            findings[200]
                .message
                .contains("more findings are not listed")
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            Config::from_bytes(Path::new("f"), &bytes).ok();
        }

        #[test]
        fn no_damage_to_a_config_makes_the_reader_panic(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = GOOD.as_bytes().to_vec();
            for (at, byte) in damage {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(GOOD.len()) + 1);
            if let Err(findings) = Config::from_bytes(Path::new("f"), &bytes) {
                prop_assert!(startup_line(&findings).is_some_and(|line| !line.contains('\n')));
            }
        }
    }
}
