//! What is looked at. Whatever can be tried is tried rather than guessed from a version: a filter may refuse what the
//! kernel has.

use std::{fs, path::Path};

use nix::{
    sys::resource::{RLIM_INFINITY, Resource, getrlimit},
    unistd::geteuid,
};
use serde_json::json;

use crate::{
    cli::{
        client::Client,
        stdio::{IoChoice, OWN_DESCRIPTORS, SESSION_DESCRIPTORS},
    },
    config::limits,
    contain, io, process,
};

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is as it should be.
    Works,
    /// The server runs; something of it is not to be had, or less than it could be.
    Lacks,
    /// The server can't do its work.
    Broken,
}

impl Verdict {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Verdict::Works => "ok",
            Verdict::Lacks => "note",
            Verdict::Broken => "broken",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    /// What to do about it.
    pub(super) remedy: Option<String>,
}

impl Check {
    fn works(name: &'static str, found: impl Into<String>) -> Check {
        Check {
            name,
            verdict: Verdict::Works,
            found: found.into(),
            remedy: None,
        }
    }

    fn not(
        name: &'static str,
        verdict: Verdict,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        Check {
            name,
            verdict,
            found: found.into(),
            remedy: Some(remedy.into()),
        }
    }
}

/// What `--io auto` comes to here.
#[derive(Debug)]
pub(in crate::cli) struct Chosen {
    pub(in crate::cli) io: &'static str,
    /// Why not io_uring.
    pub(in crate::cli) because: Option<String>,
}

pub(in crate::cli) fn choice() -> Chosen {
    match io::probe() {
        Ok(()) => Chosen {
            io: "io_uring",
            because: None,
        },
        Err(refused) => Chosen {
            io: "epoll",
            because: Some(refused.to_string()),
        },
    }
}

/// The kernel's release, as `uname -r` prints it.
pub(in crate::cli) fn kernel() -> String {
    read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned())
}

/// In the order in which they are reported: what all else rests on comes first.
pub(super) fn all(choice: &Chosen) -> Vec<Check> {
    let mut checks = vec![
        Check::works(
            "kernel",
            format!("Linux {}, {}", kernel(), std::env::consts::ARCH),
        ),
        proc_files(),
        io_uring(choice),
    ];
    checks.extend(hosting());
    checks.extend([
        open_files(),
        processes(),
        locked_memory(choice),
        pipes(),
        process_ids(),
    ]);
    checks.extend(containment());
    checks.extend([tracing(), terminals(), one_job()]);
    checks
}

fn io_uring(choice: &Chosen) -> Check {
    match &choice.because {
        None => Check::works("io_uring", "every call that the server makes was accepted"),
        Some(because) => {
            let (what, remedy) = because.split_once("; ").unwrap_or((because, "see above"));
            Check::not(
                "io_uring",
                Verdict::Lacks,
                format!("{what}; epoll does the same work, with more system calls"),
                remedy,
            )
        }
    }
}

fn proc_files() -> Check {
    if !Path::new("/proc/self/stat").exists() {
        return Check::not(
            "/proc",
            Verdict::Broken,
            "not mounted",
            "mount it: which processes belong to a command is read there",
        );
    }
    if !Path::new("/proc/thread-self/children").exists() {
        return Check::works(
            "/proc",
            "mounted, without lists of children (CONFIG_PROC_CHILDREN): all processes are looked through instead",
        );
    }
    Check::works("/proc", "mounted")
}

/// What the kernel must have for a session to be held together.
fn hosting() -> [Check; 2] {
    let offered = process::offered();
    let pidfd = match (offered.pidfd, offered.group_signals) {
        (Ok(()), Ok(())) => Check::works("pidfd", "signals reach whole groups through descriptors"),
        (Ok(()), Err(errno)) => Check::works(
            "pidfd",
            format!("there; groups are signalled by number ({errno:?}: Linux 6.9 can do better)"),
        ),
        (Err(errno), _) => Check::not(
            "pidfd",
            Verdict::Broken,
            format!("refused ({errno:?})"),
            "use Linux 5.3 or later, and a container whose filter allows pidfd_open and pidfd_send_signal",
        ),
    };
    let subreaper = match offered.subreaper {
        Ok(()) => Check::works(
            "subreaper",
            "processes that leave their group can be adopted",
        ),
        Err(errno) => Check::not(
            "subreaper",
            Verdict::Broken,
            format!("refused ({errno:?})"),
            "allow prctl(PR_SET_CHILD_SUBREAPER) in the filter that the server runs under",
        ),
    };
    [pidfd, subreaper]
}

fn open_files() -> Check {
    let name = "open files";
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return unreadable(name);
    };
    let room = soft.saturating_sub(OWN_DESCRIPTORS) / SESSION_DESCRIPTORS;
    let most = *limits::MAX_SESSIONS.end();
    let found = format!(
        "limit {} (hard {}): {}",
        shown(soft),
        shown(hard),
        if room >= most {
            format!("enough for the most sessions that a config may allow ({most})")
        } else {
            format!("enough for {room} sessions at once")
        }
    );
    let remedy = "raise it where the server is started (ulimit -n 1024, or LimitNOFILE=)";
    match room {
        0 => Check::not(name, Verdict::Broken, found, remedy),
        few if few < limits::defaults::MAX_SESSIONS => {
            Check::not(name, Verdict::Lacks, found, remedy)
        }
        _ => Check::works(name, found),
    }
}

/// Each session is a command and its keeper.
fn processes() -> Check {
    let name = "processes";
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NPROC) else {
        return unreadable(name);
    };
    let found = format!(
        "limit {} (hard {}) for all that the user runs{}",
        shown(soft),
        shown(hard),
        if geteuid().is_root() {
            "; root is exempt"
        } else {
            ""
        }
    );
    // One keeper and one command for each session, the server, its threads and the nursery.
    let needed = 2 * limits::defaults::MAX_SESSIONS + 8;
    if soft < needed && !geteuid().is_root() {
        return Check::not(
            name,
            Verdict::Lacks,
            found,
            "raise it (ulimit -u): a command that can't be started fails with START_FAILED",
        );
    }
    Check::works(name, found)
}

/// Rings counted against it up to Linux 5.11, and some kernels still do.
fn locked_memory(choice: &Chosen) -> Check {
    let name = "locked memory";
    let Ok((soft, _)) = getrlimit(Resource::RLIMIT_MEMLOCK) else {
        return unreadable(name);
    };
    let soft = if soft == RLIM_INFINITY {
        "unlimited".to_owned()
    } else {
        format!("{} KiB", soft / 1024)
    };
    let use_of_it = if choice.because.is_none() {
        "; the ring fits"
    } else {
        ""
    };
    Check::works(name, format!("limit {soft}{use_of_it}"))
}

/// A busy pipe is enlarged, up to a quota for each user.
fn pipes() -> Check {
    let name = "pipes";
    let number = |file: &str| read(file)?.parse::<u64>().ok();
    let (Some(pages), Some(largest)) = (
        number("/proc/sys/fs/pipe-user-pages-soft"),
        number("/proc/sys/fs/pipe-max-size"),
    ) else {
        return unreadable(name);
    };
    let found = format!(
        "up to {} KiB each, {} for each user",
        largest / 1024,
        if pages == 0 {
            "no quota".to_owned()
        } else {
            format!("{pages} pages")
        }
    );
    Check::works(name, found)
}

fn process_ids() -> Check {
    let name = "process ids";
    match read("/proc/sys/kernel/pid_max") {
        Some(most) => Check::works(name, format!("up to {most}")),
        None => unreadable(name),
    }
}

fn containment() -> [Check; 2] {
    let offered = contain::offered();
    let lacks = |name, lack: contain::Lack, field: &str| {
        Check::not(
            name,
            Verdict::Lacks,
            format!("{lack}; a config with {field} is refused"),
            lack.remedy(),
        )
    };
    let files = match (offered.files, offered.landlock) {
        (Ok(()), Ok(abi)) if offered.scopes() => Check::works(
            "Landlock",
            format!("ABI {abi}: sandboxes hold files, and signals inside"),
        ),
        (Ok(()), Ok(abi)) => Check::works(
            "Landlock",
            format!("ABI {abi}: sandboxes hold files; signals too from Linux 6.12 on"),
        ),
        (Err(lack), _) => lacks("Landlock", lack, "a sandbox"),
        (Ok(()), Err(errno)) => lacks("Landlock", contain::Lack::Landlock(errno), "a sandbox"),
    };
    let sockets = match offered.sockets {
        Ok(()) => Check::works("seccomp", "sandboxes can take sockets away"),
        Err(lack) => lacks("seccomp", lack, "\"network\": false"),
    };
    [files, sockets]
}

fn terminals() -> Check {
    let name = "terminals";
    match process::terminal_offered() {
        Ok(()) => Check::works(name, "commands can run on one"),
        Err(errno) => Check::not(
            name,
            Verdict::Lacks,
            format!(
                "none can be opened ({}): commands with tty won't start",
                errno.desc()
            ),
            "mount devpts on /dev/pts, with /dev/ptmx leading there, or raise kernel.pty.max",
        ),
    }
}

/// Yama's rule about who may trace whom. A pinned command is stopped by tracing it.
fn tracing() -> Check {
    let name = "tracing";
    match read("/proc/sys/kernel/yama/ptrace_scope").as_deref() {
        Some(scope @ ("2" | "3")) => Check::not(
            name,
            Verdict::Lacks,
            format!("kernel.yama.ptrace_scope is {scope}: commands pinned by sha256 don't start"),
            "set it to 0 or 1, or don't pin",
        ),
        _ => Check::works(name, "commands can be pinned by sha256"),
    }
}

/// A server, a client and a command: whatever else may be in the way shows here.
fn one_job() -> Check {
    let name = "one job";
    let ran = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(run_one()));
    match ran {
        Ok(()) => Check::works(
            name,
            "a command was started over MCP and followed to its end",
        ),
        Err(error) => Check::not(
            name,
            Verdict::Broken,
            error.to_string(),
            "correct what the line names; `sluicegate verify --output FILE` tells more",
        ),
    }
}

async fn run_one() -> std::io::Result<()> {
    let client = Client::start(None, IoChoice::Auto).await?;
    let job = json!({ "command_id": "exit7", "wait_ms": 10_000 });
    let end = client.expect("terminal_start", job).await?;
    client.close().await?;
    if end["status"] == "EXITED" && end["exit_code"] == 7 {
        return Ok(());
    }
    Err(std::io::Error::other(format!(
        "a command that exits with 7 is told to be {} with {}",
        end["status"], end["exit_code"]
    )))
}

fn read(file: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    Some(text.trim().to_owned())
}

fn unreadable(name: &'static str) -> Check {
    Check::works(name, "not told by this kernel")
}

fn shown(limit: u64) -> String {
    if limit == RLIM_INFINITY {
        "unlimited".to_owned()
    } else {
        limit.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    #[test]
    fn a_refusal_is_split_into_what_was_found_and_what_helps() {
        let refused = io::Refused {
            step: io::Step::Setup,
            errno: Errno::EPERM,
        };
        let check = io_uring(&Chosen {
            io: "epoll",
            because: Some(refused.to_string()),
        });
        assert_eq!(check.verdict, Verdict::Lacks);
        assert!(check.found.starts_with("io_uring_setup: EPERM; epoll"));
        assert!(check.remedy.unwrap().starts_with("allow the io_uring"));
    }
}
