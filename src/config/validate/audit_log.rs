//! The rule of `audit_log`, asked of the file system as it is now; the start-up opens it and asks again.

use std::path::{Path, PathBuf};

use super::{At, Findings, absolute, log_file, quoted};

/// A file that may take the log, or can be made.
pub(super) fn audit_log(at: &At<String>, findings: &mut Findings<'_>) -> Option<PathBuf> {
    absolute(at, findings)?;
    let path = Path::new(&at.value);
    let shown = quoted(&at.value);
    match log_file::judge(path) {
        Err(complaint) => {
            let message = format!("is {shown}, which {}", complaint.message);
            findings.error(&at.path, at.offset, message, complaint.hint);
            return None;
        }
        Ok(Some(there)) => {
            if let Some(complaint) = log_file::warning(&there) {
                let message = format!("is {shown}, which {}", complaint.message);
                findings.warning(&at.path, at.offset, message, complaint.hint);
            }
        }
        Ok(None) => {}
    }
    Some(path.to_owned())
}
