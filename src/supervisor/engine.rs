//! The I/O thread: one runtime that owns every pipe, every leader and every timer.

use std::{io, rc::Rc, sync::Arc, thread::JoinHandle, time::Duration};

use tokio::{
    sync::mpsc,
    task::spawn_local,
    time::{Instant, sleep_until},
};

use crate::{
    arena::Slab,
    io::{Backend, READ_BYTES, Runtime, Watch},
    process::{Census, Nursery, Spawned},
    session::{Session, driver, input::WriteJob, io_thread::IoThread},
    supervisor::{table::Table, trail::Ends},
    text::utf8::Scratch,
};

/// Started children that may wait for the I/O thread at once; more wait on the request side.
const QUEUE: usize = 64;

/// Free blocks that keep their memory when a session is forgotten: as many as a few floods turn over.
const KEPT_BLOCKS: usize = 32;

/// A session whose child runs and whose tasks don't yet.
#[derive(Debug)]
pub struct Adoption {
    /// The session, already in the table.
    pub session: Arc<Session>,
    /// Its child.
    pub child: Spawned,
    /// When its time is up.
    pub timeout_at: Instant,
    /// Whether descendants that left its group may stay when it has ended by itself.
    pub allow_detach: bool,
    /// Its writes.
    pub writes: mpsc::Receiver<WriteJob>,
}

/// Starts the I/O thread. It ends when every sender is gone; sessions that are left are killed with it.
///
/// # Errors
/// The thread can't be started, or its runtime can't: the backend's reason.
pub(super) fn start(
    backend: Backend,
    slab: Slab,
    nursery: Arc<Nursery>,
    table: Arc<Table>,
    ends: Arc<Ends>,
    retention: Duration,
) -> io::Result<(mpsc::Sender<Adoption>, JoinHandle<()>)> {
    let (sender, mut adoptions) = mpsc::channel::<Adoption>(QUEUE);
    let (ready, started) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new()
        .name("io".into())
        .spawn(move || {
            let built = Runtime::new(backend).and_then(|runtime| Ok((runtime, Census::new()?)));
            let (runtime, census) = match built {
                Ok(built) => built,
                Err(error) => {
                    ready.send(Err(error)).ok();
                    return;
                }
            };
            ready.send(Ok(())).ok();
            runtime.block_on(async move {
                let scratch = Scratch::new(READ_BYTES);
                let shared = Rc::new(IoThread::new(backend, slab, scratch, census));
                spawn_local(watch(nursery));
                while let Some(adoption) = adoptions.recv().await {
                    spawn_local(host(
                        adoption,
                        Rc::clone(&shared),
                        Arc::clone(&table),
                        Arc::clone(&ends),
                        retention,
                    ));
                }
            });
        })?;
    match started.recv() {
        Ok(Ok(())) => Ok((sender, thread)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("the I/O thread ended before it began")),
    }
}

/// Without a nursery nothing can be started any more; what runs goes on.
async fn watch(nursery: Arc<Nursery>) {
    let gone = nursery
        .gone()
        .try_clone_to_owned()
        .map_err(|error| error.to_string());
    let gone = gone.and_then(|gone| Watch::new(gone).map_err(|errno| errno.to_string()));
    match gone {
        Ok(gone) => {
            if gone.ready().await.is_ok() {
                nursery.reap();
                tracing::error!("the nursery was killed: no process can be started any more");
            }
        }
        Err(error) => tracing::warn!(error, "the nursery can't be watched"),
    }
}

async fn host(
    adoption: Adoption,
    shared: Rc<IoThread>,
    table: Arc<Table>,
    ends: Arc<Ends>,
    retention: Duration,
) {
    let Adoption {
        session,
        child,
        timeout_at,
        allow_detach,
        writes,
    } = adoption;
    tracing::info!(
        session = session.id(),
        command = session.command_id(),
        pid = child.leader.pid().as_raw(),
        "started"
    );
    let final_at = driver::run(
        Arc::clone(&session),
        child,
        timeout_at,
        allow_detach,
        writes,
        Rc::clone(&shared),
    )
    .await;
    ends.tell(session.id());
    let end = session.snapshot();
    tracing::info!(
        session = session.id(),
        status = ?end.status,
        reason = ?end.termination_reason,
        code = end.exit_code,
        signal = end.exit_signal,
        "ended"
    );
    let id = session.id().to_owned();
    let forgotten = Arc::clone(&session.forgotten);
    drop(session);
    tokio::select! {
        () = sleep_until(final_at + retention) => {}
        () = forgotten.notified() => {}
    }
    table.remove(&id);
    shared.slab.trim(KEPT_BLOCKS);
}
