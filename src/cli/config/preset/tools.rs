//! Which tools this machine has, and where.

use std::{
    env,
    path::{Path, PathBuf},
};

use nix::unistd::{AccessFlags, access};

/// Where tools are looked for, as the Owner's shell would.
#[derive(Debug)]
pub(super) struct Tools {
    path: Vec<PathBuf>,
    home: Option<PathBuf>,
    user: fn(&str) -> Option<PathBuf>,
}

/// What a command finds on its own `PATH` beside its tool.
const SYSTEM: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

impl Tools {
    /// As this process's environment has it.
    pub(super) fn of_this_user() -> Tools {
        let path = env::var_os("PATH").unwrap_or_default();
        Tools {
            path: env::split_paths(&path).collect(),
            home: env::home_dir(),
            user: |name| env::var_os(name).map(PathBuf::from),
        }
    }

    /// Only what is in this directory.
    #[cfg(test)]
    pub(super) fn of(directory: &Path) -> Tools {
        Tools {
            path: vec![directory.to_owned()],
            home: Some(directory.to_owned()),
            user: |_| None,
        }
    }

    /// The absolute path of a program. Links stay in it: some programs do what their name says.
    pub(super) fn find(&self, name: &str) -> Option<PathBuf> {
        let places = self.path.iter().filter(|place| place.is_absolute());
        places
            .map(|place| place.join(name))
            .find(|program| executable(program))
    }

    /// The first of these that is there.
    pub(super) fn find_any(&self, names: &[&str]) -> Option<PathBuf> {
        names.iter().find_map(|name| self.find(name))
    }

    /// The Owner's home, which most tools want for their caches.
    pub(super) fn home(&self) -> Option<&Path> {
        self.home.as_deref().filter(|home| home.is_absolute())
    }

    /// A directory that a tool keeps things in: what the variable says, or this name below home if it is there.
    pub(super) fn directory(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let named = (self.user)(variable).filter(|path| path.is_absolute());
        named.or_else(|| {
            let usual = self.home()?.join(below_home);
            usual.is_dir().then_some(usual)
        })
    }

    /// A `PATH` on which each of these programs, and what comes with the system, is found.
    pub(super) fn path_with(programs: &[&Path]) -> String {
        let mut places: Vec<String> = Vec::new();
        let beside = programs.iter().filter_map(|program| program.parent());
        let beside = beside.filter_map(Path::to_str).map(str::to_owned);
        for place in beside.chain(SYSTEM.map(str::to_owned)) {
            // The separator can't be written in an entry.
            if !places.contains(&place) && !place.contains(':') {
                places.push(place);
            }
        }
        places.join(":")
    }
}

/// Whether this user may execute the file.
pub(super) fn executable(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn only_what_may_be_executed_is_found_by_its_absolute_path() {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, mode| {
            let path = dir.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let tool = put("tool", 0o755);
        put("text", 0o644);
        fs::create_dir(dir.path().join("folder")).unwrap();
        let mut tools = Tools::of(dir.path());
        tools.path.insert(0, PathBuf::from("relative"));
        assert_eq!(tools.find("tool"), Some(tool.clone()));
        assert_eq!(tools.find_any(&["none", "tool"]), Some(tool));
        assert_eq!(tools.find_any(&["text", "folder", "none"]), None);
    }

    #[test]
    fn a_path_names_each_directory_once() {
        let path = Tools::path_with(&[
            Path::new("/opt/a/x"),
            Path::new("/usr/bin/y"),
            Path::new("/opt/a/z"),
            Path::new("/odd:one/z"),
        ]);
        assert_eq!(path, "/opt/a:/usr/bin:/usr/local/bin:/bin");
    }
}
