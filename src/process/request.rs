//! The body of a start request: arguments, environment and restrictions, in the form in which exec takes them.
//!
//! A block of 8-byte words in the machine's order, then the strings:
//!
//! ```text
//! length of the block · restrictions · sockets · held · terminal · offsets of the arguments · 0 · offsets of the variables · 0 · strings, each
//! with its NUL
//! ```
//!
//! The keeper receives it into memory of its own and turns each offset into a pointer in place, so that both lists stand
//! ready for exec without an allocation.

#![allow(unsafe_code)]

use std::{
    ffi::{CString, c_char},
    mem,
    num::NonZeroUsize,
    os::fd::BorrowedFd,
    ptr::NonNull,
};

use nix::{
    errno::Errno,
    sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap},
};

use super::wire::{self, Received};
use crate::config::Restrictions;

const WORD: usize = mem::size_of::<u64>();
/// Words of the restrictions: five limits, nice, umask.
pub(super) const RESTRICTIONS: usize = 7;
/// The word that is 0 for a contained child without sockets.
const SOCKETS: usize = 1 + RESTRICTIONS;
/// The word that is not 0 for a child that is to be held before its first instruction.
const HELD: usize = SOCKETS + 1;
/// The word that is not 0 for a child whose descriptors are a terminal that is to be its own.
const TERMINAL: usize = HELD + 1;
/// Words before the first offset.
const HEADER: usize = TERMINAL + 1;
/// Stands for an absent restriction.
const ABSENT: u64 = u64::MAX;

/// The body for these strings. `arguments` is not empty.
pub(super) fn encode(
    arguments: &[CString],
    variables: &[CString],
    restrictions: &Restrictions,
    sockets: bool,
    held: bool,
    terminal: bool,
) -> Vec<u8> {
    let offsets = arguments.len() + variables.len() + 2;
    let mut strings = (HEADER + offsets) * WORD;
    let all = arguments.iter().chain(variables);
    let length = strings
        + all
            .map(|string| string.as_bytes_with_nul().len())
            .sum::<usize>();
    let mut body = Vec::with_capacity(length);
    let word = |body: &mut Vec<u8>, value: usize| {
        let value = u64::try_from(value).expect("a size in memory");
        body.extend_from_slice(&value.to_ne_bytes());
    };
    word(&mut body, length);
    let Restrictions {
        limits,
        nice,
        umask,
    } = restrictions;
    for restriction in [
        limits.cpu_seconds,
        limits.memory_bytes,
        limits.processes,
        limits.open_files,
        limits.file_bytes,
        *nice,
        *umask,
    ] {
        body.extend_from_slice(&restriction.unwrap_or(ABSENT).to_ne_bytes());
    }
    word(&mut body, usize::from(sockets));
    word(&mut body, usize::from(held));
    word(&mut body, usize::from(terminal));
    for list in [arguments, variables] {
        for string in list {
            word(&mut body, strings);
            strings += string.as_bytes_with_nul().len();
        }
        word(&mut body, 0);
    }
    for string in arguments.iter().chain(variables) {
        body.extend_from_slice(string.as_bytes_with_nul());
    }
    assert_eq!(body.len(), length, "the sum of the parts");
    body
}

/// A received body: a mapping with the two lists in it.
#[derive(Debug)]
pub(super) struct Body {
    block: NonNull<u8>,
    length: NonZeroUsize,
    /// Index of the word at which the variables begin.
    variables: usize,
}

impl Body {
    /// Receives a body, and the descriptors that come with it; `None` when the sender is gone.
    ///
    /// # Errors
    /// ENOMEM when there is no room, EMFILE when there is none for the descriptors, EINVAL for what [`encode`] doesn't make.
    /// Part of the body may be left in the socket then.
    pub(super) fn receive(
        socket: BorrowedFd<'_>,
        descriptors: &mut Received,
    ) -> Result<Option<Body>, Errno> {
        let mut first = [0; WORD];
        let filled = wire::receive(socket, &mut first, descriptors, 0)?;
        let rest = first.get_mut(filled..).unwrap_or_default();
        if filled == 0 || !wire::receive_all(socket, rest)? {
            return Ok(None);
        }
        let length = usize::try_from(u64::from_ne_bytes(first)).map_err(|_| Errno::EINVAL)?;
        let length = NonZeroUsize::new(length).ok_or(Errno::EINVAL)?;
        let room = length.get().checked_sub(WORD).ok_or(Errno::EINVAL)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let block = unsafe { mmap_anonymous(None, length, access, MapFlags::MAP_PRIVATE) }?;
        let mut body = Body {
            block: block.cast(),
            length,
            variables: 0,
        };
        // SAFETY: the mapping is writable, of `length` bytes, and nobody else has its address.
        let rest = unsafe { std::slice::from_raw_parts_mut(body.block.add(WORD).as_ptr(), room) };
        if !wire::receive_all(socket, rest)? {
            return Ok(None);
        }
        let arguments = body.relocate(HEADER)?;
        body.variables = arguments;
        body.relocate(arguments)?;
        Ok(Some(body))
    }

    /// Turns the offsets from word `index` to the next 0 into pointers. Returns the index after that 0.
    fn relocate(&mut self, mut index: usize) -> Result<usize, Errno> {
        loop {
            let end = (index + 1).checked_mul(WORD).ok_or(Errno::EINVAL)?;
            if end > self.length.get() {
                return Err(Errno::EINVAL);
            }
            // SAFETY: the word lies inside the mapping (checked above), which is aligned to pages and so to words.
            let word = unsafe { self.block.cast::<u64>().add(index) };
            index += 1;
            // SAFETY: as above.
            let offset = unsafe { word.read() };
            if offset == 0 {
                return Ok(index);
            }
            let offset = usize::try_from(offset).map_err(|_| Errno::EINVAL)?;
            if offset >= self.length.get() {
                return Err(Errno::EINVAL);
            }
            // SAFETY: the offset lies inside the mapping, and the word is big enough for a pointer (asserted below).
            unsafe {
                word.cast::<*const u8>()
                    .write(self.block.add(offset).as_ptr())
            };
        }
    }

    /// Bytes of the mapping.
    pub(super) fn length(&self) -> usize {
        self.length.get()
    }

    /// The restrictions, in the order of [`encode`].
    pub(super) fn restrictions(&self) -> [Option<u64>; RESTRICTIONS] {
        let mut words = [None; RESTRICTIONS];
        for (index, word) in words.iter_mut().enumerate() {
            // SAFETY: `receive` has seen that the mapping holds a header and at least one word behind it.
            let value = unsafe { self.block.cast::<u64>().add(1 + index).read() };
            *word = Some(value).filter(|&value| value != ABSENT);
        }
        words
    }

    /// Whether the child may have sockets, if it is contained.
    pub(super) fn sockets(&self) -> bool {
        self.flag(SOCKETS)
    }

    /// Whether the child is to be held before its first instruction.
    pub(super) fn held(&self) -> bool {
        self.flag(HELD)
    }

    /// Whether the child's standard input is a terminal that is to control its session.
    pub(super) fn terminal(&self) -> bool {
        self.flag(TERMINAL)
    }

    fn flag(&self, index: usize) -> bool {
        // SAFETY: all callers name a word of the header, which `receive` has seen to be there.
        unsafe { self.block.cast::<u64>().add(index).read() != 0 }
    }

    /// The list of arguments as exec takes it, for as long as `self` lives.
    pub(super) fn arguments(&self) -> *const *const c_char {
        self.list(HEADER)
    }

    /// The list of variables as exec takes it, for as long as `self` lives.
    pub(super) fn variables(&self) -> *const *const c_char {
        self.list(self.variables)
    }

    fn list(&self, index: usize) -> *const *const c_char {
        // SAFETY: `relocate` has found the list's first word, a pointer or the closing null, inside the mapping.
        unsafe { self.block.cast::<*const c_char>().add(index) }.as_ptr()
    }
}

const _: () = assert!(
    mem::size_of::<*const c_char>() == WORD,
    "offsets are turned into pointers in place"
);

impl Drop for Body {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and the pointers given out are not used beyond its life. An error would be
        // EINVAL for a range that mmap did not give.
        unsafe { munmap(self.block.cast(), self.length.get()) }.ok();
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::CStr, os::fd::AsFd};

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use proptest::prelude::*;

    use super::*;

    fn through(body: &[u8]) -> Result<Option<Body>, Errno> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::Stream, None, flags).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // Whoever refuses a body reads no further.
                wire::send_all(ours.as_fd(), body).ok();
            });
            let received = Body::receive(theirs.as_fd(), &mut Received::default());
            drop(theirs);
            received
        })
    }

    fn strings(mut list: *const *const c_char) -> Vec<CString> {
        let mut strings = Vec::new();
        // SAFETY: the list ends with a null pointer and its strings with a NUL; the body that holds them is alive.
        unsafe {
            while !(*list).is_null() {
                strings.push(CStr::from_ptr(*list).to_owned());
                list = list.add(1);
            }
        }
        strings
    }

    fn any_strings() -> impl Strategy<Value = Vec<CString>> {
        let string = prop::collection::vec(1_u8..=255, 0..300);
        prop::collection::vec(string.prop_map(|bytes| CString::new(bytes).unwrap()), 0..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn both_lists_arrive_as_they_were(arguments in any_strings(), variables in any_strings()) {
            let body = through(&encode(&arguments, &variables, &Restrictions::default(), true, false, false)).unwrap().unwrap();
            prop_assert_eq!(strings(body.arguments()), arguments);
            prop_assert_eq!(strings(body.variables()), variables);
        }

        #[test]
        fn a_body_cut_anywhere_is_none(cut in 0_usize..60) {
            let whole = encode(&[c"/bin/true".to_owned()], &[c"A=b".to_owned()], &Restrictions::default(), true, false, false);
            prop_assume!(cut < whole.len());
            prop_assert!(through(&whole[..cut]).unwrap().is_none());
        }

        #[test]
        fn words_that_no_sender_makes_are_refused_or_harmless(words in prop::collection::vec(any::<u64>(), 1..20)) {
            let length = u64::try_from((words.len() + 1) * WORD).unwrap();
            let bytes = [length].into_iter().chain(words).flat_map(u64::to_ne_bytes).collect::<Vec<_>>();
            through(&bytes).ok();
        }
    }

    #[test]
    fn a_body_larger_than_any_socket_buffer_arrives() {
        let long = CString::new(vec![b'x'; 3 << 20]).unwrap();
        let body = through(&encode(
            std::slice::from_ref(&long),
            &[],
            &Restrictions::default(),
            true,
            false,
            false,
        ))
        .unwrap()
        .unwrap();
        assert_eq!(strings(body.arguments()), [long]);
        assert!(strings(body.variables()).is_empty());
    }
}
