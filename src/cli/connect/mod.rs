//! `sluicegate connect`: what to tell an MCP client, and where. Changes no file.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use serde_json::json;

use self::clients::{Client, Launch, shell_word, usual_config};
use super::{
    screen::{FAINT, STRONG, Screen},
    this_program,
};
use crate::config::{Config, startup_line};

mod clients;

// `connect`'s command line.
#[derive(Debug, Args)]
pub(super) struct ConnectArgs {
    /// The client to connect; without it, the clients that are known.
    #[arg(value_enum)]
    client: Option<Client>,
    /// The config that the client's server is to serve; without it, ~/.config/sluicegate/config.json.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What the client calls the server: letters, digits, - and _.
    #[arg(long, default_value = "sluicegate", value_parser = server_name)]
    name: String,
    /// Print nothing but the snippet.
    #[arg(long, requires = "client", conflicts_with = "json")]
    snippet: bool,
    /// Print all of it as JSON.
    #[arg(long, requires = "client")]
    json: bool,
}

/// Every client takes these as a key without quotes, and as a part of its tools' names.
fn server_name(name: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(fits) {
        return Err("use letters, digits, - and _ only".to_owned());
    }
    Ok(name.to_owned())
}

/// Prints; the exit code is a failure when the named config can't be served.
pub(super) fn run(
    args: &ConnectArgs,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<ExitCode> {
    let Some(client) = args.client else {
        list(out)?;
        return Ok(ExitCode::SUCCESS);
    };
    let config = match checked_config(args.config.as_deref(), err)? {
        Some(config) => config,
        None => return Ok(ExitCode::FAILURE),
    };
    let launch = Launch {
        name: args.name.clone(),
        program: utf8(&this_program()?)?,
        arguments: vec!["stdio".into(), "--config".into(), utf8(&config)?],
    };
    if args.snippet {
        write!(out, "{}", client.snippet(&launch))?;
    } else if args.json {
        write_json(client, &launch, out)?;
    } else {
        explain(client, &launch, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The config's absolute path. One that was named must be fit to be served; of the usual one it is said when it isn't.
fn checked_config(named: Option<&Path>, err: &mut dyn Write) -> io::Result<Option<PathBuf>> {
    let path = match named {
        Some(named) => std::path::absolute(named)?,
        None => usual_config(),
    };
    if named.is_none() && !path.exists() {
        writeln!(
            err,
            "note: {0} is not there yet; write it with `sluicegate config new --root DIR --output {0}`",
            path.display()
        )?;
        return Ok(Some(path));
    }
    match Config::load(&path) {
        Ok(_) => Ok(Some(path)),
        Err(findings) => {
            let line = startup_line(&findings);
            let line = line.unwrap_or_else(|| format!("{}: refused", path.display()));
            if named.is_some() {
                writeln!(err, "{line}")?;
                return Ok(None);
            }
            writeln!(err, "note: the server will not start: {line}")?;
            Ok(Some(path))
        }
    }
}

fn utf8(path: &Path) -> io::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        io::Error::other(format!(
            "{} is not UTF-8, which a client's settings can't hold; use another path",
            path.display()
        ))
    })
}

fn list(out: &mut dyn Write) -> io::Result<()> {
    let screen = Screen::of_stdout();
    let clients = Client::value_variants();
    let widest = clients.iter().map(|client| client.id().len()).max();
    let ids = widest.unwrap_or_default();
    for client in clients {
        let head = format!("{:<ids$}  ", client.id());
        let indent = " ".repeat(ids + 2);
        let text = format!("{}: {}", client.title(), client.file().display());
        writeln!(out, "{}", screen.wrapped(&head, &indent, &text))?;
    }
    let next = "`sluicegate connect CLIENT` prints what to put there. Every other MCP client: launch `sluicegate stdio \
                --config FILE` with absolute paths.";
    writeln!(out, "\n{}", screen.wrapped("", "", next))
}

fn explain(client: Client, launch: &Launch, out: &mut dyn Write) -> io::Result<()> {
    let screen = Screen::of_stdout();
    let say = |out: &mut dyn Write, text: &str| writeln!(out, "{}", screen.wrapped("", "", text));
    writeln!(out, "{}\n", screen.paint(STRONG, client.title()))?;
    let command = client.command(launch);
    if let Some(command) = &command {
        let words: Vec<String> = command.iter().map(|word| shell_word(word)).collect();
        writeln!(out, "Run\n\n{}\n", words.join(" "))?;
    }
    let place = format!(
        "{} this into {} (if it has \"{}\" already, add to it):",
        if command.is_some() { "or put" } else { "Put" },
        client.file().display(),
        client.section()
    );
    say(out, &place)?;
    write!(out, "\n{}\n", client.snippet(launch))?;
    for (file, what) in client.elsewhere() {
        let also = format!("Also possible: {file}, {what}.");
        writeln!(
            out,
            "{}",
            screen.paint(FAINT, screen.wrapped("", "", &also))
        )?;
    }
    say(
        out,
        &format!("Then restart {} or reload its servers.", client.title()),
    )
}

fn write_json(client: Client, launch: &Launch, out: &mut dyn Write) -> io::Result<()> {
    let elsewhere = client.elsewhere().iter();
    let elsewhere = elsewhere.map(|(file, what)| json!({ "file": file, "what": what }));
    let report = json!({
        "client": client.id(),
        "file": client.file().to_string_lossy(),
        "elsewhere": elsewhere.collect::<Vec<_>>(),
        "section": client.section(),
        "snippet": client.snippet(launch),
        "command": client.command(launch),
    });
    writeln!(out, "{report:#}")
}
