//! What a command gets that a client named by itself, where the Owner lets clients do that: what the server has.

use std::{
    env,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::stat::Mode,
    unistd::{AccessFlags, access},
};

use super::{CwdRefused, Directory, env::on_terminal};

/// The server's environment, as far as it is text, and what a terminal's program is told of it.
pub fn inherited_env() -> Vec<(String, String)> {
    let own = env::vars_os();
    let text =
        own.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut env: Vec<_> = text.collect();
    on_terminal(&mut env);
    env
}

/// The server's working directory.
///
/// # Errors
/// `NotFound` when it is gone or may not be entered, `Unavailable` for want of descriptors.
pub fn inherited_cwd() -> Result<Directory, CwdRefused> {
    let place = env::current_dir().map_err(|_| CwdRefused::NotFound)?;
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let descriptor: Result<OwnedFd, Errno> = open(".", flags, Mode::empty());
    let descriptor = descriptor.map_err(|errno| match errno {
        Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM => CwdRefused::Unavailable(errno),
        _ => CwdRefused::NotFound,
    })?;
    Ok(Directory { descriptor, place })
}

/// Where the program is that a shell would run by this name: the first executable file of it in the server's `PATH`, or
/// itself, whatever it is, if it has a slash. Absolute.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.is_file() && access(path, AccessFlags::X_OK).is_ok();
    let absolute = |path: &Path| Some(env::current_dir().ok()?.join(path));
    if name.contains('/') {
        return absolute(Path::new(name));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let candidates = env::split_paths(&path).map(|directory| directory.join(name));
    candidates
        .filter_map(|path| absolute(&path))
        .find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let sh = find_program("sh").expect("there is one");
        assert!(sh.is_absolute() && sh.ends_with("sh"), "{sh:?}");
        assert_eq!(find_program("/bin/sh"), Some("/bin/sh".into()));
        assert_eq!(find_program("no-such-program-anywhere"), None);
        // What it lacks, the kernel says.
        assert_eq!(find_program("/etc/passwd"), Some("/etc/passwd".into()));
        assert_eq!(find_program(""), None);
    }

    #[test]
    fn what_is_inherited_fits_a_terminal() {
        let env = inherited_env();
        let of = |name: &str| env.iter().find(|(present, _)| present == name);
        assert_eq!(
            of("TERM").map(|(_, kind)| kind.as_str()),
            Some("xterm-256color")
        );
        for name in ["COLORTERM", "COLUMNS", "LINES"] {
            assert_eq!(of(name), None);
        }
        assert!(of("PATH").is_some());
    }
}
