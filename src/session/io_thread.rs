//! What the sessions of the I/O thread share. None of it is touched by another thread, and none is borrowed over an await.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use crate::{
    arena::Slab,
    io::{Backend, Source},
    process::Census,
    session::pace::LARGE_PIPE,
    text::utf8::Scratch,
};

/// See the module.
#[derive(Debug)]
pub struct IoThread {
    /// How pipes are read and written.
    pub backend: Backend,
    /// Where blocks come from.
    pub slab: Slab,
    /// Where invalid bytes are replaced, by one pump at a time.
    pub scratch: RefCell<Scratch>,
    /// Who is alive in which group.
    pub census: RefCell<Census>,
    /// Pipes that are enlarged at the moment.
    large_pipes: Cell<usize>,
}

impl IoThread {
    /// The state of an I/O thread that has no sessions yet.
    pub fn new(backend: Backend, slab: Slab, scratch: Scratch, census: Census) -> Self {
        Self {
            backend,
            slab,
            scratch: RefCell::new(scratch),
            census: RefCell::new(census),
            large_pipes: Cell::new(0),
        }
    }
}

/// Enlarged pipes of one host. A user who isn't root has 64 MiB of pipe memory in all (pipe(7)), beyond which new pipes
/// shrink to 8 KiB; this many take a quarter of it.
const LARGE_PIPES: usize = 64;

/// A share of `LARGE_PIPES`, given back when the pipe is gone.
pub struct LargePipe(Rc<IoThread>);

impl LargePipe {
    /// Enlarges the pipe where both the host's share and the user's quota permit. Refused, the pipe stays as it is,
    /// which is slower and nothing else.
    pub fn grant(thread: &Rc<IoThread>, source: &Source) -> Option<Self> {
        let granted = thread.large_pipes.get();
        if granted >= LARGE_PIPES || source.set_pipe_size(LARGE_PIPE).is_err() {
            return None;
        }
        thread.large_pipes.set(granted + 1);
        Some(Self(Rc::clone(thread)))
    }
}

impl Drop for LargePipe {
    fn drop(&mut self) {
        self.0.large_pipes.set(self.0.large_pipes.get() - 1);
    }
}
