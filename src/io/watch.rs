//! Waiting for a descriptor that becomes readable once and stays so, such as a pidfd.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use tokio::io::{Interest, unix::AsyncFd};

use super::epoll::{errno, register};

/// Works in both backends' runtimes.
#[derive(Debug)]
pub struct Watch(Watched);

#[derive(Debug)]
enum Watched {
    Fd(AsyncFd<OwnedFd>),
    /// Ready once that is requested.
    #[cfg(test)]
    Scripted(super::Stop),
}

impl Watch {
    /// # Errors
    /// The kernel's error when the descriptor can't be watched.
    pub fn new(fd: OwnedFd) -> Result<Watch, Errno> {
        register(fd, Interest::READABLE).map(|fd| Watch(Watched::Fd(fd)))
    }

    /// Ready once `event` is requested.
    #[cfg(test)]
    pub(crate) fn scripted(event: super::Stop) -> Watch {
        Watch(Watched::Scripted(event))
    }

    /// Returns once it is readable, and at once from then on.
    ///
    /// # Errors
    /// When the runtime shuts down.
    ///
    /// # Cancel safety
    /// Dropping the future only ends the waiting.
    pub async fn ready(&self) -> Result<(), Errno> {
        match &self.0 {
            // The readiness is never cleared: a pidfd doesn't go back, and of a socket only the first word or the end is
            // awaited.
            Watched::Fd(fd) => fd.readable().await.map(drop).map_err(|error| errno(&error)),
            #[cfg(test)]
            Watched::Scripted(event) => {
                event.requested().await;
                Ok(())
            }
        }
    }
}
