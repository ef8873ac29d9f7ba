//! sluicegate: an MCP process host for Linux. This page is the map.
//!
//! A server that a coding agent launches over stdio. It starts the commands that the machine's Owner approved in a JSON file,
//! or any where the Owner says so, on pipes or on terminals, follows their output, takes input for them, and ends them, whole
//! process groups at a time. Text is read without consuming it, by an absolute cursor counted in code points, from an arena
//! with a byte and a record budget for each session.
//!
//! # Layers
//!
//! Lower ones never import higher ones; `tests/layers.rs` holds it.
//!
//! ```text
//! cli          stdio · config · connect · verify · doctor · demo · generated · client · answer · place · draft · screen · served · file_pages · log
//!                                                          the command line
//! mcp          stdio · blocking · frame · id_scan · json_string · wire · transport · args · schema · failure · reply · tools · resources · subscriptions · progress · unserved · session · server
//!                                                          the wire
//! interactive  requests · failures · registry · creating · closing · sending · gate · reading · stream · settle · prompt · truncate · waiting · echo · executing · script
//!                                                          the session tools
//! supervisor   handle · launchers · follow · reach · search · table · engine · refusal · trail    all sessions
//! session      lifecycle · driver · pump · pace · input · tty · spooler · io_thread · state · snapshot    one session
//! policy  process  audit  demo  view  spool                what may run · one child · what was done · the demo profiles · readings of a log · its files
//! text  arena  config  io  screen                          characters · kept text · the Owner's word · pipes · an emulated terminal
//! contain      enter · filter · offered · ruleset          what the kernel can keep a command from
//! ```
//!
//! `text` holds what knows one stream only: `utf8` (decoding), `pattern` and `matcher` (the first match, as text comes),
//! `spliced` (a line that came in pieces, with its cursors), `across` (whether a pattern matches text as a whole),
//! `sequence` (what of a text is for a terminal), `strip` (text without that), `fold` (what a terminal would show of a line).
//! `view` applies it to pieces of a log, where two streams are interleaved: `watch` (waiting for a pattern), `find` (lines that match), `plain`
//! (pages of lines), `last_line`, `excerpt` (head, tail, and the gap counted).
//!
//! A test plays a kernel and a child from scripts: `io/scripted.rs` and `process/scripted.rs` take their places, and
//! `session/simulation` holds whole sessions against a naive model. `tests/fuzz` is a package of its own.
//!
//! `text`, `arena` and `screen` know nothing of each other; `io` knows the arena's blocks, since it fills them, and `config`
//! takes a terminal's size from `screen` and asks `contain` whether the kernel has what a sandbox needs.
//! `tokio_uring` is named in `io/uring.rs` and `io/runtime.rs`, `io_uring` in `io/uring.rs` and `io/probe.rs`, the MCP
//! SDK in `mcp/` and in the commands that play a client, `landlock` in `contain/ruleset.rs`, `alacritty_terminal` in `screen/`.
//!
//! # Threads
//!
//! - The **request thread** (main) runs the MCP service. It looks at sessions under short locks and leaves requests.
//! - The **I/O thread** (`supervisor/engine.rs`) owns every pipe, terminal, pidfd and timer. Each session has up to five tasks
//!   there: two pumps (one on a terminal), an input writer, a driver and, with a spool, a spooler. A terminal's size and mode are
//!   asked for on the request thread.
//! - A start runs in a thread of its own (`supervisor/launchers.rs`): resolving a directory and executing a file can hang
//!   on a dead network mount. Its caller is told after a while, and while as many hang as may, further ones are refused.
//! - Two **search threads** (`supervisor/search.rs`) compile and match patterns, some milliseconds of one search after some of
//!   another, on copies of pieces of the log. A slow pattern holds up searches, and nothing else.
//! - The **disk threads**, when the Owner keeps a spool, open, read and remove its files (and write them, on epoll): a disk that
//!   hangs holds up whoever asks for text on it and nobody else.
//! - The **audit thread** appends to the Owner's log, when one is kept. Whoever has something to tell leaves a line in a
//!   bounded queue; a disk that hangs holds up this thread only.
//!
//! Two threads with one mutex around a session's log give a page in a third of the time that one thread takes under a
//! flood, and the drain is no slower for it.
//!
//! # Processes
//!
//! The server starts no child itself. Before it has a second thread it forks the **nursery**, which forks **keepers**. Each
//! session that runs has one of its own: the parent of the session's leader and, as a child subreaper, of every descendant
//! that is orphaned. When the session's output has settled, or the keeper's control socket ends because the server is gone,
//! whatever it died of, the keeper kills and reaps what is left. One to whom the kernel then says that it has no child
//! serves a later session; any other exits. `process/mod.rs` tells it in order.
//!
//! # The way of a byte of stdout
//!
//! The kernel fills a `Block`, with several reads while a busy writer goes on (`io`) → `session::pump` → `text::utf8` finds
//! the valid run and keeps up to three bytes of an unfinished character → `arena::record_log` adopts a well-filled block
//! as an extent, or copies a small read into its tail block → evicts → wakes whoever waits. Nothing on this way allocates
//! once the log is warm.
//!
//! With a spool, what is evicted is packed into blocks beside the log (`arena::leaving`) → `session::spooler` copies full ones and has
//! the ring write them → they leave memory and enter the spool's catalogue under one lock. While too many wait, the pump
//! doesn't read.
//!
//! On a terminal there is one pump. What it decodes goes through the session's screen (`screen`) as well, on the way to the log,
//! and what a terminal answers to queries goes the way of a write. Its end comes as EIO, which `io` knows for one.
//!
//! # The way of a `terminal_read`
//!
//! `mcp::frame` → `mcp::tools` → `supervisor::handle` finds the session → `supervisor::reach`: `RecordLog::page` under the lock,
//! one copy, behind slots that a disk thread has read when the text is older → `mcp::reply` serialises it once → `mcp::transport` writes it. The pipe's pending read is never touched.
//!
//! # Invariants
//!
//! - **I1** A session's retained text is within its byte and record budgets after every append, and what was evicted
//!   is exactly the oldest code points, as many as needed. With a spool, what was evicted stays readable, in at most a constant
//!   number of blocks more and then in files.
//! - **I2** A `Block` has one owner: a pump, the kernel during a read, an extent, or the slab's free list.
//! - **I3** The slab never runs out: its size is the sum over all sessions of the most blocks that each can hold.
//! - **I4** Every extent holds valid UTF-8 and whole code points only.
//! - **I5** At most one read is in flight on a pipe, and its future is driven to its end. A dropped io_uring read goes
//!   on in the kernel and swallows what comes next.
//! - **I6** While a `Leader` value exists and its keeper lives, the leader isn't reaped, so its pid, which is also its
//!   group's id, can't be another's. Group signals go through its pidfd; by number, on kernels before 6.9, only while the
//!   keeper is there.
//! - **I7** A group is swept with KILL before its leader is reaped, and a session's descendants are killed once its
//!   output has settled, unless its profile lets them stay and it ended by itself.
//! - **I8** Session ids are unique and unguessable.
//! - **I9** A final status and a settled output never change.
//! - **I10** No blocking lock is held over an await or a system call that can wait. The one lock that is, the protocol's
//!   writer, is asynchronous and given up when the connection closes.
//! - **I11** Recording for the audit log waits for no disk, and each line that it lacks is counted in it.
//!
//! # Where unsafe lives
//!
//! `arena/slab.rs` (one mapping, carved into blocks), `cli/file_pages.rs` (the mappings of the program and its libraries), `contain/enter.rs` (Landlock and seccomp calls), `io/uring.rs` (operations that borrow memory until they complete),
//! `io/epoll.rs` (registration, timerfd, an epoll instance), `io/probe.rs` (a ring to try), `mcp/stdio.rs` (borrowed descriptors 0 to 2),
//! `process/prepare.rs` (signal state, descriptors), `process/forked.rs` (fork, and what a copy keeps),
//! `process/nursery.rs` (its copy's descriptors), `process/inherited.rs` (limits, processors), `process/exec.rs` (clone to
//! exec), `process/hold.rs` (ptrace), `process/probe.rs` (a pidfd to try), `process/request.rs` (lists that exec takes), `process/wire.rs` (descriptors in
//! messages), `process/wait.rs` (`wait4`), `process/terminal.rs` (the other end of a terminal, its size), `process/leader.rs` (signals by pidfd), `process/descriptors.rs` (a duplicated
//! descriptor) and `process/group.rs` (`getdents64`). Everything else is refused by the compiler.

pub mod arena;
pub mod audit;
pub mod cli;
pub mod config;
pub mod contain;
pub mod demo;
pub mod interactive;
pub mod io;
pub mod mcp;
pub mod policy;
pub mod process;
pub mod screen;
pub mod session;
pub mod spool;
pub mod supervisor;
pub mod text;
pub mod view;
