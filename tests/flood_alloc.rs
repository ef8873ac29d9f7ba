//! "Allocation-free" as a test: while children print, whatever they print, the host's own threads ask the allocator for
//! nothing once the logs are warm.
//!
//! Each case runs a child through the real engine, lets it print until its log is full and evicts, and then counts the
//! allocations of every thread of the host over the next [`FLOOD`] code points. A client follows meanwhile, so waking one
//! is part of what is counted; its own thread and the test harness's aren't.

#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    backtrace::Backtrace,
    cell::Cell,
    future::pending,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use nix::unistd::{getpid, gettid};
use sluicegate::{
    arena::{Page, PageLimits, Unit},
    audit::Log,
    config::{Config, Profile, Spool, StdinKind, WhenSlow},
    io::{Backend, probe},
    process::Nursery,
    spool::Store,
    supervisor::{
        follow::{Place, ReadRequest, Until},
        handle::{Handle, StartRequest},
        refusal::Refusal,
    },
};

/// Code points over which nothing may be allocated. Decoding damaged text is fifty times slower without optimisation.
const FLOOD: u64 = if cfg!(debug_assertions) {
    1 << 24
} else {
    1 << 30
};
/// Code points after which a log is warm: it has evicted more than it keeps several times over.
const WARM_UP: u64 = 1 << 24;
/// No child may run longer than that, so that a flood that stops fails the test instead of hanging it.
const TIMEOUT: Duration = Duration::from_millis(300_000);

static ARMED: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static FIRST: Mutex<Option<Backtrace>> = Mutex::new(None);
/// One case at a time: the counters are the process's.
static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// Whether this thread's allocations don't count: it plays the client, or is inside the count itself.
    static EXEMPT: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, which counts while [`ARMED`].
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on as it came to the system's allocator, which keeps the trait's contract; counting
// touches no memory that was handed out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of the same method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as in `alloc`.
        unsafe { System.realloc(memory, layout, size) }
    }
}

fn count() {
    if !ARMED.load(Ordering::Relaxed) || gettid() == getpid() {
        return;
    }
    // A thread that is ending has no thread-locals any more; none of ours ends while armed.
    EXEMPT.with(|exempt| {
        if exempt.replace(true) {
            return;
        }
        if ALLOCATIONS.fetch_add(1, Ordering::Relaxed) == 0 {
            let first = Backtrace::force_capture();
            *FIRST.lock().unwrap_or_else(PoisonError::into_inner) = Some(first);
        }
        exempt.set(false);
    });
}

/// What a child prints, and how much of it is kept.
struct Case {
    name: &'static str,
    argv: &'static [&'static str],
    buffer_records: Option<u64>,
}

const CASES: &[Case] = &[
    Case {
        name: "full reads, adopted whole, evicted whole",
        argv: &["/usr/bin/dd", "if=/dev/zero", "bs=1M", "status=none"],
        buffer_records: None,
    },
    Case {
        name: "8 KiB writes, evicted code point by code point",
        argv: &["/usr/bin/yes"],
        buffer_records: Some(65_536),
    },
    Case {
        name: "small lines at full speed, paced",
        argv: &["/usr/bin/dd", "if=/dev/zero", "bs=81", "status=none"],
        buffer_records: Some(65_536),
    },
    Case {
        name: "stdout and stderr interleaved, in a script of three bytes a character",
        argv: &["/bin/sh", "-c", "yes 二 >&2 & exec yes 一"],
        buffer_records: None,
    },
    Case {
        name: "bytes that are no UTF-8",
        argv: &["/bin/cat", "/dev/urandom"],
        buffer_records: None,
    },
];

fn config(case: &Case) -> Config {
    let root = Path::new("/");
    let argv = case.argv.iter().map(|&part| part.to_owned()).collect();
    let profile = Profile {
        stdin: StdinKind::Null,
        ..Profile::new("flood", argv)
    };
    let mut config = Config::with_defaults(vec![root.to_owned()], root.to_owned(), vec![profile]);
    config.buffer_records = case.buffer_records;
    config
}

/// Follows the session until its log ends at `target` or later, and returns where it ends.
///
/// What a spool holds is read by threads that work for the client, so then its end is looked at, which is in memory.
async fn follow(handle: &Handle, session: &str, target: u64, spooled: bool) -> u64 {
    let limits = PageLimits {
        bytes: 4,
        records: 1,
        unit: Unit::Runs,
    };
    let mut page = Page::default();
    loop {
        let now = handle.status(session).expect("the session is retained");
        if now.next_cursor >= target {
            return now.next_cursor;
        }
        assert!(!now.status.is_final(), "the flood ended: {now:?}");
        let (place, until, wait) = if spooled {
            let idle = Until::Idle(Duration::from_secs(2));
            (Place::Tail, idle, Duration::from_millis(2))
        } else {
            let next = Place::Cursor(now.next_cursor);
            (next, Until::Record, Duration::from_secs(2))
        };
        let request = ReadRequest {
            place,
            limits,
            until,
            wait,
        };
        let read = handle.read(session, request, pending(), &mut page);
        match read.await {
            // The flood was faster than this thread: there is more.
            Ok(_) | Err(Refusal::CursorExpired { .. }) => {}
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
}

/// Allocations over `flood` code points of the case, and where the first was made. What has no room goes into `spool`.
fn allocations(
    case: &Case,
    backend: Backend,
    flood: u64,
    spool: Option<Spool>,
) -> (u64, Option<Backtrace>) {
    let spooled = spool.is_some();
    let store = spool
        .as_ref()
        .map(|spool| Store::open(spool).expect("a spool"));
    let config = Config {
        spool,
        ..config(case)
    };
    let client = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let (handle, io_thread) = Handle::start_engine(
        config,
        backend,
        Arc::new(Nursery::start().expect("a nursery")),
        Log::off(),
        store,
    )
    .expect("an engine");
    let counted = client.block_on(async {
        let request = StartRequest {
            command_id: "flood".to_owned(),
            timeout: Some(TIMEOUT),
            ..StartRequest::default()
        };
        let started = handle
            .start(request, |_| (), pending(), pending())
            .await
            .unwrap_or_else(|refusal| panic!("{}: {refusal:?}", case.name));
        let session = started.snapshot.session_id;
        let warm = follow(&handle, &session, WARM_UP, spooled).await;
        ALLOCATIONS.store(0, Ordering::Relaxed);
        ARMED.store(true, Ordering::Relaxed);
        follow(&handle, &session, warm + flood, spooled).await;
        ARMED.store(false, Ordering::Relaxed);
        handle.shut_down(Duration::ZERO).await;
        ALLOCATIONS.load(Ordering::Relaxed)
    });
    drop(handle);
    io_thread.join().expect("the I/O thread ends in order");
    let first = FIRST.lock().unwrap_or_else(PoisonError::into_inner).take();
    (counted, first)
}

fn no_case_allocates(backend: Backend) {
    EXEMPT.set(true);
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for case in CASES {
        let (counted, first) = allocations(case, backend, FLOOD, None);
        assert!(
            counted == 0,
            "{} on {backend:?}: {counted} allocations in {FLOOD} code points, the first by\n{}",
            case.name,
            first.map(|trace| trace.to_string()).unwrap_or_default()
        );
    }
}

#[test]
fn a_flood_allocates_nothing_on_epoll() {
    no_case_allocates(Backend::Epoll);
}

#[test]
fn a_flood_allocates_nothing_on_io_uring() {
    if let Err(refused) = probe() {
        eprintln!("NOT TESTED on io_uring, which is refused here: {refused}");
        return;
    }
    no_case_allocates(Backend::Uring);
}

/// Writes through the ring; on epoll each goes to a thread, which takes an allocation or two.
#[test]
fn a_flood_into_the_spool_allocates_nothing_on_io_uring() {
    if let Err(refused) = probe() {
        eprintln!("NOT TESTED on io_uring, which is refused here: {refused}");
        return;
    }
    EXEMPT.set(true);
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // All of it goes to a disk.
    const FLOOD: u64 = 1 << 24;
    for case in CASES {
        let dir = tempfile::tempdir().expect("a directory");
        let spool = Spool {
            dir: dir.path().join("spool"),
            // So large that the flood begins no new file.
            bytes_per_session: 1 << 40,
            bytes_total: 1 << 40,
            when_slow: WhenSlow::Block,
        };
        let (counted, first) = allocations(case, Backend::Uring, FLOOD, Some(spool));
        assert!(
            counted == 0,
            "{} with a spool: {counted} allocations in {FLOOD} code points, the first by\n{}",
            case.name,
            first.map(|trace| trace.to_string()).unwrap_or_default()
        );
    }
}

/// The count itself can fail: an allocation on another thread is seen.
#[test]
fn an_allocation_is_counted() {
    EXEMPT.set(true);
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (go, wait) = std::sync::mpsc::sync_channel(0);
    let thread = std::thread::spawn(move || {
        wait.recv().expect("the test goes on");
        drop(std::hint::black_box(Box::new(7)));
        wait.recv().expect("the test goes on");
    });
    ALLOCATIONS.store(0, Ordering::Relaxed);
    ARMED.store(true, Ordering::Relaxed);
    go.send(()).expect("the thread waits");
    // Taken only after the box was made.
    go.send(()).expect("the thread waits again");
    ARMED.store(false, Ordering::Relaxed);
    assert!(ALLOCATIONS.load(Ordering::Relaxed) >= 1);
    drop(go);
    thread.join().expect("the thread ends");
    FIRST.lock().unwrap_or_else(PoisonError::into_inner).take();
}
