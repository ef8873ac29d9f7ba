//! The house rules that a compiler doesn't hold: which layer may import which, where names of foreign crates and
//! `unsafe` may stand, and what must not be left behind.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Each layer with those that it may import; `crate::x` of any other is a fault.
const LAYERS: &[(&str, &[&str])] = &[
    ("text", &[]),
    ("arena", &[]),
    ("contain", &[]),
    ("screen", &[]),
    ("config", &["contain", "screen"]),
    ("io", &["arena"]),
    ("policy", &["config"]),
    ("process", &["config", "contain", "io", "screen"]),
    ("audit", &["config", "text"]),
    ("demo", &["config"]),
    ("view", &["arena", "text"]),
    ("spool", &["arena", "config", "io"]),
    (
        "session",
        &[
            "arena", "config", "io", "process", "policy", "screen", "spool", "text",
        ],
    ),
    (
        "supervisor",
        &[
            "arena", "audit", "config", "io", "process", "policy", "screen", "text", "session",
            "spool", "view",
        ],
    ),
    (
        "interactive",
        &[
            "arena",
            "audit",
            "config",
            "screen",
            "session",
            "supervisor",
            "text",
        ],
    ),
    (
        "mcp",
        &[
            "arena",
            "audit",
            "config",
            "interactive",
            "policy",
            "process",
            "screen",
            "session",
            "spool",
            "supervisor",
            "text",
            "view",
        ],
    ),
    (
        "cli",
        &[
            "arena",
            "audit",
            "config",
            "contain",
            "demo",
            "io",
            "policy",
            "process",
            "session",
            "spool",
            "supervisor",
            "mcp",
        ],
    ),
];

/// A name and the only files (by path prefix below `src/`) that may use it.
const CONFINED: &[(&str, &[&str])] = &[
    ("tokio_uring", &["io/uring.rs", "io/runtime.rs"]),
    ("alacritty_terminal", &["screen/"]),
    ("io_uring::", &["io/uring.rs", "io/probe.rs"]),
    ("landlock::", &["contain/ruleset.rs"]),
    ("rmcp", &["mcp/", "cli/client.rs", "cli/log.rs"]),
    ("allow(unsafe_code)", UNSAFE_LEAVES),
];

/// The leaf files that `src/lib.rs` names as holding unsafe code.
const UNSAFE_LEAVES: &[&str] = &[
    "arena/slab.rs",
    "cli/file_pages.rs",
    "contain/enter.rs",
    "io/epoll.rs",
    "io/probe.rs",
    "io/uring.rs",
    "mcp/stdio.rs",
    "process/descriptors.rs",
    "process/exec.rs",
    "process/forked.rs",
    "process/group.rs",
    "process/hold.rs",
    "process/inherited.rs",
    "process/leader.rs",
    "process/nursery.rs",
    "process/prepare.rs",
    "process/probe.rs",
    "process/request.rs",
    "process/terminal.rs",
    "process/wait.rs",
    "process/wire.rs",
];

/// Files that only tests compile. They reach across layers and into the kernel as the tests need.
const TEST_FILES: &[&str] = &[
    "config/promises.rs",
    "config/schema_twin.rs",
    "io/scenarios/",
    "io/scripted.rs",
    "mcp/tests/",
    "process/scripted.rs",
    "process/testing.rs",
    "session/simulation/",
];

fn is_test(file: &str) -> bool {
    file.ends_with("tests.rs") || TEST_FILES.iter().any(|place| file.starts_with(place))
}

fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("src is readable") {
            let path: PathBuf = entry.expect("src is readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(&root)
                    .expect("below src")
                    .to_string_lossy()
                    .into_owned();
                found.push((name, fs::read_to_string(&path).expect("source is UTF-8")));
            }
        }
    }
    found.sort();
    found.retain(|(name, _)| !is_test(name));
    assert!(
        found.len() > 20,
        "the walk found only {} files",
        found.len()
    );
    found
}

/// Source lines without comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Names after `crate::`, those inside braces included (`use crate::{arena::…, io::…}` may span lines).
fn imported_layers(text: &str) -> Vec<String> {
    let joined: String = code(text)
        .map(|(_, line)| line.trim())
        .collect::<Vec<_>>()
        .join(" ");
    let mut names = Vec::new();
    for (at, _) in joined.match_indices("crate::") {
        let rest = &joined[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 1usize;
            let mut item = String::new();
            for character in group.chars() {
                match character {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 1 => {
                        names.push(std::mem::take(&mut item));
                        continue;
                    }
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
                item.push(character);
            }
            names.push(item);
        } else {
            names.push(rest.to_owned());
        }
    }
    names
        .into_iter()
        .map(|name| {
            name.trim()
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect::<String>()
        })
        .filter(|name| !name.is_empty())
        .collect()
}

/// Whether the line holds the name, not as the end of a longer one.
fn names(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        !line[..at].ends_with(|before: char| before == '_' || before.is_ascii_alphanumeric())
    })
}

#[test]
fn lower_layers_never_import_higher_ones() {
    let mut faults = Vec::new();
    for (file, text) in sources() {
        let Some((layer, _)) = file.split_once('/') else {
            continue;
        };
        let (_, allowed) = LAYERS
            .iter()
            .find(|(name, _)| *name == layer)
            .unwrap_or_else(|| panic!("{layer} is no known layer"));
        for import in imported_layers(&text) {
            if import != layer && !allowed.contains(&import.as_str()) {
                faults.push(format!("src/{file} imports crate::{import}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn foreign_names_stay_in_their_files() {
    let mut faults = Vec::new();
    for (file, text) in sources() {
        for (name, places) in CONFINED {
            if places.iter().any(|place| file.starts_with(place)) {
                continue;
            }
            for (number, line) in code(&text).filter(|(_, line)| names(line, name)) {
                faults.push(format!("src/{file}:{number} names {name}: {}", line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_map_names_every_file_with_unsafe_code() {
    let map = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"))
        .expect("lib.rs is there");
    for (file, text) in sources() {
        let holds_unsafe = code(&text).any(|(_, line)| line.contains("allow(unsafe_code)"));
        if holds_unsafe {
            assert!(
                map.contains(&format!("`{file}`")),
                "src/lib.rs doesn't name {file} among the unsafe leaves"
            );
        }
    }
}

#[test]
fn files_are_rooms_not_halls() {
    for (file, text) in sources() {
        let lines = text.lines().count();
        assert!(
            lines <= 520,
            "src/{file} has {lines} lines: is it one room, or two?"
        );
    }
}
