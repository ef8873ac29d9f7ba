//! `sluicegate completions` and `sluicegate man`: made from the command line's own description, so they can't fall behind.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, reason};

// `completions`' command line.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell to complete for.
    #[arg(value_enum)]
    shell: Shell,
}

// `man`'s command line.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Existing directory to write the pages of all commands into; without it the main page is printed.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Prints a script that the shell is to read.
pub(super) fn completions(args: &CompletionsArgs, out: &mut dyn Write) -> io::Result<ExitCode> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    // The generator takes its writer for one that can't fail.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out.write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the main page, or writes all pages.
pub(super) fn man(
    args: &ManArgs,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<ExitCode> {
    let Some(directory) = &args.output else {
        clap_mangen::Man::new(Cli::command()).render(out)?;
        return Ok(ExitCode::SUCCESS);
    };
    match write_pages(directory) {
        Ok(()) => {
            writeln!(out, "wrote the pages into {}", directory.display())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            writeln!(
                err,
                "--output {}: {}; name an existing directory that you may write",
                directory.display(),
                reason(&why)
            )?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn write_pages(directory: &Path) -> io::Result<()> {
    // Its own error would name a file in it.
    if !fs::metadata(directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    clap_mangen::generate_to(Cli::command(), directory)
}
