//! mcp.
#![allow(dead_code)]
mod args;
mod frame;
mod id_scan;
mod reply;
mod schema;
pub mod stdio;
mod transport;
mod wire;
