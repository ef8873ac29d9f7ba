//! The `sluicegate` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate::cli::main()
}
