//! What a start costs: a session's whole way over a spare keeper, against the least that any host must do.

use std::{
    fs::File,
    hint::black_box,
    os::fd::BorrowedFd,
    process::{Command, Stdio},
};

use criterion::{Criterion, criterion_group, criterion_main};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sluicegate::{
    config::StdinKind,
    process::{Exit, Launch, Nursery, Spawned, spawn},
};

const PROGRAM: &str = "/bin/true";

fn wait(fd: BorrowedFd<'_>) {
    let mut ready = [PollFd::new(fd, PollFlags::POLLIN)];
    poll(&mut ready, PollTimeout::NONE).expect("descriptors of our own");
}

/// Three pipes, `posix_spawn`, `waitid`: what the standard library does without a hook before exec.
fn bare() {
    let child = Command::new(PROGRAM)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let status = child.and_then(|mut child| child.wait());
    assert!(status.expect("it runs").success());
}

/// Three pipes, a keeper, its leader's exit, its status.
fn kept(launch: &Launch, nursery: &Nursery) -> Exit {
    let Spawned {
        leader,
        stdin,
        stdout,
        stderr,
    } = spawn(launch, nursery).expect("it runs");
    wait(leader.pidfd());
    let reaping = leader.reap();
    wait(reaping.keeper());
    drop((stdin, stdout, stderr));
    reaping.exit().expect("the keeper is there")
}

fn starts(criterion: &mut Criterion) {
    let nursery = Nursery::start().expect("a process");
    let root = File::open("/").expect("the root directory");
    let env = [("PATH", "/usr/bin:/bin")];
    let launch = Launch::new(&[PROGRAM], &env, root.into(), StdinKind::Pipe).expect("valid");
    let mut group = criterion.benchmark_group("start and reap /bin/true");
    group.bench_function("posix_spawn and waitid", |bencher| bencher.iter(bare));
    group.bench_function("keeper", |bencher| {
        bencher.iter(|| black_box(kept(&launch, &nursery)));
    });
    // What a server of a usual size pays: a fork copies page tables, so memory that is not forked must not matter.
    let ballast = black_box(vec![1_u8; 64 << 20]);
    group.bench_function("keeper, 64 MiB in the server", |bencher| {
        bencher.iter(|| black_box(kept(&launch, &nursery)));
    });
    drop(ballast);
    group.finish();
}

criterion_group!(benches, starts);
criterion_main!(benches);
