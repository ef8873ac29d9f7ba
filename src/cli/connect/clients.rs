//! The clients: where each keeps its MCP servers and how it spells one.
//!
//! Looked up in November 2026, each in what its maker publishes unless said otherwise:
//!
//! - Claude Code: code.claude.com/docs/en/mcp (`claude mcp add`; user scope in `~/.claude.json`, project scope in
//!   `.mcp.json`, both under `mcpServers`).
//! - Claude Desktop: modelcontextprotocol.io/quickstart/user for the format; the Linux beta keeps its files where Electron
//!   programs do, `$XDG_CONFIG_HOME/Claude` (from packagers' documentation, not from its maker).
//! - VS Code: code.visualstudio.com/docs/agents/reference/mcp-configuration (`servers`, `type` required, `mcp.json` of the
//!   workspace or the user profile; no longer `settings.json`).
//! - Cursor: cursor.com/docs/mcp (`mcpServers`, `~/.cursor/mcp.json`, `.cursor/mcp.json`).
//! - Windsurf: since June 2026 it is Devin Desktop and reads `~/.config/devin/mcp_config.json`
//!   (docs.devin.ai/cli/extensibility/mcp/configuration; vendors' set-up pages name that file for the editor); before,
//!   `~/.codeium/windsurf/mcp_config.json` (docs.windsurf.com/windsurf/cascade/mcp).
//! - Codex: `RawMcpServerConfig` in openai/codex, codex-rs/config/src/mcp_types.rs (`[mcp_servers.NAME]`, unknown fields
//!   are refused under `--strict-config`; calls time out after 60 s unless `tool_timeout_sec` says otherwise).
//! - Zed: zed.dev/docs/ai/mcp (`context_servers`; `source` is of earlier versions) and zed.dev/docs/configuring-zed.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Value, json};

/// The clients that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Claude Desktop.
    ClaudeDesktop,
    /// Visual Studio Code.
    Vscode,
    /// Cursor.
    Cursor,
    /// Windsurf, now Devin Desktop.
    Windsurf,
    /// Codex, the CLI, the app and the extension.
    Codex,
    /// Zed.
    Zed,
}

/// How the server is launched: what every client is told in its own spelling.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) name: String,
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
}

/// A server as most clients spell it, in the order in which their documentation does.
#[derive(Serialize)]
struct Server<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    command: &'a str,
    args: &'a [String],
}

impl Client {
    /// The word on the command line.
    pub(super) fn id(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What its makers call it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Client::ClaudeCode => "Claude Code",
            Client::ClaudeDesktop => "Claude Desktop",
            Client::Vscode => "VS Code",
            Client::Cursor => "Cursor",
            Client::Windsurf => "Windsurf (now Devin Desktop)",
            Client::Codex => "Codex",
            Client::Zed => "Zed",
        }
    }

    /// The file that the snippet belongs in, for all projects of this user.
    pub(super) fn file(self) -> PathBuf {
        match self {
            Client::ClaudeCode => home().join(".claude.json"),
            Client::ClaudeDesktop => settings().join("Claude/claude_desktop_config.json"),
            Client::Vscode => settings().join("Code/User/mcp.json"),
            Client::Cursor => home().join(".cursor/mcp.json"),
            Client::Windsurf => home().join(".config/devin/mcp_config.json"),
            Client::Codex => env::var_os("CODEX_HOME")
                .map_or_else(|| home().join(".codex"), PathBuf::from)
                .join("config.toml"),
            Client::Zed => settings().join("zed/settings.json"),
        }
    }

    /// Where else the same snippet can go.
    pub(super) fn elsewhere(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Client::ClaudeCode => &[(".mcp.json", "in a project's root, for that project")],
            Client::ClaudeDesktop => &[],
            Client::Vscode => &[(".vscode/mcp.json", "in a workspace, for that workspace")],
            Client::Cursor => &[(".cursor/mcp.json", "in a project, for that project")],
            Client::Windsurf => &[
                (".devin/mcp_config.json", "in a project, for that project"),
                (
                    "~/.codeium/windsurf/mcp_config.json",
                    "for versions before June 2026",
                ),
            ],
            Client::Codex => &[(".codex/config.toml", "in a project that Codex trusts")],
            Client::Zed => &[(".zed/settings.json", "in a project, for that project")],
        }
    }

    /// The object, or the TOML table, that the servers stand under.
    pub(super) fn section(self) -> &'static str {
        match self {
            Client::Vscode => "servers",
            Client::Zed => "context_servers",
            Client::Codex => "mcp_servers",
            _ => "mcpServers",
        }
    }

    /// What goes into the file: a whole file if there is none, with a line end.
    pub(super) fn snippet(self, launch: &Launch) -> String {
        let Launch {
            name,
            program,
            arguments,
        } = launch;
        let server = match self {
            Client::Codex => {
                let arguments: Vec<String> = arguments.iter().map(|text| toml(text)).collect();
                return format!(
                    "[mcp_servers.{name}]\ncommand = {}\nargs = [{}]\n",
                    toml(program),
                    arguments.join(", ")
                );
            }
            Client::ClaudeCode | Client::Vscode | Client::Cursor => Server {
                r#type: Some("stdio"),
                command: program,
                args: arguments,
            },
            Client::ClaudeDesktop | Client::Windsurf | Client::Zed => Server {
                r#type: None,
                command: program,
                args: arguments,
            },
        };
        let servers = BTreeMap::from([(name, server)]);
        let file = BTreeMap::from([(self.section(), servers)]);
        serde_json::to_string_pretty(&file).expect("texts have a spelling in JSON") + "\n"
    }

    /// The client's own command that puts it there, when it has one.
    pub(super) fn command(self, launch: &Launch) -> Option<Vec<String>> {
        let Launch {
            name,
            program,
            arguments,
        } = launch;
        let words =
            |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).into()).collect() };
        let mut command = match self {
            Client::ClaudeCode => words(&["claude", "mcp", "add", "--scope", "user", name, "--"]),
            Client::Codex => words(&["codex", "mcp", "add", name, "--"]),
            Client::Vscode => {
                let server: Value =
                    json!({ "name": name, "type": "stdio", "command": program, "args": arguments });
                return Some(words(&["code", "--add-mcp", &server.to_string()]));
            }
            _ => return None,
        };
        command.push(program.clone());
        command.extend(arguments.iter().cloned());
        Some(command)
    }
}

/// The user's home, or the sign for it where nothing tells.
fn home() -> PathBuf {
    env::home_dir()
        .filter(|home| home.is_absolute())
        .unwrap_or_else(|| PathBuf::from("~"))
}

/// Where this user's programs keep their settings.
pub(super) fn settings() -> PathBuf {
    let named = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    named
        .filter(|path| path.is_absolute())
        .unwrap_or_else(|| home().join(".config"))
}

/// Where the Owner's config is looked for when none is named.
pub(super) fn usual_config() -> PathBuf {
    settings().join(Path::new("sluicegate/config.json"))
}

/// A basic string of TOML, which is a string of JSON in which no DEL stands as such.
fn toml(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

/// A word as a POSIX shell takes it.
pub(super) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn launch(program: &str, config: &str) -> Launch {
        Launch {
            name: "sluicegate".to_owned(),
            program: program.to_owned(),
            arguments: ["stdio", "--config", config].map(str::to_owned).to_vec(),
        }
    }

    /// The server's object as a client would read it from the file.
    fn read_back(client: Client, snippet: &str) -> Value {
        let file: Value = if client == Client::Codex {
            toml::from_str(snippet).unwrap()
        } else {
            serde_json::from_str(snippet).unwrap()
        };
        let servers = &file[client.section()];
        assert_eq!(servers.as_object().unwrap().len(), 1);
        servers["sluicegate"].clone()
    }

    proptest! {
        #[test]
        fn every_client_reads_back_what_was_meant(
            program in "/[ -~é中\u{7f}\t]{1,20}",
            config in "/[ -~é\"\\\\']{1,20}",
        ) {
            let launch = launch(&program, &config);
            for client in Client::value_variants() {
                let server = read_back(*client, &client.snippet(&launch));
                prop_assert_eq!(&server["command"], &program);
                prop_assert_eq!(&server["args"], &json!(["stdio", "--config", &config]));
                let typed = matches!(client, Client::ClaudeCode | Client::Vscode | Client::Cursor);
                prop_assert_eq!(server.get("type").is_some(), typed);
            }
        }

        #[test]
        fn a_shell_gives_a_word_back(word in "[ -~é\n]{0,20}") {
            let line = format!("printf %s {}", shell_word(&word));
            let said = std::process::Command::new("/bin/sh").args(["-c", &line]).output().unwrap();
            prop_assert_eq!(String::from_utf8(said.stdout).unwrap(), word);
        }
    }
}
