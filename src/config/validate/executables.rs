//! Rules of the approved executables, asked of the file system as it is now: who else could put something else in their
//! place, and for a check whether they are there and what they should be.

use std::{
    collections::HashSet,
    fs::File,
    io::{ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use nix::unistd::{AccessFlags, access};

use super::{At, Field, Findings, optional, quoted};
use crate::config::{
    Depth,
    pin::Pin,
    trust::{Doubt, Who, doubts},
};

/// What is looked at, and what was said already.
#[derive(Debug)]
pub(super) struct Executables {
    depth: Depth,
    warned: HashSet<(PathBuf, Who)>,
}

impl Executables {
    pub(super) fn new(depth: Depth) -> Executables {
        Executables {
            depth,
            warned: HashSet::new(),
        }
    }

    /// The rules of one profile's `argv[0]` and `sha256`. `program` is absent when it is wrong in itself.
    pub(super) fn check(
        &mut self,
        program: Option<&At<String>>,
        pin: Field<String>,
        findings: &mut Findings<'_>,
    ) -> Option<Option<Pin>> {
        let pinned = optional(pin, |at| parsed(at, findings))?;
        let pin = pinned.as_ref().map(|at| at.value);
        let Some(program) = program else {
            return Some(pin);
        };
        let mut good = self.trusted(program, findings);
        if self.depth == Depth::Check {
            good &= can_start(program, findings);
        }
        if let Some(pinned) = &pinned
            && good
        {
            good = self.can_be_pinned(program, pinned, findings);
        }
        good.then_some(pin)
    }

    fn trusted(&mut self, program: &At<String>, findings: &mut Findings<'_>) -> bool {
        let mut trusted = true;
        for doubt in doubts(Path::new(&program.value)) {
            let said = !self.warned.insert((doubt.place.clone(), doubt.who));
            // What stops the start-up is said of each program, the rest once of each place.
            if doubt.who.is_anyone() {
                trusted = false;
            } else if said {
                continue;
            }
            say(&doubt, program, findings);
        }
        trusted
    }

    /// A program that is not there yet can still become the right one.
    fn can_be_pinned(
        &self,
        program: &At<String>,
        pin: &At<Pin>,
        findings: &mut Findings<'_>,
    ) -> bool {
        // Opening a device does something to some.
        if !Path::new(&program.value).is_file() {
            return true;
        }
        // A FIFO that takes the file's place must not block us.
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(&program.value);
        let content = file.and_then(|mut file| {
            let mut start = Vec::with_capacity(2);
            (&mut file).take(2).read_to_end(&mut start)?;
            Ok((start, file))
        });
        let (message, hint) = match content {
            Err(error) if self.depth == Depth::Check => (
                format!("can't be compared with {}: {error}", quoted(&program.value)),
                "make the executable readable for the user that runs the server",
            ),
            Err(_) => return true,
            Ok((start, _)) if start == b"#!" => (
                format!(
                    "pins a script: its interpreter would read {} by name, whatever it is then",
                    quoted(&program.value)
                ),
                "pin a program that is no script, or leave it out and let only yourself write the script",
            ),
            Ok(_) if self.depth == Depth::StartUp => return true,
            Ok((start, rest)) => match Pin::of(start.as_slice().chain(rest)) {
                Ok(found) if found == pin.value => return true,
                Ok(found) => (
                    format!(
                        "is {}, but the SHA-256 of {} is {found}",
                        pin.value,
                        quoted(&program.value)
                    ),
                    "look why the executable has changed; take the new value if that was meant",
                ),
                Err(error) => (
                    format!("can't be compared with {}: {error}", quoted(&program.value)),
                    "correct the cause",
                ),
            },
        };
        findings.error(&pin.path, pin.offset, message, hint);
        false
    }
}

fn parsed(at: At<String>, findings: &mut Findings<'_>) -> Option<At<Pin>> {
    let Some(pin) = Pin::parse(&at.value) else {
        findings.error(
            &at.path,
            at.offset,
            format!(
                "is {}, but must be 64 hexadecimal digits",
                quoted(&at.value)
            ),
            "write what `sha256sum` prints for the executable",
        );
        return None;
    };
    Some(at.map(|_| pin))
}

fn say(doubt: &Doubt, program: &At<String>, findings: &mut Findings<'_>) {
    let (is, place) = (
        quoted(&program.value),
        quoted(&doubt.place.to_string_lossy()),
    );
    let Doubt { mode, owner, .. } = doubt;
    let (path, offset) = (&program.path, program.offset);
    match doubt.who {
        Who::Everyone => findings.error(
            path,
            offset,
            format!("is {is}, but everyone may write {place} (mode {mode:04o}), and so choose what runs"),
            "take that away with `chmod o-w`, and look whether the executable is still yours",
        ),
        Who::Planted => findings.error(
            path,
            offset,
            format!("is {is}, but {place} belongs to user {owner} and lies where everyone may put files"),
            "use an executable in a directory that only you may write",
        ),
        Who::Group => findings.warning(
            path,
            offset,
            format!("is {is}, but its group may write {place} (mode {mode:04o})"),
            "take that away with `chmod g-w` unless the whole group may choose what runs",
        ),
        Who::Owner => findings.warning(
            path,
            offset,
            format!("is {is}, but {place} belongs to user {owner}, who is neither root nor the one that runs the server"),
            "that user can choose what runs; take it over with `chown`, or use another executable",
        ),
    }
}

/// Only a check looks: a program may be installed later.
fn can_start(program: &At<String>, findings: &mut Findings<'_>) -> bool {
    let path = Path::new(&program.value);
    let (what, hint) = match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => (
            "does not exist".to_owned(),
            "install it, or correct the path",
        ),
        Err(error) => (
            format!("can't be reached: {error}"),
            "correct the path or its permissions",
        ),
        Ok(facts) if !facts.is_file() => ("is not a file".to_owned(), "name the program itself"),
        Ok(_) if access(path, AccessFlags::X_OK).is_err() => (
            "is not executable".to_owned(),
            "make it so with `chmod +x`, or name another program",
        ),
        Ok(_) => return true,
    };
    findings.error(
        &program.path,
        program.offset,
        format!("is {}, which {what}", quoted(&program.value)),
        hint,
    );
    false
}
