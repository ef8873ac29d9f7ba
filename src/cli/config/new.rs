//! `config new`: a config to begin with, written only when it would pass its check.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;

use super::preset::{self, LONGEST_MS, Preset};
use crate::{
    cli::{
        draft::{Draft, NotWritten, Present},
        reason, this_program,
    },
    config::{Config, Finding, Loaded},
};

/// Arguments of `config new`.
#[derive(Args, Clone, Debug)]
pub struct NewArgs {
    /// Existing directory that commands may work in; it becomes the only root and the default directory.
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    /// File to write (mode 0600); missing parent directories are created.
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// Approve commands for this kind of repository instead of the demonstrations; may be repeated.
    #[arg(long, value_enum, value_name = "KIND")]
    pub preset: Vec<Preset>,
    /// Replace the file if it exists.
    #[arg(long)]
    pub force: bool,
}

/// Why no config was written; the text is for the Owner.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("--root {}: {}; name an existing directory", .root.display(), reason(.why))]
    Root { root: PathBuf, why: io::Error },
    #[error("{} is not UTF-8, which JSON can't hold; use another path", .0.display())]
    NotUtf8(PathBuf),
    #[error(
        "nothing was written: none of the tools is here; install one, or name another --preset"
    )]
    NoTools,
    #[error(transparent)]
    Program(#[from] io::Error),
    #[error("nothing was written: the config would be refused; correct what the lines above name")]
    Unfit,
    #[error(transparent)]
    NotWritten(#[from] NotWritten),
}

pub(super) fn new(
    args: &NewArgs,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<ExitCode> {
    let mut remarks = Vec::new();
    let written = write_new(args, &mut remarks);
    for remark in remarks {
        writeln!(err, "{remark}")?;
    }
    let config = match written {
        Ok(config) => config,
        Err(refused) => {
            writeln!(err, "{refused}")?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let output = args.output.display();
    writeln!(out, "wrote {output}")?;
    if args.preset.is_empty() {
        writeln!(
            out,
            "its commands are demonstrations: put your own into \"commands\", then run `sluicegate config check {output}`"
        )?;
    } else {
        for command in &config.commands {
            writeln!(out, "  {}: {}", command.id, command.argv.join(" "))?;
        }
        writeln!(
            out,
            "look through it, then connect a client: `sluicegate connect CLIENT --config {output}`"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes it, or says why not. Whatever else the Owner should know goes into `remarks`.
fn write_new(args: &NewArgs, remarks: &mut Vec<String>) -> Result<Config, Refused> {
    let config = starting_config(args, remarks)?;
    let text = config
        .to_json()
        .map_err(|_| Refused::NotUtf8(args.root.clone()))?;
    let remark = |findings: Vec<Finding>, remarks: &mut Vec<String>| {
        remarks.extend(findings.iter().map(Finding::to_string));
    };
    let present = if args.force {
        Present::Replaced
    } else {
        Present::Kept
    };
    let draft = Draft::create(&args.output, present)?;
    match Config::check_bytes(&args.output, text.as_bytes()) {
        Ok(Loaded { warnings, .. }) => remark(warnings, remarks),
        Err(findings) => {
            remark(findings, remarks);
            return Err(Refused::Unfit);
        }
    }
    draft.place(&text)?;
    Ok(config)
}

fn starting_config(args: &NewArgs, remarks: &mut Vec<String>) -> Result<Config, Refused> {
    let refused = |why| Refused::Root {
        root: args.root.clone(),
        why,
    };
    // Links stay in the path: they are resolved when the server uses it.
    let root = std::path::absolute(&args.root).map_err(refused)?;
    if !fs::metadata(&root).map_err(refused)?.is_dir() {
        return Err(refused(io::ErrorKind::NotADirectory.into()));
    }
    if args.preset.is_empty() {
        let program = this_program()?;
        if program.to_str().is_none() {
            return Err(Refused::NotUtf8(program));
        }
        return Ok(Config::demo(&root, &program));
    }
    of_presets(&args.preset, &root, remarks)
}

fn of_presets(
    presets: &[Preset],
    root: &Path,
    remarks: &mut Vec<String>,
) -> Result<Config, Refused> {
    let outcome = preset::commands(presets, root);
    remarks.extend(outcome.notes);
    if outcome.commands.is_empty() {
        return Err(Refused::NoTools);
    }
    let root = root.to_owned();
    Ok(Config {
        max_timeout_ms: LONGEST_MS,
        // A build's output counts by its size, not by its characters.
        buffer_records: None,
        ..Config::with_defaults(vec![root.clone()], root, outcome.commands)
    })
}
