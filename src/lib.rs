//! sluicegate: an MCP process host for Linux.

pub mod arena;
pub mod cli;
pub mod config;
pub mod demo;
pub mod io;
pub mod mcp;
pub mod policy;
pub mod process;
pub mod session;
pub mod supervisor;
pub mod text;
