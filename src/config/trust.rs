//! Who else decides what a path leads to: whoever may write the file, a directory above it, or the directory of a symbolic
//! link on the way.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

/// The kernel's own limit.
const MAX_LINKS: usize = 40;

const STICKY: u32 = 0o1000;
const BY_GROUP: u32 = 0o020;
const BY_EVERYONE: u32 = 0o002;

/// One place at which others may change where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The place, without links.
    pub place: PathBuf,
    /// Its permissions, with the sticky bit and the like.
    pub mode: u32,
    /// Its owner.
    pub owner: u32,
    /// Who may, and how.
    pub who: Who,
}

/// See [`Doubt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// Everyone may write the file, or replace what lies in the directory.
    Everyone,
    /// It lies in a sticky directory that everyone may write, such as /tmp, and belongs to a stranger: everyone could have
    /// put it there.
    Planted,
    /// Its group may write it.
    Group,
    /// Its owner, who is neither root nor the user that runs this process.
    Owner,
}

impl Who {
    /// Whether it is more than the Owner can be supposed to want.
    pub fn is_anyone(self) -> bool {
        matches!(self, Who::Everyone | Who::Planted)
    }
}

/// The doubts about everything that `path`, which is absolute, leads through, as far as it leads.
pub fn doubts(path: &Path) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    walk(path, &mut doubts).ok();
    let mut seen = Vec::new();
    // A link may lead through the same directories again.
    doubts.retain(|doubt| {
        !seen.contains(doubt) && {
            seen.push(doubt.clone());
            true
        }
    });
    doubts
}

/// Goes where the kernel would go, and looks at what it would pass.
fn walk(path: &Path, doubts: &mut Vec<Doubt>) -> io::Result<()> {
    let root = fs::symlink_metadata("/")?;
    doubts.extend(about(Path::new("/"), &root, None));
    // Free of links, and what is there.
    let (mut here, mut directory) = (PathBuf::from("/"), root.clone());
    let mut ahead = parts(path).collect::<VecDeque<_>>();
    let mut links = 0;
    while let Some(part) = ahead.pop_front() {
        if part == ".." {
            here.pop();
            directory = fs::symlink_metadata(&here)?;
            continue;
        }
        let place = here.join(part);
        let facts = fs::symlink_metadata(&place)?;
        doubts.extend(about(&place, &facts, Some(&directory)));
        if !facts.is_symlink() {
            (here, directory) = (place, facts);
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            break;
        }
        let target = fs::read_link(&place)?;
        if target.is_absolute() {
            (here, directory) = (PathBuf::from("/"), root.clone());
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            ahead.push_front(part);
        }
    }
    Ok(())
}

/// The components that lead anywhere.
fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// What is doubtful about one place, which lies in `directory`.
fn about(place: &Path, facts: &Metadata, directory: Option<&Metadata>) -> Vec<Doubt> {
    let (mode, owner) = (facts.mode(), facts.uid());
    let in_sticky =
        |by| directory.is_some_and(|facts| facts.mode() & STICKY != 0 && facts.mode() & by != 0);
    let mut found = Vec::new();
    // A link has no permissions that count, and what lies in a sticky directory belongs to whoever put it there.
    let adds_only = facts.is_dir() && mode & STICKY != 0;
    if !facts.is_symlink() && !adds_only {
        if mode & BY_EVERYONE != 0 {
            found.push(Who::Everyone);
        } else if mode & BY_GROUP != 0 {
            found.push(Who::Group);
        }
    }
    if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
        if in_sticky(BY_EVERYONE) {
            found.push(Who::Planted);
        } else if !facts.is_symlink() || in_sticky(BY_GROUP) {
            found.push(Who::Owner);
        }
    }
    let doubt = |who| Doubt {
        place: place.to_owned(),
        mode: mode & 0o7777,
        owner,
        who,
    };
    found.into_iter().map(doubt).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    /// A directory of mode 0700 with directories and a program in it: `a/b/program`.
    struct Tree {
        _dir: tempfile::TempDir,
        base: PathBuf,
    }

    impl Tree {
        fn new() -> Tree {
            let dir = tempfile::tempdir().unwrap();
            let base = fs::canonicalize(dir.path()).unwrap();
            fs::create_dir_all(base.join("a/b")).unwrap();
            fs::write(base.join("a/b/program"), "").unwrap();
            let tree = Tree { _dir: dir, base };
            for (place, mode) in [("a", 0o755), ("a/b", 0o755), ("a/b/program", 0o755)] {
                tree.mode(place, mode);
            }
            tree
        }

        fn at(&self, place: &str) -> PathBuf {
            self.base.join(place)
        }

        fn mode(&self, place: &str, mode: u32) {
            fs::set_permissions(self.at(place), fs::Permissions::from_mode(mode)).unwrap();
        }

        /// Gives it to a stranger; `false` when only root could.
        fn give_away(&self, place: &str) -> bool {
            let given = std::os::unix::fs::lchown(self.at(place), Some(4_242), None).is_ok();
            if !given {
                eprintln!("SKIPPED: files of others can't be made here");
            }
            given
        }

        /// The doubts about `path`, those about the temporary directory's own surroundings left out.
        fn doubts(&self, path: &str) -> Vec<(PathBuf, Who)> {
            let about = |doubt: Doubt| {
                let place = doubt.place.strip_prefix(&self.base).ok()?;
                Some((place.to_owned(), doubt.who))
            };
            doubts(&self.at(path))
                .into_iter()
                .filter_map(about)
                .collect()
        }

        fn assert(&self, path: &str, expected: &[(&str, Who)]) {
            let expected = expected
                .iter()
                .map(|&(place, who)| (PathBuf::from(place), who));
            assert_eq!(self.doubts(path), expected.collect::<Vec<_>>(), "{path}");
        }
    }

    #[test]
    fn what_nobody_else_may_write_draws_no_doubt() {
        let tree = Tree::new();
        tree.assert("a/b/program", &[]);
        tree.mode("a/b/program", 0o4711);
        tree.assert("a/b/../b/./program", &[]);
        tree.assert("a/absent/program", &[]);
    }

    #[test]
    fn the_file_and_each_directory_above_it_count() {
        for place in ["a", "a/b", "a/b/program"] {
            let tree = Tree::new();
            tree.mode(place, 0o757);
            tree.assert("a/b/program", &[(place, Who::Everyone)]);
            tree.mode(place, 0o775);
            tree.assert("a/b/program", &[(place, Who::Group)]);
            tree.mode(place, 0o777);
            tree.assert("a/b/program", &[(place, Who::Everyone)]);
        }
        let tree = Tree::new();
        tree.mode("a", 0o777);
        tree.mode("a/b", 0o775);
        tree.assert("a/b/program", &[("a", Who::Everyone), ("a/b", Who::Group)]);
        tree.assert("a/absent", &[("a", Who::Everyone)]);
    }

    #[test]
    fn links_are_followed_and_their_directories_count() {
        let tree = Tree::new();
        fs::create_dir(tree.at("links")).unwrap();
        tree.mode("links", 0o757);
        symlink("../a/b/program", tree.at("links/near")).unwrap();
        symlink(tree.at("links"), tree.at("far")).unwrap();
        symlink("self", tree.at("a/self")).unwrap();
        tree.assert("links/near", &[("links", Who::Everyone)]);
        tree.assert("far/near", &[("links", Who::Everyone)]);
        tree.mode("links", 0o755);
        tree.mode("a/b", 0o757);
        tree.assert("far/near", &[("a/b", Who::Everyone)]);
        tree.assert("a/self", &[]);
    }

    #[test]
    fn a_sticky_directory_is_as_good_as_the_owners_of_what_lies_in_it() {
        let tree = Tree::new();
        tree.mode("a", 0o1777);
        symlink("b", tree.at("a/link")).unwrap();
        tree.assert("a/b/program", &[]);
        tree.assert("a/link/program", &[]);
        if !tree.give_away("a/link") {
            return;
        }
        tree.assert("a/link/program", &[("a/link", Who::Planted)]);
        tree.assert("a/b/program", &[]);
        assert!(tree.give_away("a/b"));
        tree.assert("a/b/program", &[("a/b", Who::Planted)]);
        tree.mode("a", 0o1775);
        tree.assert(
            "a/link/program",
            &[("a/link", Who::Owner), ("a/b", Who::Owner)],
        );
    }

    #[test]
    fn a_strangers_file_or_directory_is_doubtful() {
        for place in ["a", "a/b", "a/b/program"] {
            let tree = Tree::new();
            if tree.give_away(place) {
                tree.assert("a/b/program", &[(place, Who::Owner)]);
                chown(tree.at(place), Some(0), None).unwrap();
                tree.assert("a/b/program", &[]);
            }
        }
        let tree = Tree::new();
        symlink("b", tree.at("a/link")).unwrap();
        if tree.give_away("a/link") {
            tree.assert("a/link/program", &[]);
        }
    }
}
