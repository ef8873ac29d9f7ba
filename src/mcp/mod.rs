//! mcp.
#![allow(dead_code)]
mod frame;
mod id_scan;
pub mod stdio;
mod transport;
mod wire;
