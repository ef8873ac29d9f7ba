//! Threads that block in place of the runtime, for descriptors that can't be polled without changing them for others.
//!
//! Owns one descriptor and one thread for each direction. A thread in `read` or `write` can't be called back: it ends with
//! its descriptor's other side, or with the process.

use std::{
    io,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use nix::{
    errno::Errno,
    unistd::{read, write},
};
use tokio::sync::{mpsc, oneshot};

/// Bytes that cross between a thread and the runtime at once.
const CHUNK_BYTES: usize = 65_536;

/// Makes a system call again for as long as signals interrupt it.
pub(super) fn retry<T>(mut call: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// Reads in a thread of its own, which ends with the stream or with the process: nothing can call it back from a read.
pub(super) fn read_in_thread(fd: OwnedFd) -> io::Result<mpsc::Receiver<io::Result<Vec<u8>>>> {
    let (sender, receiver) = mpsc::channel(1);
    thread::Builder::new()
        .name("protocol-in".to_owned())
        .spawn(move || {
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                let result = retry(|| read(&fd, &mut chunk)).map_err(io::Error::from);
                let last = !matches!(result, Ok(count) if count > 0);
                let result = result.map(|count| {
                    chunk.truncate(count);
                    chunk
                });
                if sender.blocking_send(result).is_err() || last {
                    return;
                }
            }
        })?;
    Ok(receiver)
}

/// What a writing thread is told.
#[derive(Debug)]
enum Order {
    Write(Vec<u8>),
    /// Answer when all before is written.
    Report(oneshot::Sender<()>),
}

/// Writes in a thread of its own, which ends when the [`Output`] is dropped or a write fails.
#[derive(Debug)]
pub(super) struct WriterThread {
    orders: mpsc::Sender<Order>,
    /// Why the thread ended.
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl WriterThread {
    pub(super) fn start(fd: OwnedFd) -> io::Result<Self> {
        let (orders, mut received) = mpsc::channel(1);
        let failure = Arc::new(Mutex::new(None));
        let reported = Arc::clone(&failure);
        thread::Builder::new()
            .name("protocol-out".to_owned())
            .spawn(move || {
                while let Some(order) = received.blocking_recv() {
                    match order {
                        Order::Write(bytes) => {
                            let mut rest = bytes.as_slice();
                            while !rest.is_empty() {
                                match retry(|| write(&fd, rest)) {
                                    Ok(count) => rest = &rest[count..],
                                    Err(errno) => {
                                        *reported.lock().unwrap_or_else(PoisonError::into_inner) =
                                            Some(errno.into());
                                        return;
                                    }
                                }
                            }
                        }
                        // Nobody may be waiting for it any more.
                        Order::Report(done) => drop(done.send(())),
                    }
                }
            })?;
        Ok(Self { orders, failure })
    }

    /// Hands some of `bytes` over and returns how many.
    ///
    /// # Errors
    ///
    /// What an earlier write failed with.
    ///
    /// # Cancel safety
    ///
    /// Nothing was handed over when the future is dropped before it resolves.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Ok(place) = self.orders.reserve().await else {
            let failure = self
                .failure
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            return Err(failure.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()));
        };
        let count = bytes.len().min(CHUNK_BYTES);
        place.send(Order::Write(bytes[..count].to_vec()));
        Ok(count)
    }

    /// Waits until what was handed over is written, or can't be.
    ///
    /// # Cancel safety
    ///
    /// Can be called again.
    pub(super) async fn flush(&mut self) {
        let (done, written) = oneshot::channel();
        if self.orders.send(Order::Report(done)).await.is_ok() {
            // An error means that the thread ended in a failed write: there is nothing to wait for.
            written.await.unwrap_or_default();
        }
    }
}
