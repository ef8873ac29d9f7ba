//! Files, which are never "ready": whoever opens, reads, writes or removes one waits as long as the disk does.
//!
//! So that is done by threads that are there for nothing else ([`Disk`]), or, for writes on io_uring, by the kernel's own
//! ([`Segment`]). A disk that hangs holds those up and nobody who doesn't ask for a file.

use std::{
    fs::File,
    future::Future,
    io,
    os::{fd::OwnedFd, unix::fs::FileExt},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

use nix::{
    errno::Errno,
    sys::signal::{SigSet, Signal},
};
use tokio::sync::oneshot;

use super::{Backend, epoll::errno, uring};

type Job = Box<dyn FnOnce() + Send>;

/// Threads for calls that wait for a disk. Cheap to clone; the threads end with the last clone.
#[derive(Clone, Debug)]
pub struct Disk {
    jobs: Sender<Job>,
}

impl Disk {
    /// Starts `threads` of them.
    ///
    /// # Errors
    /// The kernel's, when it has no thread to give.
    pub fn start(threads: usize) -> io::Result<Disk> {
        let (jobs, queue) = channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads {
            let queue = Arc::clone(&queue);
            thread::Builder::new()
                .name("disk".to_owned())
                .spawn(move || {
                    shield_from_size_limits();
                    while let Some(job) = next(&queue) {
                        job();
                    }
                })?;
        }
        Ok(Disk { jobs })
    }

    /// Has `job` done. Jobs begin in the order of these calls. `None` when it panicked.
    ///
    /// # Cancel safety
    /// A job whose future is dropped is done all the same.
    pub fn run<T, J>(&self, job: J) -> impl Future<Output = Option<T>> + Send + use<T, J>
    where
        T: Send + 'static,
        J: FnOnce() -> T + Send + 'static,
    {
        let (answer, done) = oneshot::channel();
        self.leave(move || {
            // Nobody may be waiting for it any more.
            answer.send(job()).ok();
        });
        async move { done.await.ok() }
    }

    /// Has `job` done, whenever that is.
    pub fn leave(&self, job: impl FnOnce() + Send + 'static) {
        // Refused only when every thread has panicked, and then nothing can be done about it.
        self.jobs.send(Box::new(job)).ok();
    }
}

fn next(queue: &Mutex<Receiver<Job>>) -> Option<Job> {
    let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    queue.recv().ok()
}

/// A file size limit (`ulimit -f`) would end the process by SIGXFSZ; blocked in the thread that writes, the write fails
/// instead.
pub fn shield_from_size_limits() {
    let mut beyond_limit = SigSet::empty();
    beyond_limit.add(Signal::SIGXFSZ);
    if let Err(errno) = beyond_limit.thread_block() {
        tracing::warn!(%errno, "SIGXFSZ can't be blocked");
    }
}

/// A file that one task writes.
#[derive(Debug)]
pub enum Segment {
    /// See [`Backend::Uring`].
    Uring(uring::Segment),
    /// On a thread of the disk's.
    Thread(Arc<File>, Disk),
}

impl Segment {
    /// A file that is open for writing.
    pub fn new(backend: Backend, fd: OwnedFd, disk: &Disk) -> Segment {
        match backend {
            Backend::Uring => Segment::Uring(uring::Segment::new(fd)),
            _ => Segment::Thread(Arc::new(File::from(fd)), disk.clone()),
        }
    }

    /// Writes all of `data` at `offset`, and gives it back.
    ///
    /// # Errors
    /// The kernel's; how much was written is not known then.
    ///
    /// # Cancel safety
    /// None: after dropping the future it is unknown what is written, and when.
    pub async fn write_at(&mut self, data: Vec<u8>, offset: u64) -> (Result<(), Errno>, Vec<u8>) {
        match self {
            Segment::Uring(segment) => {
                let (mut data, mut from) = (data, 0);
                loop {
                    let written;
                    (written, data) = segment.write_once(data, from, offset + from as u64).await;
                    match written {
                        Ok(0) => return (Err(Errno::EIO), data),
                        Ok(n) => from += n,
                        Err(Errno::EINTR | Errno::EAGAIN) => {}
                        Err(errno) => return (Err(errno), data),
                    }
                    if from >= data.len() {
                        return (Ok(()), data);
                    }
                }
            }
            Segment::Thread(file, disk) => {
                let file = Arc::clone(file);
                let written = disk.run(move || (file.write_all_at(&data, offset), data));
                match written.await {
                    Some((written, data)) => (written.map_err(|error| errno(&error)), data),
                    None => (Err(Errno::EIO), Vec::new()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Runtime, probe};

    fn write_and_read_back(backend: Backend) {
        let disk = Disk::start(2).expect("threads");
        let runtime = Runtime::new(backend).expect("a runtime");
        let file = tempfile::tempfile().expect("a file");
        let fd = OwnedFd::from(file.try_clone().expect("a descriptor"));
        let mut segment = Segment::new(backend, fd, &disk);
        runtime.block_on(async {
            let (written, data) = segment.write_at(b"world".to_vec(), 6).await;
            assert_eq!((written, data.as_slice()), (Ok(()), &b"world"[..]));
            let (written, _) = segment.write_at(b"hello ".to_vec(), 0).await;
            assert_eq!(written, Ok(()));
        });
        let mut all = [0; 11];
        file.read_exact_at(&mut all, 0).expect("as much as written");
        assert_eq!(&all, b"hello world");
    }

    #[test]
    fn what_was_written_at_a_place_stands_there() {
        write_and_read_back(Backend::Epoll);
        match probe() {
            Ok(()) => write_and_read_back(Backend::Uring),
            Err(refused) => eprintln!("NOT TESTED on io_uring, which is refused here: {refused}"),
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_gives_the_data_back() {
        let disk = Disk::start(1).expect("a thread");
        let runtime = Runtime::new(Backend::Epoll).expect("a runtime");
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("Linux has it");
        let mut segment = Segment::new(Backend::Epoll, full.into(), &disk);
        runtime.block_on(async {
            let (written, data) = segment.write_at(b"x".to_vec(), 0).await;
            assert_eq!((written, data.as_slice()), (Err(Errno::ENOSPC), &b"x"[..]));
        });
    }
}
