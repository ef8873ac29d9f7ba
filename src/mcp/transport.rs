//! rmcp's transport over the protocol's descriptors.
//!
//! What rmcp leaves open, and what therefore must hold here:
//! - Back-pressure. rmcp accepts requests as fast as they come and queues replies without end. Nothing is received while more
//!   than [`MAX_PENDING_BYTES`] of replies wait for the client, and every [`MESSAGES_PER_TURN`] messages the handlers get a turn.
//! - Closing. `close` never waits for a client that doesn't read: the `closing` token ends every write.
//! - A client that is gone. A failed write ends the service, which would otherwise work on for nobody.
//! - The end of input. The `eof` token tells handlers to cut their waits short while they can still be answered.
//! - Lines that are no message, or too long. [`wire`] decides; none of them ends the server.
//!
//! Replies are encoded as they come and leave in as few writes as the client's reading allows, out of two buffers that swap
//! and are reused.

use std::{
    convert::Infallible,
    io, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
        ServerNotification,
    },
    transport::Transport,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{Results, limits::MAX_PENDING_BYTES},
    mcp::{
        frame::Frames,
        stdio::{Input, Output, Protocol},
        wire::{self, Incoming},
    },
};

/// Messages received in a row before handlers get a turn.
const MESSAGES_PER_TURN: u32 = 32;
/// How often the end of input is looked for while nothing is received.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);
/// How long replies wait at the end of a connection for a client that takes none of them.
const PATIENCE: Duration = Duration::from_millis(700);
/// No notification is sent while more bytes than this wait for the client.
const BEHIND_BYTES: usize = 64 << 10;
/// Capacity that an idle output buffer keeps: a full page in both copies, and then some.
const IDLE_BYTES: usize = 512 << 10;

/// How the transport and the service tell each other how a connection ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    /// Input ended. What was received is still answered, soon.
    pub(super) eof: CancellationToken,
    /// The client can't be written to any more.
    pub(super) gone: CancellationToken,
    /// Nothing more is to be written.
    pub(super) closing: CancellationToken,
    /// The service's own token, which makes rmcp stop.
    pub(super) service: CancellationToken,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Stdio {
    input: Input,
    frames: Frames,
    /// Messages received since handlers last had a turn.
    in_a_row: u32,
    input_ended: bool,
    outbox: Arc<Outbox>,
    ends: Ends,
}

impl Stdio {
    /// Must be called inside a runtime.
    ///
    /// # Errors
    ///
    /// When a descriptor needs a thread and none can be had.
    pub(super) fn new(protocol: Protocol, layout: Results, ends: Ends) -> io::Result<Self> {
        Ok(Self {
            input: Input::new(protocol.input)?,
            frames: Frames::default(),
            in_a_row: 0,
            input_ended: false,
            outbox: Arc::new(Outbox {
                layout,
                queue: Mutex::default(),
                writer: tokio::sync::Mutex::new(Writer {
                    output: Output::new(protocol.output)?,
                    buffer: Vec::new(),
                    written: 0,
                }),
                drained: Notify::new(),
                ends: ends.clone(),
            }),
            ends,
        })
    }

    /// Resolves once replies have waited for [`PATIENCE`] and the client has taken none.
    pub(super) fn stalled(&self) -> impl Future<Output = ()> + use<> {
        let outbox = Arc::clone(&self.outbox);
        async move { outbox.stalled().await }
    }

    /// See [`Notices`].
    pub(super) fn notices(&self) -> Notices {
        Notices {
            outbox: Arc::clone(&self.outbox),
        }
    }

    /// Answers a frame that rmcp never sees.
    fn refuse(&self, id: RequestId, error: ErrorData) {
        tracing::debug!(%id, error = %error.message, "refused a frame");
        self.outbox.put_and_flush(&wire::error(id, error));
    }

    /// Waits until replies may be queued again. Meanwhile nothing is read, so the end of input is looked for: a client that
    /// closed it and doesn't read either must not hold the server.
    async fn room(&self) {
        if !self.outbox.is_full() {
            return;
        }
        let watch = async {
            loop {
                tokio::time::sleep(WATCH_INTERVAL).await;
                if self.input.hung_up() {
                    self.ends.eof.cancel();
                }
            }
        };
        tokio::select! {
            () = self.outbox.room() => {}
            () = watch => {}
        }
    }

    async fn receive_one(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            self.room().await;
            if self.in_a_row >= MESSAGES_PER_TURN {
                // Before the await: when this future is dropped there, the next one is not to yield again.
                self.in_a_row = 0;
                tokio::task::yield_now().await;
            }
            self.in_a_row += 1;
            if let Some(frame) = self.frames.next_frame() {
                match wire::read(frame) {
                    Incoming::Message(message) => return Some(*message),
                    Incoming::Refused(id, error) => self.refuse(id, error),
                    Incoming::Ignored => tracing::debug!("ignored a frame"),
                }
                continue;
            }
            if self.input_ended {
                return None;
            }
            let count = self
                .input
                .read(self.frames.room())
                .await
                .unwrap_or_else(|error| {
                    // A terminal that hung up, a peer that reset its socket: the end, by another name.
                    tracing::debug!(%error, "the protocol's input ended in an error");
                    0
                });
            self.frames.filled(count);
            if count == 0 {
                self.frames.end();
                self.input_ended = true;
            }
        }
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = Infallible;

    /// Encodes at once, so that replies leave in the order of these calls. The future resolves when the client's side of the
    /// descriptor has taken the reply, or can't any more.
    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        self.outbox.put(&message);
        let outbox = Arc::clone(&self.outbox);
        async move {
            outbox.flush().await;
            Ok(())
        }
    }

    /// # Cancel safety
    ///
    /// rmcp drops this future whenever something else happens first. No byte and no message is lost.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.receive_one().await;
        if message.is_none() {
            self.ends.eof.cancel();
        }
        message
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.outbox.flush().await;
        self.ends.closing.cancel();
        Ok(())
    }
}

/// The way of notifications, past rmcp: it would queue any number of them for a client that doesn't read, and could let an answer
/// overtake one that was sent before it.
#[derive(Clone, Debug)]
pub(super) struct Notices {
    outbox: Arc<Outbox>,
}

impl Notices {
    /// Sends it, unless the client is behind with reading. Returns whether it was sent. Must be called inside a runtime.
    pub(super) fn send(&self, notification: ServerNotification) -> bool {
        let is_behind = self.outbox.queue().pending > BEHIND_BYTES;
        if !is_behind {
            self.outbox
                .put_and_flush(&JsonRpcMessage::notification(notification));
        }
        !is_behind
    }
}

/// Replies on their way out.
#[derive(Debug)]
struct Outbox {
    layout: Results,
    queue: Mutex<Queue>,
    writer: tokio::sync::Mutex<Writer>,
    /// Told when `pending` fell to the limit.
    drained: Notify,
    ends: Ends,
}

#[derive(Debug, Default)]
struct Queue {
    /// Encoded, and not yet the writer's.
    encoded: Vec<u8>,
    /// Bytes in `encoded` and in the writer's buffer that the client hasn't taken.
    pending: usize,
    /// Bytes that it has, all in all.
    taken: u64,
}

#[derive(Debug)]
struct Writer {
    output: Output,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are written.
    written: usize,
}

impl Outbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encodes a reply, to be written by the next [`Self::flush`].
    fn put(&self, message: &ServerJsonRpcMessage) {
        if self.ends.closing.is_cancelled() || self.ends.gone.is_cancelled() {
            return;
        }
        let mut queue = self.queue();
        let before = queue.encoded.len();
        wire::write(message, self.layout, &mut queue.encoded);
        queue.pending += queue.encoded.len() - before;
    }

    /// As [`Self::put`], and sees to the writing. In a task, since whoever calls may be dropped at any await, and nobody else
    /// need come by to write.
    fn put_and_flush(self: &Arc<Self>, message: &ServerJsonRpcMessage) {
        self.put(message);
        let outbox = Arc::clone(self);
        tokio::spawn(async move { outbox.flush().await });
    }

    /// Whether more waits than may. Once the connection has ended nothing waits.
    fn is_full(&self) -> bool {
        let ended = self.ends.closing.is_cancelled() || self.ends.gone.is_cancelled();
        self.queue().pending > MAX_PENDING_BYTES && !ended
    }

    async fn stalled(&self) {
        let mut taken = self.queue().taken;
        let mut since = Instant::now();
        while since.elapsed() < PATIENCE {
            tokio::time::sleep(WATCH_INTERVAL).await;
            let queue = self.queue();
            if queue.pending == 0 || queue.taken != taken {
                taken = queue.taken;
                since = Instant::now();
            }
        }
    }

    /// Waits until there is room for more replies, or there is no use for it.
    ///
    /// # Cancel safety
    ///
    /// Can be called again.
    async fn room(&self) {
        while self.is_full() {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            // In line before the second look, or the word could come between look and wait.
            drained.as_mut().enable();
            if !self.is_full() {
                return;
            }
            tokio::select! {
                () = drained => {}
                () = self.ends.closing.cancelled() => {}
                () = self.ends.gone.cancelled() => {}
            }
        }
    }

    /// Writes all that is encoded; whoever comes later finds that it is done. Ends early when the connection does.
    ///
    /// # Cancel safety
    ///
    /// What wasn't written stays for the next call.
    async fn flush(&self) {
        let writer = tokio::select! {
            biased;
            writer = self.writer.lock() => writer,
            () = self.ends.closing.cancelled() => return,
        };
        tokio::select! {
            biased;
            result = self.write_all(writer) => if let Err(error) = result {
                tracing::debug!(%error, "the client no longer takes replies");
                self.ends.gone.cancel();
                self.ends.service.cancel();
            },
            () = self.ends.closing.cancelled() => {}
            () = self.ends.gone.cancelled() => {}
        }
    }

    async fn write_all(&self, mut writer: tokio::sync::MutexGuard<'_, Writer>) -> io::Result<()> {
        let Writer {
            output,
            buffer,
            written,
        } = &mut *writer;
        loop {
            if *written == buffer.len() {
                buffer.clear();
                *written = 0;
                if buffer.capacity() > IDLE_BYTES {
                    *buffer = Vec::new();
                }
                mem::swap(buffer, &mut self.queue().encoded);
                if buffer.is_empty() {
                    output.flush().await;
                    return Ok(());
                }
            }
            let count = output.write(&buffer[*written..]).await?;
            // No await between the write and its record.
            *written += count;
            let mut queue = self.queue();
            queue.taken += count as u64;
            let before = mem::replace(&mut queue.pending, 0);
            queue.pending = before
                .checked_sub(count)
                .expect("only bytes that were counted are written");
            if before > MAX_PENDING_BYTES && queue.pending <= MAX_PENDING_BYTES {
                self.drained.notify_waiters();
            }
        }
    }
}
