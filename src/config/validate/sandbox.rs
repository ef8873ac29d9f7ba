//! Rules of a profile's sandbox: its paths, and what the kernel must have for it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    At, DraftSandbox, Field, Findings, Sandbox, Strings, directories::existing, optional, quoted,
};
use crate::contain::{Lack, offered};

/// `program` is the profile's executable, when it is a path.
pub(super) fn sandbox(
    field: Field<DraftSandbox>,
    program: Option<&At<String>>,
    findings: &mut Findings<'_>,
) -> Option<Option<Sandbox>> {
    optional(field, |at| one_sandbox(at, program, findings))
}

fn one_sandbox(
    at: At<DraftSandbox>,
    program: Option<&At<String>>,
    findings: &mut Findings<'_>,
) -> Option<Sandbox> {
    let At {
        value: draft,
        path,
        offset,
    } = at;
    let files_can_be_had = match offered().files {
        Err(lack) => lacking(&path, offset, "", lack, findings),
        Ok(()) => Some(()),
    };
    if files_can_be_had.is_some() && !offered().scopes() {
        findings.warning(
            &path,
            offset,
            "can't keep the command from signalling your other processes: the kernel's Landlock is older than ABI 6",
            "use Linux 6.12 or later if that matters",
        );
    }
    let read = paths(draft.read, findings);
    let write = paths(draft.write, findings);
    let network = optional(draft.network, |at| match offered().sockets {
        Err(lack) if !at.value => lacking(&at.path, at.offset, "is false, which ", lack, findings),
        _ => Some(at.value),
    });
    files_can_be_had?;
    let sandbox = Sandbox {
        read: read?,
        write: write?,
        network: network?.unwrap_or(true),
    };
    if let Some(program) = program {
        executable_inside(&sandbox, program, findings)?;
    }
    config_outside(&sandbox, &path, offset, findings);
    Some(sandbox)
}

/// Never a weaker sandbox instead: the Owner who relies on it would not know.
fn lacking<T>(
    path: &str,
    offset: Option<usize>,
    given: &str,
    lack: Lack,
    findings: &mut Findings<'_>,
) -> Option<T> {
    findings.error(
        path,
        offset,
        format!("{given}can't be kept: {lack}"),
        format!("{}, or leave it out", lack.remedy()),
    );
    None
}

fn paths(field: Field<Strings>, findings: &mut Findings<'_>) -> Option<Vec<PathBuf>> {
    let paths = optional(field, |at| {
        let paths = at.value.into_iter().map(|path| {
            path.and_then(|path| existing(&path, "create it, or correct the path", findings))
        });
        // Each is looked at, also behind a wrong one.
        let paths = paths.collect::<Vec<_>>();
        paths.into_iter().collect()
    });
    paths.map(Option::unwrap_or_default)
}

/// One that is not there yet may come to lie anywhere.
fn executable_inside(
    sandbox: &Sandbox,
    program: &At<String>,
    findings: &mut Findings<'_>,
) -> Option<()> {
    let Ok(real) = fs::canonicalize(&program.value) else {
        return Some(());
    };
    if covers(&sandbox.read, &real) || covers(&sandbox.write, &real) {
        return Some(());
    }
    let place = if real == Path::new(&program.value) {
        String::new()
    } else {
        format!(" (really {})", quoted(&real.to_string_lossy()))
    };
    findings.error(
        &program.path,
        program.offset,
        format!(
            "is {}{place}, which its own sandbox lets not be executed",
            quoted(&program.value)
        ),
        "add it and what it is loaded with to sandbox.read; for programs of the system that is \"/usr\"",
    );
    None
}

/// A command that may rewrite the config decides what the next server lets it do.
fn config_outside(
    sandbox: &Sandbox,
    path: &str,
    offset: Option<usize>,
    findings: &mut Findings<'_>,
) {
    if let Ok(config) = fs::canonicalize(findings.file())
        && covers(&sandbox.write, &config)
    {
        findings.warning(
            path,
            offset,
            "lets the command write this config, and so widen its sandbox for the next start of the server",
            "keep the config outside of what sandbox.write names",
        );
    }
}

fn covers(paths: &[PathBuf], real: &Path) -> bool {
    paths.iter().any(|path| real.starts_with(path))
}
