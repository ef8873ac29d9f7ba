//! The rules of a profile's terminal.

use super::{
    At, DraftTty, Field, Findings, StdinKind,
    limits::{self, defaults},
    numbers::within,
    optional,
};
use crate::screen::Size;

/// The terminal's size, if there is to be one.
pub(super) fn tty(
    field: Field<DraftTty>,
    stdin: Option<StdinKind>,
    findings: &mut Findings<'_>,
) -> Option<Option<Size>> {
    optional(field, |at| {
        if stdin == Some(StdinKind::Null) {
            findings.error(
                &at.path,
                at.offset,
                "stands beside \"stdin\": \"null\"",
                "leave one of them out: what a terminal's program reads is the terminal",
            );
            return None;
        }
        let rows = side(at.value.rows, defaults::TTY_ROWS, findings);
        let cols = side(at.value.cols, defaults::TTY_COLS, findings);
        Some(Size {
            rows: rows?,
            cols: cols?,
        })
    })
}

fn side(field: Field<u64>, default: u64, findings: &mut Findings<'_>) -> Option<u16> {
    let side = optional(field, |at: At<u64>| {
        within(at, &limits::TTY_SIDE, findings).map(|at| at.value)
    })?;
    u16::try_from(side.unwrap_or(default)).ok()
}
