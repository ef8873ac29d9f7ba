//! All sessions.
pub mod handle;
pub mod refusal;
