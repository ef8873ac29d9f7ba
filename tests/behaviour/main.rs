//! The behaviour of the real binary, one file a subject. One binary for all of them, so that a change is linked once.

mod common;

mod arguments;
mod audit;
mod audit_disk;
mod client_gone;
mod config_cli;
mod config_fixtures;
mod decoding;
mod environment;
mod executables;
mod input;
mod io_backend;
mod lifecycle;
mod listing;
mod orphans;
mod output;
mod paging;
mod pins;
mod plain;
mod protocol;
mod real_jobs;
mod resources;
mod restrictions;
mod sandbox;
mod server_killed;
mod shutdown;
mod shutdown_under_load;
mod spool;
mod start_policy;
mod streams;
mod unprivileged;
mod waiting;
mod working_directory;
