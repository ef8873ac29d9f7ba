//! Bounds of the format and of the wire, in one place, and the memory that a config can come to hold.

use std::ops::RangeInclusive;

use super::{Config, Profile};
use crate::screen::Size;

/// Environment variables that a client may pass in one start.
pub const MAX_CLIENT_ENV: usize = 32;
/// Longest `command_id`, in characters.
pub const MAX_COMMAND_ID_CHARS: usize = 128;
/// Longest `grace_ms`.
pub const MAX_GRACE_MS: u64 = 2_000;
/// Longest `wait_ms`: many clients give a call up after 60 s.
pub const MAX_WAIT_MS: u64 = 55_000;
/// Longest `wait_ms` of a read that waits for any output.
pub const MAX_RECORD_WAIT_MS: u64 = 2_000;
/// Bounds of `until.idle_ms`.
pub const IDLE_MS: RangeInclusive<u64> = 50..=MAX_WAIT_MS;
/// Bounds of `output_bytes` of a start.
pub const OUTPUT_BYTES: RangeInclusive<usize> = 256..=MAX_PAGE_BYTES;
/// What `output_bytes` is when it is left out.
pub const DEFAULT_OUTPUT_BYTES: usize = 16_384;
/// Largest page, in UTF-8 bytes of text; also the default.
pub const MAX_PAGE_BYTES: usize = 65_536;
/// Smallest `max_bytes`: one code point always fits.
pub const MIN_PAGE_BYTES: usize = 4;
/// Text of a session that is read as a resource, in bytes.
pub const RESOURCE_BYTES: usize = 4 * MAX_PAGE_BYTES;
/// Records on one page.
pub const MAX_PAGE_RECORDS: usize = 1_024;
/// Bounds of every timeout.
pub const TIMEOUT_MS: RangeInclusive<u64> = 100..=3_600_000;
/// Longest protocol frame, newline included.
pub const MAX_FRAME_BYTES: usize = 1_048_576;
/// Calls that may be in flight at once.
pub const MAX_CALLS_IN_FLIGHT: usize = 512;
/// Calls among them that may wait for a pattern; one more is refused.
pub const MAX_PATTERN_WAITS: usize = 32;
/// Calls among them that find lines at once; others wait for their turn.
pub const MAX_FINDS: usize = 4;
/// Requests that may listen for changes at once. Each may name every session.
pub const MAX_LISTENS: usize = 4;
/// Bounds of `find.context_lines`.
pub const CONTEXT_LINES: RangeInclusive<u64> = 0..=10;
/// Bounds of `find.max_matches`.
pub const MATCHES: RangeInclusive<u64> = 1..=200;
/// What `find.max_matches` is when it is left out.
pub const DEFAULT_MATCHES: u64 = 50;

/// Largest config file, in bytes: some hundred times what 128 profiles need.
pub const MAX_CONFIG_BYTES: usize = 4_194_304;
/// How many commands a config may approve.
pub const COMMANDS: RangeInclusive<usize> = 1..=128;
/// Bounds of `max_sessions`.
pub const MAX_SESSIONS: RangeInclusive<u64> = 1..=64;
/// Bounds of `max_records`.
pub const MAX_RECORDS: RangeInclusive<u64> = 1..=1_024;
/// Bounds of `buffer_bytes`; 4 is the longest code point.
pub const BUFFER_BYTES: RangeInclusive<u64> = 4..=16_777_216;
/// Bounds of `buffer_records`.
pub const BUFFER_RECORDS: RangeInclusive<u64> = 1..=1_048_576;
/// Bounds of `retention_seconds`.
pub const RETENTION_SECONDS: RangeInclusive<u64> = 1..=86_400;
/// Bounds of a profile's `limits.cpu_seconds`.
pub const CPU_SECONDS: RangeInclusive<u64> = 1..=86_400;
/// Bounds of `limits.memory_bytes`, from what a small program can start in.
pub const MEMORY_BYTES: RangeInclusive<u64> = 16_777_216..=1_099_511_627_776;
/// Bounds of `limits.processes`.
pub const PROCESSES: RangeInclusive<u64> = 1..=4_194_304;
/// Bounds of `limits.open_files`, from what a dynamic loader needs beside 0 to 2.
pub const OPEN_FILES: RangeInclusive<u64> = 8..=1_048_576;
/// Bounds of `limits.file_bytes`.
pub const FILE_BYTES: RangeInclusive<u64> = 0..=1_099_511_627_776;
/// Bounds of `nice`: a server without privileges can't raise a priority.
pub const NICE: RangeInclusive<u64> = 0..=19;
/// Bounds of `tty.rows` and `tty.cols`, and of a new size.
pub const TTY_SIDE: RangeInclusive<u64> = 1..=Size::MAX_SIDE as u64;
/// Bounds of the budgets of `spool`.
pub const SPOOL_BYTES: RangeInclusive<u64> = 1_048_576..=1_099_511_627_776;
/// Bounds of `max_input_bytes`.
pub const MAX_INPUT_BYTES: RangeInclusive<u64> = 1..=1_048_576;
/// Bounds of `session.cleanup_interval`.
pub const CLEANUP_INTERVAL_SECONDS: RangeInclusive<u64> = 1..=86_400;
/// Bounds of `session.idle_timeout`, and of the argument of that name.
pub const IDLE_TIMEOUT_SECONDS: RangeInclusive<u64> = 1..=31_536_000;
/// Bounds of each wait of a session tool, in seconds.
pub const WAIT_SECONDS: RangeInclusive<f64> = 0.0..=3_600.0;
/// Bounds of `session.max_output_bytes`.
pub const MAX_OUTPUT_BYTES: RangeInclusive<u64> = 1..=16_777_216;
/// Most of `scrollback_lines`.
pub const MAX_SCROLLBACK_LINES: u64 = 10_000;
/// Longest `label`, in characters.
pub const MAX_LABEL_CHARS: usize = 256;
/// How many `session.dangerous_patterns` there may be.
pub const MAX_DANGEROUS_PATTERNS: usize = 256;
/// Longest of them, in bytes.
pub const MAX_DANGEROUS_PATTERN_BYTES: usize = 4_096;
/// Most that `max_records * buffer_records` may come to.
pub const MAX_ALL_BUFFER_RECORDS: u64 = 2_097_152;
/// Most that `max_records * buffer_bytes` may come to.
pub const MAX_ALL_BUFFER_BYTES: u64 = 67_108_864;

const _: () = assert!(defaults::MAX_SESSIONS <= defaults::MAX_RECORDS);
const _: () = assert!(defaults::DEFAULT_TIMEOUT_MS <= defaults::MAX_TIMEOUT_MS);
const _: () = assert!(defaults::MAX_RECORDS * defaults::BUFFER_RECORDS <= MAX_ALL_BUFFER_RECORDS);
const _: () = assert!(defaults::MAX_RECORDS * defaults::BUFFER_BYTES <= MAX_ALL_BUFFER_BYTES);

/// What a field that the file leaves out is.
pub mod defaults {
    use crate::screen::Size;

    /// Of `max_sessions`.
    pub const MAX_SESSIONS: u64 = 8;
    /// Of `max_records`.
    pub const MAX_RECORDS: u64 = 32;
    /// Of `buffer_bytes`.
    pub const BUFFER_BYTES: u64 = 1_048_576;
    /// Of `buffer_records`.
    pub const BUFFER_RECORDS: u64 = 65_536;
    /// Of `default_timeout_ms`.
    pub const DEFAULT_TIMEOUT_MS: u64 = 30_000;
    /// Of `max_timeout_ms`.
    pub const MAX_TIMEOUT_MS: u64 = 300_000;
    /// Of `retention_seconds`.
    pub const RETENTION_SECONDS: u64 = 300;
    /// Of `max_input_bytes`.
    pub const MAX_INPUT_BYTES: u64 = 65_536;
    /// Of `tty.rows`.
    pub const TTY_ROWS: u64 = Size::USUAL.rows as u64;
    /// Of `tty.cols`.
    pub const TTY_COLS: u64 = Size::USUAL.cols as u64;
    /// Of `spool.bytes_per_session`.
    pub const SPOOL_BYTES_PER_SESSION: u64 = 1_073_741_824;
    /// Of `spool.bytes_total`.
    pub const SPOOL_BYTES_TOTAL: u64 = 8_589_934_592;
    /// Of `session.cleanup_interval`.
    pub const CLEANUP_INTERVAL_SECONDS: u64 = 60;
    /// Of `session.max_sessions`.
    pub const TERMINALS: u64 = 10;
    /// Of `session.idle_timeout`.
    pub const IDLE_TIMEOUT_SECONDS: u64 = 1_800;
    /// Of `session.read_settle_timeout`.
    pub const SETTLE_SECONDS: f64 = 2.0;
    /// Of `session.max_output_bytes`.
    pub const MAX_OUTPUT_BYTES: u64 = 100_000;
    /// Of `session.max_buffer_bytes`.
    pub const TERMINAL_BUFFER_BYTES: u64 = 1_000_000;
}

/// Reads in flight for a session whose pipes are open: one on each.
pub const READS_PER_SESSION: usize = 2;
/// Replies that may wait for the client before no more requests are taken, in bytes.
pub const MAX_PENDING_BYTES: usize = 8 << 20;
/// Lines of the audit log that may wait for its disk, in bytes: some thousands.
pub const MAX_AUDIT_BYTES: usize = 1 << 20;
/// Threads that wait for the spool's disk: one read may hang while others go on.
pub const DISK_THREADS: usize = 4;
/// What one session's spool knows of its files, in bytes, however large they are.
pub const SPOOL_CATALOGUE_BYTES: usize = 40 * 1_024;
/// Blocks that are written at once: fewer cost more calls, more take longer to become readable again.
pub const SPOOL_WRITE_BLOCKS: usize = 4;
/// Blocks that one read of spooled text brings in at most: a page's text, and a page's more for what is found before it.
pub const SPOOL_READ_BLOCKS: usize = 8;
/// One run of a page beside its text: cursor, stream, end.
const RUN_BYTES: usize = 24;
/// Longest spelling of one byte of text in a reply: `\u0000` in the structured body, `\\u0000` in the text block.
const REPLY_BYTES_PER_TEXT_BYTE: usize = 6 + 7;
/// Longest spelling of one byte of plain text, `\n`: other control characters than tabs and line feeds are left out of it.
const REPLY_BYTES_PER_PLAIN_BYTE: usize = 2;
/// One code point's record beside its text, in both places of a reply.
const REPLY_BYTES_PER_RECORD: usize = 2 * 64;
/// One session of a list beside its names, in both places of a reply.
const REPLY_BYTES_PER_SESSION: usize = 2 * 1_024;
/// One session that a client is told of: its URI, a task, a notification on its way.
const SUBSCRIPTION_BYTES: usize = 4 * 1_024;
/// One cell of a screen, resident.
const CELL_BYTES: usize = 24;
/// A screen of the largest size, and the alternate one beside it.
const SCREEN_BYTES: usize = {
    let side = *TTY_SIDE.end() as usize;
    2 * side * side * CELL_BYTES
};
/// The longest scrollback of the widest screen, of characters of four bytes, in a buffer that may have room for twice as much.
const SCROLLBACK_BYTES: usize = 2 * MAX_SCROLLBACK_LINES as usize * *TTY_SIDE.end() as usize * 4;
/// Program, allocator, thread stacks and both runtimes, resident.
const FIXED_BYTES: usize = 16 * 1_048_576;

/// The most memory that the server can come to hold, as a sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What holds it, and how many bytes.
    pub items: [(&'static str, usize); 12],
    /// The sum of the items.
    pub total: usize,
}

/// What single things hold at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    /// Blocks of one session's text.
    pub blocks_per_record: usize,
    /// Further blocks of one session's text that is on its way to the spool.
    pub leaving_blocks: usize,
    /// Bytes of a block, and so of a read.
    pub block_bytes: usize,
    /// Bytes of a search.
    pub search_bytes: usize,
}

/// The worst case under `config`: every record full, every session reading, every permitted call a write or a read.
///
/// What one session's text, one read and one search hold at most, the layers above know.
pub fn plan(config: &Config, holds: Holds) -> Plan {
    let Holds {
        blocks_per_record,
        leaving_blocks: leaving,
        block_bytes,
        search_bytes,
    } = holds;
    let page_bytes = MAX_PAGE_BYTES + MAX_PAGE_RECORDS * RUN_BYTES;
    let page_reply =
        MAX_PAGE_BYTES * REPLY_BYTES_PER_TEXT_BYTE + MAX_PAGE_RECORDS * REPLY_BYTES_PER_RECORD;
    let named =
        |profile: &Profile| profile.id.len() + profile.description.as_ref().map_or(0, String::len);
    let longest_names = config.commands.iter().map(named).max().unwrap_or_default();
    let list_reply =
        config.max_records * (REPLY_BYTES_PER_SESSION + longest_names * REPLY_BYTES_PER_TEXT_BYTE);
    // The text itself is held beside its copy in the reply.
    let resource_reply = RESOURCE_BYTES * (1 + REPLY_BYTES_PER_PLAIN_BYTE);
    let reply_bytes = page_reply.max(list_reply).max(resource_reply);
    let spooling = config.spool.as_ref().map_or(0, |_| {
        let blocks = (leaving + SPOOL_WRITE_BLOCKS) * block_bytes;
        config.max_records * (blocks + SPOOL_CATALOGUE_BYTES)
            + MAX_CALLS_IN_FLIGHT * SPOOL_READ_BLOCKS * block_bytes
    });
    let on_terminal = |profile: &Profile| profile.tty.is_some();
    let screen = if config.toolsets.session {
        SCREEN_BYTES + SCROLLBACK_BYTES
    } else if config.commands.iter().any(on_terminal) {
        SCREEN_BYTES
    } else {
        0
    };
    let items = [
        (
            "retained text",
            config.max_records * blocks_per_record * block_bytes,
        ),
        (
            "reads in flight",
            // Sessions that are final may still drain for a second, beside those that run.
            config.max_records * READS_PER_SESSION * block_bytes,
        ),
        (
            "input in flight",
            MAX_CALLS_IN_FLIGHT * config.max_input_bytes.min(MAX_FRAME_BYTES),
        ),
        ("pages in flight", MAX_CALLS_IN_FLIGHT * page_bytes),
        ("searches", (MAX_PATTERN_WAITS + MAX_FINDS) * search_bytes),
        (
            "replies unread by the client",
            MAX_PENDING_BYTES + MAX_CALLS_IN_FLIGHT * reply_bytes,
        ),
        ("protocol frame", MAX_FRAME_BYTES),
        (
            "audit lines unwritten",
            config.audit_log.as_ref().map_or(0, |_| MAX_AUDIT_BYTES),
        ),
        ("text on its way to and from the spool", spooling),
        (
            "subscriptions",
            // Those of one kind, and a listening request's.
            config.max_records * (1 + MAX_LISTENS) * SUBSCRIPTION_BYTES,
        ),
        ("screens of terminals", config.max_records * screen),
        ("program and runtimes", FIXED_BYTES),
    ];
    Plan {
        total: items.iter().map(|(_, bytes)| bytes).sum(),
        items,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_the_sum_of_what_the_config_permits() {
        let mut config = Config::with_defaults(vec!["/".into()], "/".into(), Vec::new());
        config.max_sessions = 3;
        config.max_records = 5;
        config.max_input_bytes = 7;
        let holds = Holds {
            blocks_per_record: 11,
            leaving_blocks: 13,
            block_bytes: 1_000,
            search_bytes: 17,
        };
        let plan = plan(&config, holds);
        assert_eq!(plan.items[0], ("retained text", 55_000));
        assert_eq!(plan.items[1], ("reads in flight", 10_000));
        assert_eq!(plan.items[2], ("input in flight", 512 * 7));
        assert_eq!(plan.items[4], ("searches", (32 + 4) * 17));
        assert_eq!(plan.items[8].1, 0, "without a spool");
        assert_eq!(plan.items[9], ("subscriptions", 5 * (1 + 4) * 4_096));
        assert_eq!(plan.items[10].1, 0, "without terminals");
        let sum: usize = plan.items.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(plan.total, sum);
    }

    #[test]
    fn screens_count_where_there_may_be_terminals() {
        let holds = Holds {
            blocks_per_record: 0,
            leaving_blocks: 0,
            block_bytes: 0,
            search_bytes: 0,
        };
        let mut profile = Profile::new("shell", vec!["/bin/sh".to_owned()]);
        profile.tty = Some(Size { rows: 1, cols: 1 });
        let mut config = Config::with_defaults(vec!["/".into()], "/".into(), vec![profile]);
        config.max_records = 3;
        // Whatever its size is now, it may be given the largest one.
        let screens = ("screens of terminals", 3 * 2 * 500 * 500 * 24);
        assert_eq!(plan(&config, holds).items[10], screens);
        config.toolsets.session = true;
        let scrollback = 3 * 2 * 10_000 * 500 * 4;
        assert_eq!(plan(&config, holds).items[10].1, screens.1 + scrollback);
    }

    #[test]
    fn the_defaults_keep_their_own_bounds() {
        assert!(MAX_SESSIONS.contains(&defaults::MAX_SESSIONS));
        assert!(MAX_RECORDS.contains(&defaults::MAX_RECORDS));
        assert!(BUFFER_BYTES.contains(&defaults::BUFFER_BYTES));
        assert!(BUFFER_RECORDS.contains(&defaults::BUFFER_RECORDS));
        assert!(RETENTION_SECONDS.contains(&defaults::RETENTION_SECONDS));
        assert!(MAX_INPUT_BYTES.contains(&defaults::MAX_INPUT_BYTES));
        assert!(TIMEOUT_MS.contains(&defaults::DEFAULT_TIMEOUT_MS));
        assert!(TIMEOUT_MS.contains(&defaults::MAX_TIMEOUT_MS));
    }
}
