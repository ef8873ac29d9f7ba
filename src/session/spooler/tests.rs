//! The spooler of a session whose text comes as the test has it, faster than any disk where that matters.

use std::{future::Future, pin::pin, task::Context};

use tokio::{sync::mpsc, task::spawn_local};

use super::*;
use crate::{
    arena::{Budget, MAX_LEAVING, RecordLog, Slab, Stream, max_blocks},
    config::{Spool, WhenSlow},
    io::{Backend, Runtime, Stop, probe},
    process::Census,
    session::{Spooling, snapshot::Status},
    spool::{Store, Want},
    text::utf8::Scratch,
};

const BUDGET: Budget = Budget {
    bytes: 1_000,
    records: None,
};

struct Place {
    _dir: tempfile::TempDir,
    session: Arc<Session>,
    spool: Arc<Spooled>,
    slab: Slab,
}

fn place(when_slow: WhenSlow) -> Place {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(&Spool {
        dir: dir.path().join("spool"),
        bytes_per_session: 1 << 24,
        bytes_total: 1 << 24,
        when_slow,
    });
    let spool = store.expect("opened").spool();
    let slab = Slab::new(max_blocks(BUDGET.bytes) + MAX_LEAVING).expect("map");
    let (writes, _) = mpsc::channel(1);
    let spooling = Spooling {
        spool: Arc::clone(&spool),
        when_slow,
    };
    let log = RecordLog::new(slab.clone(), BUDGET);
    let (id, command) = ("id".to_owned(), "job".to_owned());
    let session = Session::new(id, command, 1, log, Some(spooling), None, true, writes);
    Place {
        _dir: dir,
        session: Arc::new(session),
        spool,
        slab,
    }
}

/// Lines numbered from `first` on.
fn print(session: &Session, first: usize, lines: usize) {
    let text: String = (first..first + lines).map(|n| format!("{n:9}\n")).collect();
    let mut state = session.state();
    for piece in text.as_bytes().chunks(60_000) {
        let piece = std::str::from_utf8(piece).expect("ASCII");
        state.log.append(Stream::Stdout, piece, piece.len());
    }
    drop(state);
    session.spool_wanted.notify_one();
}

fn on_each_backend(test: impl AsyncFn(Backend)) {
    let mut backends = vec![Backend::Epoll];
    match probe() {
        Ok(()) => backends.push(Backend::Uring),
        Err(refused) => eprintln!("NOT TESTED on io_uring, which is refused here: {refused}"),
    }
    for backend in backends {
        let runtime = Runtime::new(backend).expect("a runtime");
        runtime.block_on(test(backend));
    }
}

fn spawn(place: &Place, backend: Backend) {
    let (scratch, census) = (Scratch::new(64), Census::new().expect("a census"));
    let thread = Rc::new(IoThread::new(backend, place.slab.clone(), scratch, census));
    let (session, spool) = (Arc::clone(&place.session), Arc::clone(&place.spool));
    spawn_local(run(session, spool, thread));
}

async fn drained(session: &Session) {
    loop {
        let moved = session.spool_moved.notified();
        tokio::pin!(moved);
        moved.as_mut().enable();
        if session.state().log.full_leaving() == 0 {
            return;
        }
        moved.await;
    }
}

#[test]
fn text_that_comes_faster_than_it_can_go_costs_all_before_it_and_leaves_no_hole() {
    on_each_backend(async |backend| {
        let place = place(WhenSlow::Drop);
        let session = &place.session;
        spawn(&place, backend);
        print(session, 0, 50_000);
        drained(session).await;
        let snapshot = session.snapshot();
        assert_eq!((snapshot.base_cursor, snapshot.spool), (0, SpoolState::Ok));
        assert!(
            session.state().log.base_cursor() > 400_000,
            "it is in the file"
        );

        // Without an await the spooler has no turn.
        print(session, 50_000, 250_000);
        let base = session.snapshot().base_cursor;
        assert!(base > 500_000, "{base}");
        assert_eq!(session.snapshot().spool, SpoolState::Dropping);
        drained(session).await;
        assert_eq!(session.snapshot().base_cursor, base, "and no more is lost");
        assert_eq!(
            place.spool.base_before(session.state().log.base_cursor()),
            Some(base)
        );
        let slots = place.spool.fetch(Want::From(base, 4)).await;
        assert_eq!(slots[0].base(), base);
        assert!(place.spool.fetch(Want::From(base - 1, 4)).await.is_empty());
    });
}

#[test]
fn a_pump_waits_for_the_disk_where_it_should_and_nowhere_else() {
    let mut context = Context::from_waker(std::task::Waker::noop());
    let (blocking, dropping) = (place(WhenSlow::Block), place(WhenSlow::Drop));
    let stop = Stop::new();
    for place in [&blocking, &dropping] {
        assert!(
            pin!(place.session.spool_has_room(&stop))
                .poll(&mut context)
                .is_ready()
        );
        while !place.session.state().log.is_crowded() {
            print(&place.session, 0, 1_000);
        }
    }
    assert!(
        pin!(dropping.session.spool_has_room(&stop))
            .poll(&mut context)
            .is_ready()
    );

    let session = &blocking.session;
    let mut waiting = pin!(session.spool_has_room(&stop));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    session.spool_moved.notify_waiters();
    assert!(
        waiting.as_mut().poll(&mut context).is_pending(),
        "nothing has moved"
    );
    let mut slot = Vec::new();
    let (base, next) = session
        .state()
        .log
        .encode_leaving(0, &mut slot)
        .expect("one is full");
    assert!(session.state().log.left(base, next));
    session.spool_moved.notify_waiters();
    assert!(waiting.as_mut().poll(&mut context).is_ready());

    while !session.state().log.is_crowded() {
        print(session, 0, 1_000);
    }
    let mut waiting = pin!(session.spool_has_room(&stop));
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    session.state().status = Status::Exited;
    session.changed.notify_waiters();
    assert!(
        waiting.as_mut().poll(&mut context).is_ready(),
        "nobody is held up any more"
    );

    session.state().status = Status::Running;
    stop.request();
    assert!(
        pin!(session.spool_has_room(&stop))
            .poll(&mut context)
            .is_ready()
    );
}
