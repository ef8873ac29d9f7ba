//! `config new` writes an Owner config to begin with; `config check` says everything that is wrong with one;
//! `config schema` describes the format to editors.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};

use crate::{
    arena::{BLOCK_BYTES, MAX_LEAVING, max_blocks},
    config::{
        self, Config, Finding, Loaded, Severity,
        limits::{self, Holds},
    },
    supervisor::search::SEARCH_BYTES,
};

mod new;
mod preset;

pub use new::NewArgs;

/// Commands about the Owner's config.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Write a config with absolute paths, to be edited: the demo commands, or those of a kind of repository.
    New(NewArgs),
    /// Report everything that is wrong with a config, and whether its programs are there.
    Check(CheckArgs),
    /// Print the JSON Schema of the config, for editors.
    Schema,
}

/// Arguments of `config check`.
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    /// The config to check.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Runs one of the commands: its report goes to `out`, why it could not do its work to `err`.
///
/// # Errors
/// Only those of `out` and `err`.
pub fn run(
    command: &ConfigCommand,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<ExitCode> {
    match command {
        ConfigCommand::New(args) => new::new(args, out, err),
        ConfigCommand::Check(args) => check(&args.file, out),
        ConfigCommand::Schema => {
            writeln!(out, "{:#}", config::schema())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(file: &Path, out: &mut dyn Write) -> io::Result<ExitCode> {
    let Loaded { config, warnings } = match Config::check(file) {
        Ok(loaded) => loaded,
        Err(findings) => {
            report(&findings, out)?;
            return Ok(ExitCode::FAILURE);
        }
    };
    report(&warnings, out)?;
    let holds = Holds {
        blocks_per_record: max_blocks(config.buffer_bytes),
        leaving_blocks: MAX_LEAVING,
        block_bytes: BLOCK_BYTES,
        search_bytes: SEARCH_BYTES,
    };
    let plan = limits::plan(&config, holds);
    writeln!(
        out,
        "ok: {}, {}, at most {} sessions at once and {} retained",
        counted(config.commands.len(), "command"),
        counted(config.allowed_roots.len(), "root"),
        config.max_sessions,
        config.max_records
    )?;
    writeln!(out, "memory at worst: {} MiB", mebibytes(plan.total))?;
    for (name, bytes) in plan.items.into_iter().filter(|(_, bytes)| *bytes > 0) {
        writeln!(out, "  {:>5} MiB  {name}", mebibytes(bytes))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn report(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    for finding in findings {
        writeln!(out, "{finding}")?;
    }
    let errors = errors(findings);
    if errors > 0 {
        writeln!(
            out,
            "{}, {}",
            counted(errors, "error"),
            counted(findings.len() - errors, "warning")
        )?;
    }
    Ok(())
}

fn errors(findings: &[Finding]) -> usize {
    let errors = findings.iter();
    errors
        .filter(|finding| finding.severity == Severity::Error)
        .count()
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn mebibytes(bytes: usize) -> usize {
    bytes.div_ceil(1_048_576)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    /// What the command printed and whether it succeeded.
    struct Ran {
        out: String,
        err: String,
        succeeded: bool,
    }

    fn ran(command: &ConfigCommand) -> Ran {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = run(command, &mut out, &mut err).unwrap();
        Ran {
            out: String::from_utf8(out).unwrap(),
            err: String::from_utf8(err).unwrap(),
            succeeded: code == ExitCode::SUCCESS,
        }
    }

    fn new_config(root: &Path, output: &Path, force: bool) -> Ran {
        ran(&ConfigCommand::New(NewArgs {
            root: root.to_owned(),
            output: output.to_owned(),
            preset: Vec::new(),
            force,
        }))
    }

    fn check_config(file: &Path) -> Ran {
        ran(&ConfigCommand::Check(CheckArgs {
            file: file.to_owned(),
        }))
    }

    #[test]
    fn a_new_config_is_private_and_passes_its_check() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("a/b/owner.json");
        let made = new_config(dir.path(), &output, false);
        assert!(made.succeeded, "{}", made.err);
        assert_eq!(
            fs::metadata(&output).unwrap().permissions().mode() & 0o7777,
            0o600
        );
        assert_eq!(
            fs::read_dir(output.parent().unwrap()).unwrap().count(),
            1,
            "no draft is left"
        );
        let checked = check_config(&output);
        assert!(checked.succeeded, "{}", checked.out);
        assert!(
            checked.out.starts_with("ok: 13 commands, 1 root, "),
            "{}",
            checked.out
        );
        assert!(checked.out.contains("memory at worst: "), "{}", checked.out);
    }

    #[test]
    fn a_file_that_is_there_is_replaced_only_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("owner.json");
        fs::write(&output, "mine").unwrap();
        fs::set_permissions(&output, fs::Permissions::from_mode(0o644)).unwrap();
        let refused = new_config(dir.path(), &output, false);
        assert!(
            !refused.succeeded && refused.err.contains("--force"),
            "{}",
            refused.err
        );
        assert_eq!(fs::read_to_string(&output).unwrap(), "mine");
        assert!(new_config(dir.path(), &output, true).succeeded);
        assert!(check_config(&output).succeeded);
        assert_eq!(
            fs::metadata(&output).unwrap().permissions().mode() & 0o7777,
            0o600
        );
    }

    #[test]
    fn what_can_be_no_root_or_no_output_is_refused_in_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("owner.json");
        fs::write(dir.path().join("file"), "").unwrap();
        for (root, output) in [
            (dir.path().join("none"), output.clone()),
            (dir.path().join("file"), output.clone()),
            (dir.path().to_owned(), dir.path().to_owned()),
            (dir.path().to_owned(), dir.path().join("file/owner.json")),
            (dir.path().to_owned(), PathBuf::from("/")),
        ] {
            let refused = new_config(&root, &output, false);
            assert!(!refused.succeeded);
            assert_eq!(
                (refused.out.as_str(), refused.err.lines().count()),
                ("", 1),
                "{}",
                refused.err
            );
        }
        assert!(!output.exists());
    }

    #[test]
    fn the_schema_is_printed_as_json() {
        let printed = ran(&ConfigCommand::Schema);
        assert!(printed.succeeded);
        let schema: serde_json::Value = serde_json::from_str(&printed.out).unwrap();
        assert_eq!(schema, config::schema());
    }

    #[test]
    fn a_check_reports_every_finding_and_counts_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("owner.json");
        fs::write(
            &file,
            r#"{"allowed_roots": ["/"], "default_cwd": "x", "commands": {}}"#,
        )
        .unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let checked = check_config(&file);
        assert!(!checked.succeeded);
        assert!(checked.out.contains("allowed_roots[0]") && checked.out.contains("default_cwd"));
        assert!(
            checked.out.ends_with("2 errors, 1 warning\n"),
            "{}",
            checked.out
        );
    }

    #[test]
    fn a_check_names_each_program_that_cannot_start() {
        let dir = tempfile::tempdir().unwrap();
        let plain = dir.path().join("plain");
        fs::write(&plain, "").unwrap();
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
        let mut config = Config::demo(dir.path(), Path::new("/bin/sh"));
        config.commands.truncate(4);
        config.commands[1].argv[0] = "/nonexistent/program".into();
        config.commands[2].argv[0] = dir.path().to_str().unwrap().into();
        config.commands[3].argv[0] = plain.to_str().unwrap().into();
        let file = dir.path().join("owner.json");
        fs::write(&file, config.to_json().unwrap()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let checked = check_config(&file);
        assert!(!checked.succeeded);
        let lines: Vec<&str> = checked.out.lines().collect();
        assert_eq!(lines.len(), 4, "{}", checked.out);
        assert!(lines[0].contains(
            "commands.interactive.argv[0]: is \"/nonexistent/program\", which does not exist"
        ));
        assert!(lines[1].contains("commands.long.argv[0]") && lines[1].contains("is not a file"));
        assert!(
            lines[2].contains("commands.unicode.argv[0]") && lines[2].contains("is not executable")
        );
        assert_eq!(lines[3], "3 errors, 0 warnings");
    }
}
