//! What the kernel says about processes, read from `/proc`.

use std::{fs, path::PathBuf};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};

/// One line of `/proc/PID/stat`, as far as the tests need it.
#[derive(Clone, Debug)]
pub struct Stat {
    pub pid: i32,
    pub name: String,
    pub state: char,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
}

impl Stat {
    /// Dead, and merely waiting for its parent.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// The process's line, unless it is gone.
pub fn stat(pid: i32) -> Option<Stat> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may itself hold any byte, so the fields start after the last one.
    let (head, tail) = line.rsplit_once(") ")?;
    let mut fields = tail.split(' ');
    let state = fields.next()?.chars().next()?;
    let mut number = || fields.next()?.parse().ok();
    let name = head.split_once('(')?.1.to_owned();
    Some(Stat {
        pid,
        name,
        state,
        parent: number()?,
        group: number()?,
        session: number()?,
    })
}

/// Every process that can be seen.
pub fn all() -> Vec<Stat> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(stat).collect()
}

/// The living members of a process group.
pub fn group_members(group: i32) -> Vec<Stat> {
    all()
        .into_iter()
        .filter(|process| process.group == group && !process.is_zombie())
        .collect()
}

/// The living processes that have this among their arguments.
pub fn with_argument(argument: &str) -> Vec<i32> {
    let has = |process: &Stat| {
        let line = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        line.split(|&byte| byte == 0)
            .any(|word| word == argument.as_bytes())
    };
    all()
        .into_iter()
        .filter(|process| !process.is_zombie() && has(process))
        .map(|process| process.pid)
        .collect()
}

/// Whether this process is there and no zombie.
pub fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|process| !process.is_zombie())
}

/// The direct children of these processes.
pub fn children_of(parents: &[i32]) -> Vec<Stat> {
    all()
        .into_iter()
        .filter(|process| parents.contains(&process.parent))
        .collect()
}

/// The living descendants of this process, children of children included.
pub fn descendants_of(ancestor: i32) -> Vec<Stat> {
    let all = all();
    let mut family = vec![ancestor];
    let mut found: Vec<Stat> = Vec::new();
    let mut looked_at = 0;
    while looked_at < family.len() {
        let parent = family[looked_at];
        for child in all.iter().filter(|process| process.parent == parent) {
            family.push(child.pid);
            found.push(child.clone());
        }
        looked_at += 1;
    }
    found.retain(|process| !process.is_zombie());
    found
}

/// What an open descriptor refers to, for each open descriptor.
pub fn descriptors(pid: i32) -> Vec<(i32, PathBuf)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let links = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        Some((
            entry.file_name().to_str()?.parse().ok()?,
            fs::read_link(entry.path()).ok()?,
        ))
    });
    links.collect()
}

/// CPU time that a process, or `thread-self`, has used so far, in the kernel's clock ticks.
pub fn cpu_ticks(of: &str) -> Option<u64> {
    let line = fs::read_to_string(format!("/proc/{of}/stat")).ok()?;
    // After the name come the state and ten numbers before the user's and the system's time.
    let mut times = line.rsplit_once(") ")?.1.split(' ').skip(11);
    let mut ticks = || times.next()?.parse::<u64>().ok();
    Some(ticks()? + ticks()?)
}

/// A field of `/proc/PID/status` that is given in kB, in bytes.
pub fn memory(pid: i32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Bytes that read(2) and its kin moved for the process so far, pipes included.
pub fn read_chars(pid: i32) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    io.lines()
        .find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
}

/// Process groups (or single processes that left theirs) that a test doesn't leave behind, whatever the server did.
pub struct Doomed {
    groups: Vec<i32>,
    processes: Vec<i32>,
}

impl Doomed {
    pub fn groups(groups: &[i32]) -> Self {
        Doomed {
            groups: groups.to_vec(),
            processes: Vec::new(),
        }
    }

    pub fn process(pid: i32) -> Self {
        Doomed {
            groups: Vec::new(),
            processes: vec![pid],
        }
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        // The expected error is that there is nothing left to kill.
        for &pid in self.processes.iter().filter(|&&pid| is_alive(pid)) {
            kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
        }
        for &group in self
            .groups
            .iter()
            .filter(|&&group| !group_members(group).is_empty())
        {
            killpg(Pid::from_raw(group), Signal::SIGKILL).ok();
        }
    }
}
