//! What the behaviour tests share: an Owner's config in a temporary directory, the real binary as a child with a
//! JSON-lines client around it, the sessions that it hosts, and what the kernel says about processes.
//!
//! Nothing here sleeps to be lucky. Where an event can't be subscribed to (a process disappearing, a status
//! becoming final) it is polled for, and [`GUARD`] turns a hang into a failure; no test measures speed with it.

use std::time::{Duration, Instant};

pub mod call;
pub mod disk;
pub mod installed;
pub mod launch;
pub mod owner;
pub mod proc;
pub mod screen;
pub mod server;
pub mod session;
pub mod terminal;

pub use call::Call;
pub use disk::SmallDisk;
pub use owner::Owner;
pub use server::Server;
pub use session::Session;
pub use terminal::Terminal;

/// How long anything may take before a test gives up. Far above what a loaded machine needs.
pub const GUARD: Duration = Duration::from_secs(30);

/// Polls until `condition` holds, and fails naming `what` when it never does.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < GUARD, "gave up waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Fails unless `attempt` comes out true in one of five tries. For an order of events that a stalled machine can upset
/// now and then, and that a fault upsets every time.
#[track_caller]
pub fn assert_shown(what: &str, mut attempt: impl FnMut() -> bool) {
    assert!(
        (0..5).any(|_| attempt()),
        "not once in five attempts: {what}"
    );
}

/// Whether the whole suite is being run over epoll; prints why a test that needs io_uring does nothing then.
pub fn skipped_under_epoll(test: &str) -> bool {
    let epoll = owner::backend().is_some_and(|io| io == "epoll");
    if epoll {
        eprintln!(
            "SKIPPED {test}: it needs io_uring and the suite runs with SLUICEGATE_TEST_IO=epoll"
        );
    }
    epoll
}

/// A ping whose line, newline included, has `length` bytes.
pub fn ping_of(length: usize, id: &str) -> String {
    let head =
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"ping","params":{{"_meta":{{"pad":""#);
    let tail = r#""}}}"#;
    format!(
        "{head}{}{tail}\n",
        "x".repeat(length - head.len() - tail.len() - 1)
    )
}
