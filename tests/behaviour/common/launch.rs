//! Odd circumstances to launch the server in, and what it says when it refuses them. Most functions add to a [`Command`] what
//! the new process does to itself between fork and exec.
#![allow(unsafe_code)]

use std::{
    io,
    os::{fd::RawFd, unix::process::CommandExt},
    process::{Command, Stdio},
};

use nix::sys::resource::{Resource, setrlimit};

/// `io_uring_setup` has this number on every architecture that has it.
pub const IO_URING_SETUP: u32 = 425;
/// `io_uring_enter`, likewise.
pub const IO_URING_ENTER: u32 = 426;

fn check(result: libc::c_int) -> io::Result<()> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Starts with these signals ignored.
pub fn ignore_signals(command: &mut Command, signals: &'static [libc::c_int]) {
    let ignore = move || {
        for &signal in signals {
            // SAFETY: signal(2) takes two numbers, and SIG_IGN runs no code of ours.
            if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure only calls signal(2), which is async-signal-safe, and allocates nothing.
    unsafe { command.pre_exec(ignore) };
}

/// Starts with these signals blocked.
pub fn block_signals(command: &mut Command, signals: &'static [libc::c_int]) {
    let block = move || {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set before the other two calls use it; all three only touch it.
        unsafe {
            check(libc::sigemptyset(set.as_mut_ptr()))?;
            for &signal in signals {
                check(libc::sigaddset(set.as_mut_ptr(), signal))?;
            }
            check(libc::sigprocmask(
                libc::SIG_BLOCK,
                set.as_ptr(),
                std::ptr::null_mut(),
            ))
        }
    };
    // SAFETY: the closure only calls async-signal-safe functions on its own stack and allocates nothing.
    unsafe { command.pre_exec(block) };
}

/// Starts without this descriptor.
pub fn close_descriptor(command: &mut Command, fd: RawFd) {
    // SAFETY: close(2) is async-signal-safe; the child runs no Rust code after exec that could own `fd`.
    unsafe { command.pre_exec(move || check(libc::close(fd))) };
}

/// Starts with a duplicate of `fd` open, and inheritable, as descriptor `as_fd`. `fd` stays open until then.
pub fn inherit_descriptor(command: &mut Command, fd: RawFd, as_fd: RawFd) {
    // SAFETY: dup2(2) is async-signal-safe; the caller keeps `fd` open until the spawn.
    unsafe { command.pre_exec(move || check(libc::dup2(fd, as_fd)).map(drop)) };
}

/// Starts with so many pipes open, and the exec'd program inherits them. They are made by the user that the command is
/// told to become.
pub fn open_pipes(command: &mut Command, count: usize) {
    let open = move || {
        for _ in 0..count {
            let mut ends = [0; 2];
            // SAFETY: pipe(2) fills the two numbers that it is given.
            check(unsafe { libc::pipe(ends.as_mut_ptr()) })?;
        }
        Ok(())
    };
    // SAFETY: pipe(2) is async-signal-safe and the closure allocates nothing.
    unsafe { command.pre_exec(open) };
}

/// Starts with this limit, soft and hard.
pub fn limit(command: &mut Command, resource: Resource, value: u64) {
    let set = move || setrlimit(resource, value, value).map_err(io::Error::from);
    // SAFETY: the closure only calls setrlimit(2), which is a plain system call, and allocates nothing.
    unsafe { command.pre_exec(set) };
}

/// Starts under a seccomp filter in which one system call fails with `errno` and all others work.
pub fn refuse_syscall(command: &mut Command, number: u32, errno: u16) {
    let statement = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: u16::try_from(code).expect("BPF opcodes are 16 bits wide"),
        jt,
        jf,
        k,
    };
    let filter = [
        // seccomp_data.nr is the first word.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number, 0, 1),
        statement(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | u32::from(errno),
            0,
            0,
        ),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    install_filter(command, filter.to_vec());
}

/// Starts under this seccomp filter.
pub fn install_filter(command: &mut Command, filter: Vec<libc::sock_filter>) {
    let length = u16::try_from(filter.len()).expect("a short filter");
    let install = move || {
        let program = libc::sock_fprog {
            len: length,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: prctl(2) reads the program before it returns, and `filter` lives in this closure.
        unsafe {
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
            check(libc::prctl(
                libc::PR_SET_SECCOMP,
                mode,
                std::ptr::from_ref(&program),
            ))
        }
    };
    // SAFETY: the closure only calls prctl(2) and allocates nothing.
    unsafe { command.pre_exec(install) };
}

/// What a command says that must not start: it ends at once with code 1, one line on stderr and nothing on stdout.
#[track_caller]
pub fn refusal(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(output.stdout.is_empty());
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}
