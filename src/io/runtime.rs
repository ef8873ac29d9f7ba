//! The one-thread runtime that a backend's sources, sinks and timers live in.

use std::{future::Future, io};

use tokio::{runtime::Builder, task::LocalSet};

use nix::errno::Errno;

use super::{Backend, Refused, Step};

/// Entries of the submission queue. A full queue is flushed, not refused, so this bounds nothing.
const ENTRIES: u32 = 256;

/// Tasks are spawned with [`tokio::task::spawn_local`] in both.
pub struct Runtime(Inner);

enum Inner {
    Uring(tokio_uring::Runtime),
    Tokio {
        // Dropped first: its tasks hold descriptors that are registered with the runtime.
        tasks: LocalSet,
        runtime: tokio::runtime::Runtime,
    },
}

impl Runtime {
    /// Builds the runtime on the thread that is to run it. For io_uring [`super::probe`] must have succeeded: where the
    /// kernel refuses a ring, tokio-uring leaks descriptors, and where it refuses only `io_uring_enter`, it hangs.
    ///
    /// # Errors
    /// For io_uring [`Refused`], as the error's source, when the ring can't be had although a smaller one could: users have a
    /// limit of locked memory, which all their rings share. Otherwise the kernel's error when epoll or event descriptors
    /// can't be had.
    pub fn new(backend: Backend) -> io::Result<Runtime> {
        match backend {
            Backend::Uring => {
                // No IORING_SETUP_DEFER_TASKRUN: completions would only be posted while someone waits in
                // io_uring_enter, and tokio-uring waits in epoll_wait.
                let runtime = tokio_uring::Runtime::new(tokio_uring::builder().entries(ENTRIES));
                let refused = |error: io::Error| match error.raw_os_error() {
                    Some(number) => io::Error::other(Refused {
                        step: Step::Setup,
                        errno: Errno::from_raw(number),
                    }),
                    None => error,
                };
                Ok(Runtime(Inner::Uring(runtime.map_err(refused)?)))
            }
            Backend::Epoll => Runtime::of(Builder::new_current_thread().enable_all()),
            // Its time goes on by itself only when every task waits for a time.
            #[cfg(test)]
            Backend::Scripted => Runtime::of(
                Builder::new_current_thread()
                    .enable_time()
                    .start_paused(true),
            ),
        }
    }

    fn of(builder: &mut Builder) -> io::Result<Runtime> {
        Ok(Runtime(Inner::Tokio {
            tasks: LocalSet::new(),
            runtime: builder.build()?,
        }))
    }

    /// Runs `future`, and the spawned tasks beside it, until `future` ends. Tasks that are left wait for the next call.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match &self.0 {
            Inner::Uring(runtime) => runtime.block_on(future),
            Inner::Tokio { tasks, runtime } => tasks.block_on(runtime, future),
        }
    }
}
