//! Bounds of the format and of the wire, in one place.

/// Environment variables that a client may pass in one start.
pub const MAX_CLIENT_ENV: usize = 32;
/// Longest `command_id`, in characters.
pub const MAX_COMMAND_ID_CHARS: usize = 128;
/// Longest `grace_ms` and `wait_ms`.
pub const MAX_WAIT_MS: u64 = 2_000;
/// Largest page, in UTF-8 bytes of text; also the default.
pub const MAX_PAGE_BYTES: usize = 65_536;
/// Smallest `max_bytes`: one code point always fits.
pub const MIN_PAGE_BYTES: usize = 4;
/// Records on one page.
pub const MAX_PAGE_RECORDS: usize = 1_024;
/// Bounds of every timeout.
pub const TIMEOUT_MS: std::ops::RangeInclusive<u64> = 100..=3_600_000;
/// Longest protocol frame, newline included.
pub const MAX_FRAME_BYTES: usize = 1_048_576;
/// Calls that may be in flight at once.
pub const MAX_CALLS_IN_FLIGHT: usize = 512;
