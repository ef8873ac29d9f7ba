//! The reader, and the two files that its own tests use.

pub use sluicegate::config::*;

#[path = "../../../src/config/promises.rs"]
pub mod promises;
#[path = "../../../src/config/schema_twin.rs"]
pub mod schema_twin;
