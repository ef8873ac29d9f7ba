//! What a client may ask for.

/// Why a working directory was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CwdRefused {
    /// Not an absolute path.
    NotAbsolute,
    /// Does not exist, or may not be entered.
    NotFound,
    /// Exists but is no directory.
    NotDirectory,
    /// Its real location is outside every allowed root.
    OutsideRoots,
}

/// Why an environment variable was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvRefused {
    /// More variables than [`crate::config::limits::MAX_CLIENT_ENV`].
    TooMany(usize),
    /// The profile doesn't list it.
    NotApproved(String),
    /// No profile may list it.
    Denied(String),
    /// The value holds a NUL.
    NulInValue(String),
}
