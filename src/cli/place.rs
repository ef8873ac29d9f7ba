//! A directory of its own for a server that is to be looked at: its config, its root, nothing else.

use std::{
    env,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use uuid::Uuid;

use super::{reason, this_program};
use crate::config::Config;

/// Removed with all that is in it when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    base: PathBuf,
    root: PathBuf,
}

impl Place {
    /// Below the directory for temporary files, which only this user may look into.
    ///
    /// # Errors
    /// It can't be created; the error names it.
    pub(super) fn new() -> io::Result<Place> {
        // Roots are compared by where they lead, and so should be what is said of them.
        let temporary = fs::canonicalize(env::temp_dir()).unwrap_or_else(|_| env::temp_dir());
        let base = temporary.join(format!("sluicegate-{}", Uuid::new_v4().simple()));
        let root = base.join("root");
        let create = |path: &Path| {
            let created = DirBuilder::new().mode(0o700).create(path);
            created.map_err(|error| {
                let why = reason(&error);
                let text = format!("{}: {why}; name another place in TMPDIR", path.display());
                io::Error::new(error.kind(), text)
            })
        };
        create(&base)?;
        let place = Place { base, root };
        create(&place.root)?;
        Ok(place)
    }

    /// The only root.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// What lies beside the root is outside of it.
    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    /// The demo profiles in this place.
    pub(super) fn demo_config(&self) -> io::Result<Config> {
        Ok(Config::demo(&self.root, &this_program()?))
    }

    /// Writes a config and returns its path.
    pub(super) fn write(&self, config: &Config) -> io::Result<PathBuf> {
        let path = self.base.join("config.json");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(config.to_json()?.as_bytes())?;
        Ok(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What can't be removed is in a directory for temporary files.
        fs::remove_dir_all(&self.base).ok();
    }
}
