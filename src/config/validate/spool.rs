//! The rules of `spool`, asked of the file system as it is now; the start-up opens the directory and asks again.

use std::path::Path;

use super::{
    At, DraftSpool, Field, Findings, absolute, choice,
    numbers::{bounded, named},
    optional, quoted, required,
};
use crate::config::{
    Spool, WhenSlow,
    limits::{self, defaults},
    spool_dir,
};

pub(super) fn spool(
    field: Field<DraftSpool>,
    findings: &mut Findings<'_>,
) -> Option<Option<Spool>> {
    optional(field, |at| one_spool(at, findings))
}

fn one_spool(at: At<DraftSpool>, findings: &mut Findings<'_>) -> Option<Spool> {
    let draft = at.value;
    let dir = required(draft.dir, "spool.dir", at.offset, findings).and_then(|dir| {
        absolute(&dir, findings)?;
        if let Err(complaint) = spool_dir::judge(Path::new(&dir.value)) {
            let message = format!("is {}, which {}", quoted(&dir.value), complaint.message);
            findings.error(&dir.path, dir.offset, message, complaint.hint);
            return None;
        }
        Some(dir.value.into())
    });
    // One that is given moves the other's default, so that either may be given alone.
    let given = |field: &Field<u64>| match field {
        Field::Given(at) => Some(at.value),
        _ => None,
    };
    let total_given = given(&draft.bytes_total).unwrap_or(u64::MAX);
    let session_given = given(&draft.bytes_per_session).unwrap_or(0);
    let per_session = bounded(
        draft.bytes_per_session,
        "spool.bytes_per_session",
        limits::SPOOL_BYTES,
        defaults::SPOOL_BYTES_PER_SESSION.min(total_given),
        findings,
    );
    let total = bounded(
        draft.bytes_total,
        "spool.bytes_total",
        limits::SPOOL_BYTES,
        defaults::SPOOL_BYTES_TOTAL.max(session_given),
        findings,
    );
    if let (Some(per_session), Some(total)) = (&per_session, &total)
        && per_session.value > total.value
    {
        findings.warning(
            &per_session.path,
            per_session.offset,
            format!("is {}, above {}", per_session.value, named(total)),
            "one session gets no more than all together; lower it, or raise spool.bytes_total",
        );
    }
    let when_slow = optional(draft.when_slow, |at| match at.value.as_str() {
        "block" => Some(WhenSlow::Block),
        "drop" => Some(WhenSlow::Drop),
        _ => choice(&at, "\"block\" or \"drop\"", findings),
    });
    Some(Spool {
        dir: dir?,
        bytes_per_session: per_session?.value,
        bytes_total: total?.value,
        when_slow: when_slow?.unwrap_or_default(),
    })
}
