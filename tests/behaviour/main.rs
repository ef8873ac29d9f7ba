//! The behaviour of the real binary, one file a subject. One binary for all of them, so that a change is linked once.

mod common;

mod arguments;
mod config_cli;
mod config_fixtures;
mod decoding;
mod environment;
mod input;
mod io_backend;
mod lifecycle;
mod orphans;
mod output;
mod paging;
mod plain;
mod protocol;
mod real_jobs;
mod resources;
mod restrictions;
mod server_killed;
mod shutdown;
mod start_policy;
mod streams;
