//! Whether an approved executable may still be executed: the config was read a while ago, and the program may have come later.

use std::path::Path;

use crate::config::{Doubt, doubts};

/// Looks at the executable, the directories above it and the links that lead to it, as they are now.
///
/// # Errors
/// The place at which everyone could have changed what runs.
pub fn vet_executable(program: &Path) -> Result<(), Doubt> {
    let mut doubts = doubts(program).into_iter();
    match doubts.find(|doubt| doubt.who.is_anyone()) {
        Some(doubt) => Err(doubt),
        None => Ok(()),
    }
}
