//! Commands for a repository, made of the tools that this machine has.

use std::path::Path;

use clap::ValueEnum;

use self::tools::Tools;
use crate::config::{Profile, StdinKind};

mod recipes;
mod tools;

/// Kinds of repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// cargo.
    Rust,
    /// npm, pnpm, yarn or bun, by the lock file that is there.
    Node,
    /// The project's virtual environment, or python3.
    Python,
    /// make.
    Make,
    /// go.
    Go,
}

impl Preset {
    fn id(self) -> &'static str {
        match self {
            Preset::Rust => "rust",
            Preset::Node => "node",
            Preset::Python => "python",
            Preset::Make => "make",
            Preset::Go => "go",
        }
    }
}

/// Longest time that a build or a test run may take unless the client says otherwise, in ms.
const LONG_MS: u64 = 900_000;
/// Longest time for what reads the sources only.
const SHORT_MS: u64 = 300_000;
/// As long as a command may run at all.
pub(super) const LONGEST_MS: u64 = 3_600_000;

/// What the presets came to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) commands: Vec<Profile>,
    /// What is missing, in a line each.
    pub(super) notes: Vec<String>,
}

/// A tool that a preset can't do without, and what would help.
#[derive(Debug)]
struct Missing(String);

/// The commands of these presets for the repository in `root`. With several, each id begins with its preset's name.
pub(super) fn commands(presets: &[Preset], root: &Path) -> Outcome {
    commands_with(&Tools::of_this_user(), presets, root)
}

fn commands_with(tools: &Tools, presets: &[Preset], root: &Path) -> Outcome {
    let mut outcome = Outcome::default();
    let mut done = Vec::new();
    for &preset in presets {
        if done.contains(&preset) {
            continue;
        }
        done.push(preset);
        let recipe = match preset {
            Preset::Rust => recipes::rust(tools),
            Preset::Node => recipes::node(tools, root),
            Preset::Python => recipes::python(tools, root),
            Preset::Make => recipes::make(tools, root),
            Preset::Go => recipes::go(tools),
        };
        match recipe {
            Ok(recipe) => {
                outcome.take(preset, recipe, presets.iter().any(|other| *other != preset))
            }
            Err(Missing(why)) => outcome.notes.push(format!("{}: {why}", preset.id())),
        }
    }
    outcome
}

impl Outcome {
    fn take(&mut self, preset: Preset, recipe: Recipe, prefixed: bool) {
        let notes = recipe.notes.into_iter();
        self.notes
            .extend(notes.map(|note| format!("{}: {note}", preset.id())));
        for mut command in recipe.commands {
            if prefixed {
                command.id = format!("{}-{}", preset.id(), command.id);
            }
            self.commands.push(command);
        }
    }
}

/// The commands of one preset in the making.
#[derive(Debug, Default)]
struct Recipe {
    env: Vec<(String, String)>,
    commands: Vec<Profile>,
    notes: Vec<String>,
}

impl Recipe {
    /// Every command gets a home for its tools' caches, these programs on its `PATH`, and no colours: a model reads it.
    fn new(tools: &Tools, programs: &[&Path]) -> Recipe {
        let mut recipe = Recipe::default();
        if let Some(home) = tools.home() {
            recipe.set("HOME", home.to_string_lossy());
        }
        recipe.set("PATH", Tools::path_with(programs));
        recipe.set("NO_COLOR", "1");
        recipe
    }

    /// Fixes a variable of the commands that follow.
    fn set(&mut self, name: &str, value: impl Into<String>) {
        self.env.push((name.to_owned(), value.into()));
    }

    /// Approves a command. It can't ask anybody, so its stdin is empty.
    fn add(
        &mut self,
        id: &str,
        timeout_ms: u64,
        description: &str,
        program: &Path,
        arguments: &[&str],
    ) -> &mut Profile {
        let program = program.to_string_lossy().into_owned();
        let arguments = arguments.iter().map(|argument| (*argument).to_owned());
        self.commands.push(Profile {
            description: Some(description.to_owned()),
            env: self.env.clone(),
            timeout_ms: Some(timeout_ms),
            stdin: StdinKind::Null,
            ..Profile::new(id, std::iter::once(program).chain(arguments).collect())
        });
        self.commands.last_mut().expect("it was pushed just now")
    }

    /// Approves running `id` again whenever a file changes, where a program for that is there.
    fn watch(&mut self, tools: &Tools, id: &str) {
        let (Some(watcher), Some(command)) = (
            tools.find("watchexec"),
            self.commands.iter().find(|command| command.id == id),
        ) else {
            self.notes
                .push("no \"watch\": watchexec is not on PATH".to_owned());
            return;
        };
        let mut arguments = vec!["--".to_owned()];
        arguments.extend(command.argv.iter().cloned());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let description =
            format!("Runs \"{id}\" again whenever a file changes, until it is ended.");
        self.add("watch", LONGEST_MS, &description, &watcher, &arguments);
    }
}

#[cfg(test)]
mod tests;
