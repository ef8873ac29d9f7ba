//! Gives back the pages of the program's own text that only the start needed.
//!
//! Linux maps sixteen pages around each one that is touched. By the time a server listens, start-up, the command line and the
//! reading of the config have mapped most of the program, and hardly any of that is looked at again.

#![allow(unsafe_code)]

use std::{env, ffi::c_void, fs, ops::Range, os::unix::ffi::OsStrExt, ptr::NonNull};

use nix::sys::mman::{MmapAdvise, madvise};

/// Forgets the mappings of this process's text. What is needed again is mapped again, from memory. Where the text can't be
/// found nothing is done.
pub(super) fn forget() {
    let (Ok(maps), Ok(program)) = (fs::read("/proc/self/maps"), env::current_exe()) else {
        return;
    };
    let program = program.as_os_str().as_bytes();
    for range in maps
        .split(|&byte| byte == b'\n')
        .filter_map(|line| text(line, program))
    {
        let Some(start) = NonNull::new(std::ptr::without_provenance_mut::<c_void>(range.start))
        else {
            continue;
        };
        // SAFETY: the range is a mapping of this program's file that nobody may write to, neither through the mapping, which
        // is not writable and so has no pages of its own, nor in the file, since the kernel refuses writes to what is being
        // executed. So each page that is dropped reads as before when it is needed again.
        let dropped = unsafe { madvise(start, range.len(), MmapAdvise::MADV_DONTNEED) };
        if let Err(errno) = dropped {
            tracing::debug!(%errno, "the pages of the program's text stay");
        }
    }
}

/// The addresses of a line of `/proc/self/maps`, if it is `program`'s text: executable, private and not writable.
fn text(line: &[u8], program: &[u8]) -> Option<Range<usize>> {
    let line = line.strip_suffix(program)?;
    let mut fields = std::str::from_utf8(line).ok()?.split(' ');
    let (start, end) = fields.next()?.split_once('-')?;
    if fields.next()? != "r-xp" || !line.ends_with(b" ") {
        return None;
    }
    let address = |hex| usize::from_str_radix(hex, 16).ok();
    Some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_programs_own_text_is_found() {
        let program = b"/usr/bin/sluicegate";
        let of = |line: &str| text(line.as_bytes(), program);
        let line = "55d0c0a00000-55d0c0b00000 r-xp 00100000 fe:00 4711    /usr/bin/sluicegate";
        assert_eq!(of(line), Some(0x55d0_c0a0_0000..0x55d0_c0b0_0000));
        for other in [
            line.replace("r-xp", "r--p"),
            line.replace("r-xp", "rw-p"),
            line.replace("r-xp", "rwxp"),
            line.replace("r-xp", "r-xs"),
            line.replace("/usr", "/opt/usr"),
            format!("{line} (deleted)"),
            String::new(),
        ] {
            assert_eq!(of(&other), None, "{other}");
        }
    }

    #[test]
    fn what_was_forgotten_is_there_when_it_is_needed() {
        for _ in 0..3 {
            forget();
            assert_eq!(format!("{:?}", [1, 2, 3]), "[1, 2, 3]");
        }
    }
}
