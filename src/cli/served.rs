//! What `stdio` serves: the Owner's config or what takes its place, and what the command line and the environment put
//! over it.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};

use super::this_program;
use crate::config::{
    Access, Config, Toolsets, environment,
    limits::{MAX_ALL_BUFFER_BYTES, MAX_INPUT_BYTES, MAX_RECORDS},
    startup_line,
};

// The part of `stdio`'s command line that says what is served.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ServedArgs {
    /// The config of approved commands. Without it: the current directory as the only root, and the demo profiles; or,
    /// with `--tools session --allow-any-command`, no approved commands at all.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Which tools a client sees, instead of what the config's `toolsets` says.
    #[arg(long, value_enum, value_name = "SET")]
    tools: Option<ToolsChoice>,
    /// Let the session tools start any command line, in this environment: the client can then do whatever you can.
    #[arg(long)]
    allow_any_command: bool,
}

/// The sets of tools as the command line names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ToolsChoice {
    /// The `terminal_*` tools, which start approved commands.
    Terminal,
    /// The `session_*` tools, which converse with programs on terminals.
    Session,
    /// Both.
    All,
}

impl From<ToolsChoice> for Toolsets {
    fn from(choice: ToolsChoice) -> Self {
        Self {
            terminal: choice != ToolsChoice::Session,
            session: choice != ToolsChoice::Terminal,
        }
    }
}

/// The config to serve. `variable` looks into the environment. What is refused comes as one line.
pub(super) fn config(
    args: &ServedArgs,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Config, String> {
    let mut config = match &args.config {
        Some(path) => from_file(path)?,
        None => without_file(args)?,
    };
    if let Some(choice) = args.tools {
        config.toolsets = choice.into();
    }
    if args.allow_any_command {
        if !config.toolsets.session {
            return Err(
                "--allow-any-command concerns the session tools, which are off; add --tools session, or \"session\" to \
                 the config's toolsets"
                    .to_owned(),
            );
        }
        config.session_commands = Access::Any;
    }
    if config.toolsets.session {
        environment::apply(&mut config.session, variable).map_err(|bad| bad.to_string())?;
    }
    if args.config.is_none() && config.toolsets.session {
        fit(&mut config);
    }
    Ok(config)
}

fn from_file(path: &Path) -> Result<Config, String> {
    match Config::load(path) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                tracing::warn!("{warning}");
            }
            Ok(loaded.config)
        }
        Err(findings) => {
            Err(startup_line(&findings).unwrap_or_else(|| format!("{}: refused", path.display())))
        }
    }
}

fn without_file(args: &ServedArgs) -> Result<Config, String> {
    let here = std::env::current_dir()
        .map_err(|error| format!("can't tell the current directory: {error}"))?;
    match args.tools {
        None | Some(ToolsChoice::Terminal) => {
            let program = this_program().map_err(|error| error.to_string())?;
            Ok(Config::demo(&here, &program))
        }
        Some(ToolsChoice::Session) if args.allow_any_command => {
            Ok(Config::with_defaults(vec!["/".into()], here, Vec::new()))
        }
        Some(ToolsChoice::Session) => Err(
            "--tools session without --config leaves nothing to start; give --config FILE with approved commands, or \
             --allow-any-command"
                .to_owned(),
        ),
        Some(ToolsChoice::All) => Err(
            "--tools all needs --config FILE with approved commands; only --tools session --allow-any-command does \
             without"
                .to_owned(),
        ),
    }
}

/// Without a file the settings of the session tools are the only ones, so the bounds for all sessions follow them.
fn fit(config: &mut Config) {
    let settings = &config.session;
    config.max_sessions = settings.max_sessions;
    config.buffer_bytes = settings.max_buffer_bytes;
    config.buffer_records = None;
    let bound =
        |bound: u64| usize::try_from(bound).expect("every bound of the format fits in memory");
    // As many ended sessions as the format's budget has room for stay readable.
    config.max_records = (bound(MAX_ALL_BUFFER_BYTES) / settings.max_buffer_bytes)
        .clamp(settings.max_sessions, bound(*MAX_RECORDS.end()));
    config.max_input_bytes = bound(*MAX_INPUT_BYTES.end());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(
        tools: Option<ToolsChoice>,
        allow_any_command: bool,
        variables: &[(&str, &str)],
    ) -> Result<Config, String> {
        let args = ServedArgs {
            config: None,
            tools,
            allow_any_command,
        };
        config(&args, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn only_session_tools_with_any_command_do_without_a_file() {
        let free = served(Some(ToolsChoice::Session), true, &[]).unwrap();
        assert!(free.commands.is_empty() && free.toolsets.session && !free.toolsets.terminal);
        assert_eq!(free.session_commands, Access::Any);
        assert_eq!(free.max_sessions, 10);
        assert_eq!((free.buffer_bytes, free.max_records), (1_000_000, 67));
        for (tools, any, named) in [
            (Some(ToolsChoice::Session), false, "--allow-any-command"),
            (Some(ToolsChoice::All), false, "--config"),
            (Some(ToolsChoice::All), true, "--config"),
            (Some(ToolsChoice::Terminal), true, "--tools session"),
            (None, true, "--tools session"),
        ] {
            let said = served(tools, any, &[]).unwrap_err();
            assert!(said.contains(named) && !said.contains('\n'), "{said}");
        }
        let demo = served(Some(ToolsChoice::Terminal), false, &[]).unwrap();
        assert!(!demo.commands.is_empty() && !demo.toolsets.session);
    }

    #[test]
    fn the_environment_counts_for_session_tools_alone() {
        let variables = [
            ("TERMINAL_MCP_MAX_SESSIONS", "64"),
            ("SLUICEGATE_MAX_BUFFER_BYTES", "16777216"),
        ];
        let free = served(Some(ToolsChoice::Session), true, &variables).unwrap();
        assert_eq!((free.max_sessions, free.max_records), (64, 64));
        assert_eq!(free.buffer_bytes, 16_777_216);
        let bad = [("TERMINAL_MCP_MAX_SESSIONS", "many")];
        let said = served(Some(ToolsChoice::Session), true, &bad).unwrap_err();
        assert!(
            said.contains("TERMINAL_MCP_MAX_SESSIONS is \"many\""),
            "{said}"
        );
        assert!(served(None, false, &bad).is_ok());
    }
}
