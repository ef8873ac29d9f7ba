//! Programs that a test needs and that not every machine has.

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
};

/// Where a program is: in `PATH`, or where a system keeps those that aren't for everyone.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let others = ["/usr/bin", "/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let folders = env::split_paths(&path).chain(others);
    let mut files = folders.map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}

/// Whether a program of this test is missing, which is said.
pub fn lacks(program: &str) -> bool {
    let lacks = find(program).is_none();
    if lacks {
        not_tested(&format!("there is no {program} here"));
    }
    lacks
}

/// Says why this test does nothing. Not by a macro, whose words only a failed test shows.
pub fn not_tested(why: &str) {
    let current = thread::current();
    let test = current.name().unwrap_or_default();
    writeln!(io::stderr(), "NOT TESTED: {why} ({test})").expect("stderr takes lines");
}

/// The first of these users that there is, by the numbers of the user and its group.
pub fn user(names: &[&str]) -> Option<(u32, u32)> {
    let users = std::fs::read_to_string(Path::new("/etc/passwd")).ok()?;
    let numbers = |name: &&str| {
        let mut lines = users.lines().map(|line| line.split(':'));
        let mut fields = lines.find(|fields| fields.clone().next() == Some(*name))?;
        Some((fields.nth(2)?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    names.iter().find_map(numbers)
}
