//! The filter that lets a process have no socket.
//!
//! Refused are `socket`, `socketpair` of another family than Unix (such a pair reaches nobody but the process's own
//! descendants), and io_uring, whose rings make sockets without the first call. Nothing that a command is started with is a
//! socket, and Landlock keeps it from taking one out of a process outside.
//!
//! A process may switch to its processor's 32-bit calls, which have numbers of their own and the same effect, so those are
//! filtered too. Any other set of calls ends the process.

#![cfg_attr(
    not(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )),
    allow(
        dead_code,
        reason = "the filter knows the call numbers of three architectures"
    )
)]

use libc::sock_filter;

/// Call numbers of one architecture, as seccomp names it.
struct Calls {
    arch: u32,
    socket: u32,
    socketpair: u32,
}

/// `io_uring_setup` has this number everywhere.
const IO_URING_SETUP: u32 = 425;
/// The call behind which old 32-bit programs have all of the socket calls, on both architectures that have it.
const SOCKETCALL: u32 = 102;

#[cfg(target_arch = "x86_64")]
const NATIVE: Calls = Calls {
    arch: 0xc000_003e,
    socket: 41,
    socketpair: 53,
};
/// i386.
#[cfg(target_arch = "x86_64")]
const NARROW: Calls = Calls {
    arch: 0x4000_0003,
    socket: 359,
    socketpair: 360,
};

#[cfg(not(target_arch = "x86_64"))]
const NATIVE: Calls = Calls {
    arch: if cfg!(target_arch = "aarch64") {
        0xc000_00b7
    } else {
        // riscv64
        0xc000_00f3
    },
    socket: 198,
    socketpair: 199,
};
/// 32-bit ARM. RISC-V's 32-bit programs have an architecture of their own, which no process here can switch to.
#[cfg(not(target_arch = "x86_64"))]
const NARROW: Calls = Calls {
    arch: 0x4000_0028,
    socket: 281,
    socketpair: 288,
};

/// From here up are the calls of x32, a third set on x86-64 under the native architecture's name. No other architecture
/// has numbers as high.
const X32: u32 = 0x4000_0000;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
/// The low half of the first argument; the family is an `int`.
const FAMILY: u32 = if cfg!(target_endian = "little") {
    16
} else {
    20
};

const fn statement(code: u32, k: u32) -> sock_filter {
    branch(code, k, 0, 0)
}

/// Opcodes are 16 bits wide.
const fn branch(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

const fn load(offset: u32) -> sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset)
}

/// Goes on `yes` statements further when what is loaded is `value`, `no` further when not.
const fn equal(value: u32, yes: u8, no: u8) -> sock_filter {
    branch(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, yes, no)
}

const fn answer(action: u32) -> sock_filter {
    statement(libc::BPF_RET | libc::BPF_K, action)
}

const fn refuse(errno: i32) -> sock_filter {
    answer(libc::SECCOMP_RET_ERRNO | errno as u32)
}

/// The filter. The numbers of statements to skip count from the one behind the jump.
pub(super) static NO_SOCKETS: [sock_filter; 19] = [
    /*  0 */ load(ARCH),
    /*  1 */ equal(NATIVE.arch, 0, 5),
    /*  2 */ load(NUMBER),
    /*  3 */ branch(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, X32, 13, 0),
    /*  4 */ equal(NATIVE.socket, 11, 0),
    /*  5 */ equal(IO_URING_SETUP, 11, 0),
    /*  6 */ equal(NATIVE.socketpair, 6, 8),
    /*  7 */ equal(NARROW.arch, 0, 10),
    /*  8 */ load(NUMBER),
    /*  9 */ equal(SOCKETCALL, 6, 0),
    /* 10 */ equal(NARROW.socket, 5, 0),
    /* 11 */ equal(IO_URING_SETUP, 5, 0),
    /* 12 */ equal(NARROW.socketpair, 0, 2),
    /* 13 */ load(FAMILY),
    /* 14 */ equal(libc::AF_UNIX as u32, 0, 1),
    /* 15 */ answer(libc::SECCOMP_RET_ALLOW),
    /* 16 */ refuse(libc::EACCES),
    /* 17 */ refuse(libc::EPERM),
    /* 18 */ answer(libc::SECCOMP_RET_KILL_PROCESS),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would answer to this call, as far as the filter's opcodes go.
    fn answer_to(arch: u32, number: u32, family: i32) -> u32 {
        let mut at = 0;
        let mut loaded = 0;
        loop {
            let sock_filter { code, jt, jf, k } = NO_SOCKETS[at];
            at += 1;
            let skip = |yes: bool| usize::from(if yes { jt } else { jf });
            match u32::from(code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    loaded = match k {
                        NUMBER => number,
                        ARCH => arch,
                        FAMILY => family.cast_unsigned(),
                        _ => panic!("loads what no call has: {k}"),
                    }
                }
                code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => {
                    at += skip(loaded == k)
                }
                code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => {
                    at += skip(loaded >= k)
                }
                code if code == libc::BPF_RET | libc::BPF_K => return k,
                code => panic!("an opcode that the filter has no use for: {code}"),
            }
        }
    }

    fn errno(number: i32) -> u32 {
        libc::SECCOMP_RET_ERRNO | number.cast_unsigned()
    }

    #[test]
    fn only_the_calls_that_make_sockets_are_refused() {
        let (allow, no, no_ring) = (
            libc::SECCOMP_RET_ALLOW,
            errno(libc::EACCES),
            errno(libc::EPERM),
        );
        for (calls, has_socketcall) in [(NATIVE, false), (NARROW, true)] {
            for number in 0..1_024 {
                for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_NETLINK, -1, 0] {
                    let expected = match number {
                        n if n == calls.socket => no,
                        n if n == calls.socketpair && family != libc::AF_UNIX => no,
                        SOCKETCALL if has_socketcall => no,
                        IO_URING_SETUP => no_ring,
                        _ => allow,
                    };
                    assert_eq!(
                        answer_to(calls.arch, number, family),
                        expected,
                        "{number}, {family}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_third_set_of_calls_is_refused_or_deadly() {
        for number in [0, 41, 53, 425, X32 - 1] {
            assert_eq!(
                answer_to(NATIVE.arch, X32 + number, libc::AF_UNIX),
                errno(libc::EPERM)
            );
            let other = 0x0000_0008;
            assert_eq!(
                answer_to(other, number, libc::AF_UNIX),
                libc::SECCOMP_RET_KILL_PROCESS
            );
        }
    }

    #[test]
    #[cfg(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    ))]
    fn the_numbers_are_those_of_this_architecture() {
        let number = |call: libc::c_long| u32::try_from(call).unwrap();
        assert_eq!(NATIVE.socket, number(libc::SYS_socket));
        assert_eq!(NATIVE.socketpair, number(libc::SYS_socketpair));
        assert_eq!(IO_URING_SETUP, number(libc::SYS_io_uring_setup));
    }
}
