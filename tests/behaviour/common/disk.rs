//! A disk so small that it is soon full.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

/// A private tmpfs, mounted for as long as this lives.
pub struct SmallDisk {
    pub place: PathBuf,
}

impl SmallDisk {
    /// One of `kibibytes` at a new directory `place`. `None` where nothing can be mounted, which takes root.
    pub fn mount(place: PathBuf, kibibytes: usize) -> Option<Self> {
        fs::create_dir(&place).expect("the temporary directory takes directories");
        let options = format!("size={kibibytes}k,mode=700");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(&place)
            .stderr(Stdio::null())
            .status();
        mounted
            .is_ok_and(|status| status.success())
            .then_some(Self { place })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount")
            .arg("--lazy")
            .arg(&self.place)
            .status()
            .ok();
    }
}
