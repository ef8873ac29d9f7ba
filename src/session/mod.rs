//! One session: its state, its pumps, its input, its lifecycle.
pub mod snapshot;
