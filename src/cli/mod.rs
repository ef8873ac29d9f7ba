//! The command line: parse, dispatch, exit code. One file for each command.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use nix::errno::Errno;

mod answer;
mod client;
mod config;
mod connect;
mod demo;
mod doctor;
mod draft;
mod file_pages;
mod generated;
mod log;
mod place;
mod screen;
mod served;
mod stdio;
mod verify;

/// An MCP process host: starts only the commands that you approved, follows their output without losing a character,
/// and leaves nothing behind.
#[derive(Debug, Parser)]
#[command(
    name = "sluicegate",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Only the arguments of the command that is given are set up: the server keeps its memory for sessions.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum Command {
    /// Serve MCP on standard input and output. This is what an MCP client launches.
    Stdio(stdio::StdioArgs),
    /// Write or check a config of approved commands.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print what to tell an MCP client, and where it belongs. Changes no file.
    Connect(connect::ConnectArgs),
    /// Start this program as an MCP client would, hold it to what it promises, and write down the evidence.
    Verify(verify::VerifyArgs),
    /// Tell whether the server can do its work on this machine, and what it would choose.
    Doctor(doctor::DoctorArgs),
    /// Show what the host does: starts a server, runs the demo profiles through it, and prints what happens.
    Demo(demo::DemoArgs),
    /// Print a script that completes this command line in a shell.
    Completions(generated::CompletionsArgs),
    /// Print the manual page, or write those of all commands.
    Man(generated::ManArgs),
    /// The programs behind the demo profiles.
    #[command(hide = true)]
    DemoProgram {
        /// Which one.
        name: String,
    },
}

/// Parses the command line and runs it. Exit codes: 0 done, 1 it could not be done, 2 the command line is wrong.
pub fn main() -> ExitCode {
    let command = Cli::parse().command;
    if let Command::DemoProgram { name } = &command {
        // A hosted child: it keeps the signal dispositions and the descriptors that the host gave it.
        return crate::demo::run_program(name);
    }
    if let Err(errno) = crate::process::prepare() {
        return fail(&format!(
            "can't bring the process into order: {}",
            errno.desc()
        ));
    }
    if let Command::Stdio(args) = &command {
        return stdio::run(args);
    }
    let (mut out, mut err) = (io::stdout().lock(), io::stderr());
    let outcome = match command {
        Command::Config(command) => config::run(&command, &mut out, &mut err),
        Command::Connect(args) => connect::run(&args, &mut out, &mut err),
        Command::Verify(args) => verify::run(&args, &mut out, &mut err),
        Command::Doctor(args) => doctor::run(&args, &mut out),
        Command::Demo(args) => demo::run(&args, &mut out),
        Command::Completions(args) => generated::completions(&args, &mut out),
        Command::Man(args) => generated::man(&args, &mut out, &mut err),
        Command::Stdio(_) | Command::DemoProgram { .. } => return ExitCode::SUCCESS,
    };
    match outcome {
        Ok(code) => code,
        // Whoever reads our output has left, as `| head` does: nobody is there to be told.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// One line on stderr, and the exit code that goes with it.
fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    // Nothing can be done about a stderr that is gone.
    writeln!(io::stderr(), "sluicegate: {error}").ok();
    ExitCode::FAILURE
}

/// What an error says, without its number, which helps nobody.
fn reason(error: &io::Error) -> String {
    let errno = error.raw_os_error().map(Errno::from_raw);
    errno.map_or_else(|| error.to_string(), |errno| errno.desc().to_owned())
}

/// The absolute path of this program, for profiles and clients that start it again.
fn this_program() -> io::Result<PathBuf> {
    std::env::current_exe().map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("can't tell where this program is: {error}"),
        )
    })
}
