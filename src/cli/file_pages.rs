//! Gives back the pages of the program and its libraries that only the start needed.
//!
//! Linux maps sixteen pages around each one that is touched. By the time a server listens, start-up, the command line and the
//! reading of the config have mapped most of the program, and hardly any of that is looked at again.

#![allow(unsafe_code)]

use std::{ffi::c_void, fs, ops::Range, ptr::NonNull};

use nix::sys::mman::{MmapAdvise, madvise};

/// Forgets this process's mappings of files that it only reads. What is needed again is mapped again, from memory. Where
/// they can't be listed nothing is done.
pub(super) fn forget() {
    let Ok(smaps) = fs::read_to_string("/proc/self/smaps") else {
        return;
    };
    for range in unchanged(&smaps) {
        let Some(start) = NonNull::new(std::ptr::without_provenance_mut::<c_void>(range.start))
        else {
            continue;
        };
        // SAFETY: the range is a mapping of a file that can't be written through, and the kernel has just counted no page of
        // it that is this process's own, as those are that the loader has relocated. Whoever could change that is the
        // loader, which runs no more. So each page is the file's, and the kernel itself drops such pages and reads them
        // again as it sees fit.
        let dropped = unsafe { madvise(start, range.len(), MmapAdvise::MADV_DONTNEED) };
        if let Err(errno) = dropped {
            tracing::debug!(%errno, "the pages of a file stay");
        }
    }
}

/// The addresses of the mappings in the text of `/proc/self/smaps` that hold nothing but pages of a file.
fn unchanged(smaps: &str) -> impl Iterator<Item = Range<usize>> {
    let mut lines = smaps.lines().peekable();
    std::iter::from_fn(move || {
        let mapping = lines.next()?;
        let mut own = None;
        while let Some(fact) = lines.next_if(|line| range(line).is_none()) {
            own = own.or(fact.strip_prefix("Anonymous:").map(str::trim));
        }
        Some(range(mapping).filter(|_| is_read_only_file(mapping) && own == Some("0 kB")))
    })
    .flatten()
}

/// The addresses at the start of a mapping's first line, which is the only one that has some.
fn range(line: &str) -> Option<Range<usize>> {
    let (addresses, _) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let address = |hex| usize::from_str_radix(hex, 16).ok();
    Some(address(start)?..address(end)?)
}

/// Whether the line is of a private mapping of a file without the right to write.
fn is_read_only_file(mapping: &str) -> bool {
    let mut fields = mapping.split_ascii_whitespace().skip(1);
    let rights = fields.next().unwrap_or_default();
    // Offset, device and inode stand between.
    let path = fields.nth(3).unwrap_or_default();
    matches!(rights, "r--p" | "r-xp") && path.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mappings_that_hold_nothing_but_pages_of_a_file_are_found() {
        let of = |line: &str, own: &str| {
            let smaps = format!(
                "{line}\nSize: 4 kB\nAnonymous: {own}\nVmFlags: rd\n7f00-7f01 rw-p 0 00:00 0\n"
            );
            unchanged(&smaps).collect::<Vec<_>>()
        };
        let line = "55d0c0a00000-55d0c0b00000 r-xp 00100000 fe:00 4711    /usr/bin/sluice gate";
        let found = 0x55d0_c0a0_0000..0x55d0_c0b0_0000;
        assert_eq!(of(line, "0 kB"), std::slice::from_ref(&found));
        assert_eq!(of(&line.replace("r-xp", "r--p"), "0 kB"), [found]);
        assert!(of(line, "4 kB").is_empty(), "relocated");
        for other in [
            line.replace("r-xp", "rw-p"),
            line.replace("r-xp", "rwxp"),
            line.replace("r-xp", "r-xs"),
            line.replace("/usr/bin/sluice gate", "[vdso]"),
            line.replace("/usr/bin/sluice gate", ""),
            String::new(),
        ] {
            assert!(of(&other, "0 kB").is_empty(), "{other}");
        }
        assert_eq!(unchanged(line).count(), 0, "nothing is said of its pages");
    }

    #[test]
    fn what_was_forgotten_is_there_when_it_is_needed() {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        assert!(
            unchanged(&smaps).count() > 1,
            "the program and its libraries"
        );
        for _ in 0..3 {
            forget();
            assert_eq!(format!("{:?}", [1, 2, 3]), "[1, 2, 3]");
        }
    }
}
