//! One function for each kind of repository. What a repository says of itself (scripts, targets, a virtual environment) is
//! read, never run.

use std::{fs, path::Path};

use serde_json::Value;

use super::{LONG_MS, LONGEST_MS, Missing, Recipe, SHORT_MS, Tools, tools::executable};

pub(super) fn rust(tools: &Tools) -> Result<Recipe, Missing> {
    let cargo = tools
        .find("cargo")
        .ok_or_else(|| missing("cargo", "Rust (rustup.rs)"))?;
    let mut recipe = Recipe::new(tools, &[&cargo]);
    for (variable, below_home) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        if let Some(place) = tools.directory(variable, below_home) {
            recipe.set(variable, place.to_string_lossy());
        }
    }
    recipe.set("CARGO_TERM_COLOR", "never");
    recipe.set("CARGO_TERM_PROGRESS_WHEN", "never");
    let run = |recipe: &mut Recipe, id, timeout_ms, description, arguments: &[&str]| {
        recipe.add(id, timeout_ms, description, &cargo, arguments);
    };
    run(
        &mut recipe,
        "build",
        LONG_MS,
        "Builds all packages of the workspace (cargo build).",
        &["build", "--workspace"],
    );
    run(
        &mut recipe,
        "check",
        LONG_MS,
        "Type-checks all packages and their tests without building them (cargo check): the fastest answer to whether it compiles.",
        &["check", "--workspace", "--all-targets"],
    );
    let test = recipe.add(
        "test",
        LONG_MS,
        "Runs all tests of the workspace (cargo test).",
        &cargo,
        &["test", "--workspace"],
    );
    test.allowed_env = ["RUST_BACKTRACE", "RUST_LOG"].map(str::to_owned).to_vec();
    match tools.find("cargo-clippy") {
        Some(_) => run(
            &mut recipe,
            "lint",
            LONG_MS,
            "Lints all packages and their tests (cargo clippy).",
            &["clippy", "--workspace", "--all-targets"],
        ),
        None => recipe
            .notes
            .push("no \"lint\": cargo-clippy is not on PATH".to_owned()),
    }
    if tools.find("cargo-fmt").is_some() {
        run(
            &mut recipe,
            "format-check",
            SHORT_MS,
            "Shows where the formatting departs from rustfmt's; changes nothing.",
            &["fmt", "--all", "--check"],
        );
    }
    if let Some(bacon) = tools.find("bacon") {
        recipe.add(
            "watch",
            LONGEST_MS,
            "Checks the project again whenever a file changes (bacon), until it is ended.",
            &bacon,
            &["--headless"],
        );
    } else if tools.find("cargo-watch").is_some() {
        run(
            &mut recipe,
            "watch",
            LONGEST_MS,
            "Checks the project again whenever a file changes (cargo watch), until it is ended.",
            &["watch", "--exec", "check --workspace"],
        );
    } else {
        recipe.watch(tools, "check");
    }
    Ok(recipe)
}

/// Lock files, and what made them. npm comes last: it is there wherever node is.
const PACKAGE_TOOLS: [(&str, &str); 5] = [
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("package-lock.json", "npm"),
];

/// Scripts that are approved when a package has them, with what they are called here.
const SCRIPTS: [(&str, &str, u64); 8] = [
    ("build", "build", LONG_MS),
    ("test", "test", LONG_MS),
    ("lint", "lint", SHORT_MS),
    ("typecheck", "typecheck", SHORT_MS),
    ("format:check", "format-check", SHORT_MS),
    ("watch", "watch", LONGEST_MS),
    ("dev", "watch", LONGEST_MS),
    ("start", "start", LONGEST_MS),
];

pub(super) fn node(tools: &Tools, root: &Path) -> Result<Recipe, Missing> {
    let locked = PACKAGE_TOOLS
        .iter()
        .find(|(lock, _)| root.join(lock).exists());
    let name = locked.map_or("npm", |(_, name)| name);
    let program = tools
        .find(name)
        .ok_or_else(|| missing(name, "it (nodejs.org, or its own site)"))?;
    let mut programs = vec![program.as_path()];
    let node = tools.find("node");
    match &node {
        Some(node) => programs.push(node),
        // bun is a runtime of its own.
        None if name == "bun" => {}
        None => return Err(missing("node", "Node.js (nodejs.org)")),
    }
    let mut recipe = Recipe::new(tools, &programs);
    // Test runners watch and ask unless they are told that nobody is there.
    recipe.set("CI", "true");
    recipe.set("npm_config_update_notifier", "false");
    recipe.set("npm_config_fund", "false");
    let scripts = scripts(root);
    let has = |script: &str| match &scripts {
        Some(scripts) => scripts.iter().any(|name| name == script),
        // Without a package yet, the usual ones.
        None => ["build", "test", "lint", "dev"].contains(&script),
    };
    for (script, id, timeout_ms) in SCRIPTS {
        if has(script) && !recipe.commands.iter().any(|command| command.id == id) {
            let until = if timeout_ms == LONGEST_MS {
                "; it runs until it is ended"
            } else {
                ""
            };
            let description =
                format!("Runs the package's script \"{script}\" ({name} run {script}){until}.");
            recipe.add(id, timeout_ms, &description, &program, &["run", script]);
        }
    }
    if recipe.commands.is_empty() {
        recipe.notes.push(
            "package.json has no script of the usual names (build, test, lint, dev, start)"
                .to_owned(),
        );
    }
    let install: &[&str] = match name {
        "npm" if locked.is_some() => &["ci"],
        "npm" => &["install"],
        "bun" => &["install", "--frozen-lockfile"],
        "yarn" => &["install", "--immutable"],
        _ => &["install", "--frozen-lockfile"],
    };
    let description = format!(
        "Installs what the package depends on ({name} {}); needs the network.",
        install.join(" ")
    );
    recipe.add("install", LONG_MS, &description, &program, install);
    Ok(recipe)
}

/// The names of the package's scripts; `None` without a package that can be read.
fn scripts(root: &Path) -> Option<Vec<String>> {
    let package = fs::read(root.join("package.json")).ok()?;
    let package: Value = serde_json::from_slice(&package).ok()?;
    let scripts = package["scripts"].as_object();
    Some(scripts.map_or_else(Vec::new, |scripts| scripts.keys().cloned().collect()))
}

pub(super) fn python(tools: &Tools, root: &Path) -> Result<Recipe, Missing> {
    let environment = [".venv", "venv"]
        .map(|name| root.join(name))
        .into_iter()
        .find(|place| executable(&place.join("bin/python")));
    let python = match &environment {
        Some(place) => place.join("bin/python"),
        None => tools
            .find_any(&["python3", "python"])
            .ok_or_else(|| missing("python3", "Python (python.org)"))?,
    };
    let mut recipe = Recipe::new(tools, &[&python]);
    if let Some(place) = &environment {
        recipe.set("VIRTUAL_ENV", place.to_string_lossy());
    }
    // Through a pipe Python would hold lines back.
    recipe.set("PYTHONUNBUFFERED", "1");
    // A tool of the environment works on what is installed there.
    let find = |name: &str| {
        let own = python.with_file_name(name);
        if executable(&own) {
            return Some(own);
        }
        environment.is_none().then(|| tools.find(name)).flatten()
    };
    match find("pytest") {
        Some(pytest) => recipe.add(
            "test",
            LONG_MS,
            "Runs all tests (pytest).",
            &pytest,
            &["--color=no"],
        ),
        None => recipe.add(
            "test",
            LONG_MS,
            "Runs the tests that unittest finds.",
            &python,
            &["-m", "unittest", "discover", "--verbose"],
        ),
    };
    match find("ruff").or_else(|| tools.find("ruff")) {
        Some(ruff) => {
            recipe.add(
                "lint",
                SHORT_MS,
                "Lints the project (ruff check).",
                &ruff,
                &["check", "."],
            );
            recipe.add(
                "watch",
                LONGEST_MS,
                "Lints again whenever a file changes (ruff check --watch), until it is ended.",
                &ruff,
                &["check", "--watch", "."],
            );
        }
        None => match find("flake8") {
            Some(flake8) => {
                recipe.add(
                    "lint",
                    SHORT_MS,
                    "Lints the project (flake8).",
                    &flake8,
                    &["."],
                );
                recipe.watch(tools, "test");
            }
            None => {
                recipe
                    .notes
                    .push("no \"lint\": neither ruff nor flake8 is there".to_owned());
                recipe.watch(tools, "test");
            }
        },
    }
    if let Some(mypy) = find("mypy") {
        recipe.add("types", SHORT_MS, "Checks the types (mypy).", &mypy, &["."]);
    }
    match find("pyproject-build") {
        Some(build) => recipe.add(
            "build",
            LONG_MS,
            "Builds the source distribution and the wheel (python -m build); needs the network.",
            &build,
            &[],
        ),
        None => recipe.add(
            "build",
            SHORT_MS,
            "Compiles every module, which finds syntax errors (python -m compileall).",
            &python,
            &["-m", "compileall", "-q", "."],
        ),
    };
    Ok(recipe)
}

/// Targets that are approved when a makefile has them.
const TARGETS: [(&str, u64, &str); 7] = [
    ("build", LONG_MS, "Builds"),
    ("all", LONG_MS, "Builds everything"),
    ("test", LONG_MS, "Runs the tests"),
    ("check", LONG_MS, "Runs the checks"),
    ("lint", SHORT_MS, "Lints"),
    ("clean", SHORT_MS, "Removes what was built"),
    ("watch", LONGEST_MS, "Watches for changes until it is ended"),
];

pub(super) fn make(tools: &Tools, root: &Path) -> Result<Recipe, Missing> {
    let make = tools
        .find_any(&["make", "gmake"])
        .ok_or_else(|| missing("make", "it (the package is called make)"))?;
    let mut recipe = Recipe::new(tools, &[&make]);
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = format!("-j{jobs}");
    let targets = ["GNUmakefile", "makefile", "Makefile"]
        .iter()
        .find_map(|name| fs::read_to_string(root.join(name)).ok())
        .map(|text| targets(&text));
    for (target, timeout_ms, does) in TARGETS {
        let there = match &targets {
            Some(targets) => targets.iter().any(|name| name == target),
            None => ["build", "test"].contains(&target),
        };
        if there {
            let description = format!("{does} (make {target}).");
            recipe.add(target, timeout_ms, &description, &make, &[&jobs, target]);
        }
    }
    let built = ["build", "all"];
    if !recipe
        .commands
        .iter()
        .any(|command| built.contains(&command.id.as_str()))
    {
        recipe.add(
            "build",
            LONG_MS,
            "Makes the default target (make).",
            &make,
            &[&jobs],
        );
    }
    if !recipe.commands.iter().any(|command| command.id == "watch") {
        let id = recipe.commands[0].id.clone();
        recipe.watch(tools, &id);
    }
    Ok(recipe)
}

/// The plain targets of a makefile: what stands before a colon at the beginning of a line, and what `.PHONY` names.
fn targets(makefile: &str) -> Vec<String> {
    let mut targets = Vec::new();
    for line in makefile.lines() {
        let Some((head, tail)) = line.split_once(':') else {
            continue;
        };
        // A recipe, a comment, or an assignment.
        if line.starts_with(['\t', '#']) || tail.starts_with('=') || head.contains('=') {
            continue;
        }
        let names = if head.trim() == ".PHONY" { tail } else { head };
        targets.extend(names.split_whitespace().map(str::to_owned));
    }
    targets
}

pub(super) fn go(tools: &Tools) -> Result<Recipe, Missing> {
    let go = tools
        .find("go")
        .ok_or_else(|| missing("go", "Go (go.dev)"))?;
    let mut recipe = Recipe::new(tools, &[&go]);
    if let Some(place) = tools.directory("GOPATH", "go") {
        recipe.set("GOPATH", place.to_string_lossy());
    }
    recipe.add(
        "build",
        LONG_MS,
        "Builds all packages (go build).",
        &go,
        &["build", "./..."],
    );
    recipe.add(
        "test",
        LONG_MS,
        "Runs all tests (go test).",
        &go,
        &["test", "./..."],
    );
    match tools.find("golangci-lint") {
        Some(linter) => recipe.add(
            "lint",
            LONG_MS,
            "Lints all packages (golangci-lint).",
            &linter,
            &["run", "./..."],
        ),
        None => recipe.add(
            "lint",
            LONG_MS,
            "Reports suspicious code in all packages (go vet).",
            &go,
            &["vet", "./..."],
        ),
    };
    recipe.watch(tools, "test");
    Ok(recipe)
}

fn missing(tool: &str, what: &str) -> Missing {
    Missing(format!(
        "{tool} is not on PATH; install {what}, or leave this preset out"
    ))
}

#[cfg(test)]
mod tests {
    use super::targets;

    #[test]
    fn targets_are_told_from_recipes_comments_and_assignments() {
        let makefile = "CC := gcc\nX ?= a:b\n# note: no\n.PHONY: lint test\nbuild all: main.c\n\techo a:b\ntest: build\nobj/%.o: %.c\n";
        assert_eq!(
            targets(makefile),
            ["lint", "test", "build", "all", "test", "obj/%.o"]
        );
    }
}
