//! Rules of the fields that name directories, asked of the file system as it is now.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{At, Field, Findings, Strings, quoted, required};

/// The roots as they are named, and where they really are; absent as soon as one is broken, because then nobody can
/// say what lies outside all of them.
pub(super) struct Roots {
    pub(super) named: Option<Vec<PathBuf>>,
    pub(super) real: Vec<PathBuf>,
}

pub(super) fn allowed_roots(
    field: Field<Strings>,
    object: Option<usize>,
    findings: &mut Findings<'_>,
) -> Roots {
    let broken = Roots {
        named: None,
        real: Vec::new(),
    };
    let Some(array) = required(field, "allowed_roots", object, findings) else {
        return broken;
    };
    if array.value.is_empty() {
        findings.error(
            &array.path,
            array.offset,
            "is empty, but must name at least one directory",
            "name the directories that commands may work in",
        );
        return broken;
    }
    let count = array.value.len();
    let (mut named, mut real) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for root in array.value.into_iter().flatten() {
        if let Some(place) = existing_directory(&root, findings) {
            if place == Path::new("/") {
                findings.warning(
                    &root.path,
                    root.offset,
                    format!(
                        "is {}, so every directory of the machine is allowed",
                        quoted(&root.value)
                    ),
                    "name a narrower one if you can",
                );
            }
            named.push(PathBuf::from(root.value));
            real.push(place);
        }
    }
    Roots {
        named: (named.len() == count).then_some(named),
        real,
    }
}

/// A path that means the same wherever the server is started.
pub(super) fn absolute(at: &At<String>, findings: &mut Findings<'_>) -> Option<()> {
    let shown = quoted(&at.value);
    let (message, hint) = if !at.value.starts_with('/') {
        let hint = if at.value.starts_with('~') {
            "begin it with \"/\"; \"~\" is not expanded"
        } else {
            "begin it with \"/\""
        };
        (format!("is {shown}, but must be an absolute path"), hint)
    } else if at.value.contains('\0') {
        (format!("is {shown}, which holds a NUL"), "remove it")
    } else {
        return Some(());
    };
    findings.error(&at.path, at.offset, message, hint);
    None
}

/// Where the directory really is, links resolved.
fn existing_directory(at: &At<String>, findings: &mut Findings<'_>) -> Option<PathBuf> {
    absolute(at, findings)?;
    let shown = quoted(&at.value);
    let mut refuse = |message: String, hint: &str| {
        findings.error(&at.path, at.offset, message, hint);
        None
    };
    let real = match fs::canonicalize(&at.value) {
        Ok(real) => real,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return refuse(
                format!("is {shown}, which does not exist"),
                "create the directory, or correct the path",
            );
        }
        Err(error) => {
            return refuse(
                format!("is {shown}, which can't be reached: {error}"),
                "correct the path or its permissions",
            );
        }
    };
    if !real.is_dir() {
        return refuse(
            format!("is {shown}, which is not a directory"),
            "name a directory",
        );
    }
    Some(real)
}

/// An existing directory inside a root, compared component by component after resolution.
pub(super) fn directory_inside(
    at: &At<String>,
    roots: &Roots,
    findings: &mut Findings<'_>,
) -> Option<PathBuf> {
    let real = existing_directory(at, findings)?;
    if roots.named.is_some() && !roots.real.iter().any(|root| real.starts_with(root)) {
        let place = if real == Path::new(&at.value) {
            String::new()
        } else {
            format!(" (really {})", quoted(&real.to_string_lossy()))
        };
        findings.error(
            &at.path,
            at.offset,
            format!(
                "is {}{place}, which lies outside every allowed root",
                quoted(&at.value)
            ),
            "choose a directory inside one, or add a root",
        );
        return None;
    }
    Some(PathBuf::from(&at.value))
}
