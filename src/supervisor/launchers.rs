//! The threads in which starts may block.
//!
//! A directory or an executable on a dead network mount blocks whoever opens it, perhaps for ever. That must be neither the
//! request thread, which answers every other call, nor the I/O thread, which drains every other job. So each start runs in
//! a thread here. A start that hangs keeps its thread, since nothing takes a thread out of the kernel, but not its caller;
//! and there is a bound on threads, so that while that many hang further starts are refused.
//!
//! A thread costs as much as a tenth of a start, so one stays for the next. They are not tokio's blocking pool, which panics
//! when it can't have its first thread.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout,
};

/// Starts that may be in their threads at once. Each is through in a millisecond or two unless a file system hangs.
const THREADS: usize = 8;
/// How long a start waits for its turn while no other one gets through. On a busy machine they are slow, and come through.
const TURN: Duration = Duration::from_secs(4);
/// How long a start may take from its turn on. A disk that must spin up, or a mount that is made on demand, answers sooner.
const ANSWER: Duration = Duration::from_secs(10);

/// Why work gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoResult {
    /// There is no thread to be had.
    NoThread,
    /// All threads are taken by work that hangs.
    Busy,
    /// The work hangs itself. It goes on, and its result will be dropped.
    Hangs,
    /// It panicked.
    Panicked,
}

/// Work with its way to answer inside, and its place.
struct Job {
    work: Box<dyn FnOnce() + Send>,
    place: OwnedSemaphorePermit,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Launchers {
    places: Arc<Semaphore>,
    threads: Arc<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Given to a thread that waits, and not yet taken by it.
    jobs: VecDeque<Job>,
    /// Threads that wait and that no job was given to: none or one.
    waiting: usize,
    /// Jobs that came to a result.
    done: u64,
    closed: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("jobs", &self.jobs.len())
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl Launchers {
    /// No threads yet.
    pub(super) fn new() -> Launchers {
        Launchers {
            places: Arc::new(Semaphore::new(THREADS)),
            threads: Arc::default(),
        }
    }

    /// Runs `work` in a thread. It gets a way to ask whether its result is still wanted.
    ///
    /// # Errors
    /// See [`NoResult`].
    ///
    /// # Cancel safety
    /// Dropped, it leaves the work to its end and the result is dropped.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Result<T, NoResult> {
        let place = self.turn().await?;
        let (answer, result) = oneshot::channel();
        let threads = Arc::clone(&self.threads);
        let work = Box::new(move || {
            let result = work(&|| !answer.is_closed());
            // Before anybody can know of it: whoever waits behind must not take it for one that hangs.
            threads.lock().done += 1;
            answer.send(result).ok();
        });
        self.threads.give(Job { work, place })?;
        match timeout(ANSWER, result).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(_)) => Err(NoResult::Panicked),
            Err(_) => Err(NoResult::Hangs),
        }
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, NoResult> {
        let mut turn = pin!(Arc::clone(&self.places).acquire_owned());
        loop {
            let done = self.threads.lock().done;
            match timeout(TURN, &mut turn).await {
                Ok(place) => return Ok(place.expect("nobody closes it")),
                Err(_) if self.threads.lock().done == done => return Err(NoResult::Busy),
                Err(_) => {}
            }
        }
    }
}

impl Drop for Launchers {
    fn drop(&mut self) {
        self.threads.lock().closed = true;
        self.threads.changed.notify_all();
    }
}

impl Threads {
    /// To the thread that waits, or to a new one.
    fn give(self: &Arc<Self>, job: Job) -> Result<(), NoResult> {
        {
            let mut state = self.lock();
            if state.waiting > 0 {
                state.waiting -= 1;
                state.jobs.push_back(job);
                self.changed.notify_one();
                return Ok(());
            }
        }
        let threads = Arc::clone(self);
        let thread = thread::Builder::new().name("start".into());
        let started = thread.spawn(move || threads.work(job));
        started.map(drop).map_err(|_| NoResult::NoThread)
    }

    /// Does jobs until none is to be waited for.
    fn work(&self, mut job: Job) {
        loop {
            let Job { work, place } = job;
            work();
            drop(place);
            match self.next() {
                Some(next) => job = next,
                None => return,
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        if state.waiting > 0 {
            return None;
        }
        state.waiting += 1;
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread::ThreadId};

    use super::*;

    fn thread_of() -> ThreadId {
        thread::current().id()
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_hangs_is_given_up_and_so_is_what_waits_behind_it_and_all_goes_on_when_it_ends()
     {
        let launchers = Arc::new(Launchers::new());
        let mut gates = Vec::new();
        let mut hanging = Vec::new();
        let (told, wanted) = mpsc::channel();
        for _ in 0..THREADS {
            let (gate, opened) = mpsc::channel::<()>();
            gates.push(gate);
            let (launchers, told) = (Arc::clone(&launchers), told.clone());
            hanging.push(tokio::spawn(async move {
                let work = move |is_wanted: &dyn Fn() -> bool| {
                    opened.recv().ok();
                    told.send(is_wanted()).unwrap();
                };
                launchers.run(work).await
            }));
        }
        tokio::task::yield_now().await;
        assert_eq!(launchers.run(|_| ()).await, Err(NoResult::Busy));
        for hanging in hanging {
            assert_eq!(hanging.await.unwrap(), Err(NoResult::Hangs));
        }
        drop(gates);
        for _ in 0..THREADS {
            assert!(
                !wanted.recv().unwrap(),
                "what it would do is no longer wanted"
            );
        }
        tokio::time::resume();
        assert_eq!(launchers.run(|is_wanted| is_wanted()).await, Ok(true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_behind_others_that_get_through_is_not_refused_however_long_it_waits() {
        // While this blocks, the clock moves as told and not by itself.
        let (_held, blocks) = mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || blocks.recv());
        let launchers = Arc::new(Launchers::new());
        let mut starts: VecDeque<_> = (0..THREADS + 3)
            .map(|_| {
                let (gate, opened) = mpsc::channel::<()>();
                let launchers = Arc::clone(&launchers);
                let work = async move { launchers.run(move |_| opened.recv().is_ok()).await };
                (gate, tokio::spawn(work))
            })
            .collect();
        tokio::task::yield_now().await;
        for _ in 0..3 {
            tokio::time::advance(TURN * 3 / 4).await;
            let (gate, first) = starts.pop_front().expect("there are more");
            drop(gate);
            assert_eq!(first.await.unwrap(), Ok(false));
        }
        for (gate, start) in starts {
            drop(gate);
            assert_eq!(start.await.unwrap(), Ok(false));
        }
    }

    #[tokio::test]
    async fn one_thread_does_what_comes_one_after_the_other() {
        let launchers = Launchers::new();
        let first = launchers.run(|_| thread_of()).await.unwrap();
        for _ in 0..20 {
            while launchers.threads.lock().waiting == 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(launchers.run(|_| thread_of()).await, Ok(first));
        }
    }

    #[tokio::test]
    async fn work_that_panics_costs_no_place() {
        let launchers = Launchers::new();
        for _ in 0..THREADS + 1 {
            let result = launchers.run(|_| panic!("as a test")).await;
            assert_eq!(result, Err::<(), _>(NoResult::Panicked));
        }
        assert_eq!(launchers.run(|_| 7).await, Ok(7));
    }
}
