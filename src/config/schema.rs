//! The format as a JSON Schema, for editors: completion, and most rules while typing.
//!
//! What a schema can't say (rules between fields, what exists on disk, denied names) only the reader checks.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use super::limits::{self, defaults};

/// JSON Schema (2020-12) of a config.
pub fn schema() -> Value {
    let environment_name = json!({
        "type": "string",
        "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
    });
    let absolute = json!({"type": "string", "pattern": "^/"});
    let paths = json!({"type": "array", "items": absolute, "default": []});
    let profile = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["argv"],
        "properties": {
            "argv": {
                "description": "Program and arguments. The program is an absolute path; no shell runs.",
                "type": "array",
                "minItems": 1,
                "prefixItems": [{"type": "string", "pattern": "^/"}],
                "items": {"type": "string"},
            },
            "allowed_env": {
                "description": "Names of variables that the client may set.",
                "type": "array",
                "items": environment_name,
                "default": [],
            },
            "description": {
                "description": "One line that tells the model what the command does.",
                "type": "string",
                "pattern": "^[^\\n\\r]*$",
            },
            "env": {
                "description": "Variables with fixed values; the client can't change them unless allowed_env names them too.",
                "type": "object",
                "propertyNames": environment_name,
                "additionalProperties": {"type": "string"},
            },
            "cwd": described(&absolute, "Directory to start in, inside a root; default_cwd if left out."),
            "timeout_ms": {
                "description": "Lifetime in ms when the client names none; default_timeout_ms if left out.",
                "type": "integer",
                "minimum": limits::TIMEOUT_MS.start(),
                "maximum": limits::TIMEOUT_MS.end(),
            },
            "stdin": {
                "description": "What the command reads: what the client writes, or nothing.",
                "enum": ["pipe", "null"],
                "default": "pipe",
            },
            "allow_detach": {
                "description": "Whether processes that left the command's group stay when it has ended by itself.",
                "type": "boolean",
                "default": false,
            },
            "limits": {
                "description": "What the kernel holds the command and its descendants to.",
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "cpu_seconds": limit("CPU time of each process.", &limits::CPU_SECONDS),
                    "memory_bytes": limit("Address space of each process.", &limits::MEMORY_BYTES),
                    "processes": limit(
                        "Processes and threads of the user, those of other programs included.",
                        &limits::PROCESSES,
                    ),
                    "open_files": limit("Descriptors of each process.", &limits::OPEN_FILES),
                    "file_bytes": limit("Size of each file that is written.", &limits::FILE_BYTES),
                },
            },
            "nice": limit("How much the command gives way to others.", &limits::NICE),
            "umask": {
                "description": "Permissions that new files don't get, in octal digits.",
                "type": "string",
                "pattern": "^0?[0-7]{3}$",
            },
            "sha256": {
                "description": "What the executable's SHA-256 must be; not for scripts.",
                "type": "string",
                "pattern": "^[0-9A-Fa-f]{64}$",
            },
            "sandbox": {
                "description": "What the command may touch; the kernel refuses it all else.",
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "read": described(
                        &paths,
                        "Existing files and directories, absolute, that may be read and executed with all below them.",
                    ),
                    "write": described(&paths, "Those that may be changed too."),
                    "network": {
                        "description": "Whether the command may have sockets of any kind.",
                        "type": "boolean",
                        "default": true,
                    },
                },
            },
            "tty": {
                "description": "Run the command on a terminal of this size instead of pipes.",
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "rows": integer("Lines.", &limits::TTY_SIDE, defaults::TTY_ROWS),
                    "cols": integer("Columns.", &limits::TTY_SIDE, defaults::TTY_COLS),
                },
            },
        },
    });
    let mut buffer_records = integer(
        "Code points of output kept per session; null when only buffer_bytes limits it.",
        &limits::BUFFER_RECORDS,
        defaults::BUFFER_RECORDS,
    );
    buffer_records["type"] = json!(["integer", "null"]);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "sluicegate config",
        "type": "object",
        "additionalProperties": false,
        "required": ["allowed_roots", "default_cwd", "commands"],
        "properties": {
            "allowed_roots": {
                "description": "Existing directories that commands may work in, absolute.",
                "type": "array",
                "minItems": 1,
                "items": absolute,
            },
            "default_cwd": described(&absolute, "Existing directory inside a root, absolute."),
            "commands": {
                "description": "The approved commands, by the id that a client names.",
                "type": "object",
                "minProperties": limits::COMMANDS.start(),
                "maxProperties": limits::COMMANDS.end(),
                "propertyNames": {"minLength": 1, "maxLength": limits::MAX_COMMAND_ID_CHARS},
                "additionalProperties": profile,
            },
            "max_sessions": integer(
                "Sessions that may run at once.",
                &limits::MAX_SESSIONS,
                defaults::MAX_SESSIONS,
            ),
            "max_records": integer(
                "Sessions kept at once, running or ended; not below max_sessions.",
                &limits::MAX_RECORDS,
                defaults::MAX_RECORDS,
            ),
            "buffer_bytes": integer(
                "UTF-8 bytes of output kept per session.",
                &limits::BUFFER_BYTES,
                defaults::BUFFER_BYTES,
            ),
            "buffer_records": buffer_records,
            "default_timeout_ms": integer(
                "Lifetime in ms when neither client nor profile names one; not above max_timeout_ms.",
                &limits::TIMEOUT_MS,
                defaults::DEFAULT_TIMEOUT_MS,
            ),
            "max_timeout_ms": integer(
                "Longest lifetime in ms that a client may ask for.",
                &limits::TIMEOUT_MS,
                defaults::MAX_TIMEOUT_MS,
            ),
            "retention_seconds": integer(
                "How long an ended session stays readable.",
                &limits::RETENTION_SECONDS,
                defaults::RETENTION_SECONDS,
            ),
            "max_input_bytes": integer(
                "UTF-8 bytes of one write.",
                &limits::MAX_INPUT_BYTES,
                defaults::MAX_INPUT_BYTES,
            ),
            "results": {
                "description": "Where results carry their body: as text and as structured content, or in one of them.",
                "enum": ["both", "structured", "text"],
                "default": "both",
            },
            "audit_log": described(
                &absolute,
                "File or FIFO, absolute, that gets a JSON line for each start, write, termination and end; none if left out.",
            ),
            "spool": {
                "description": "Where output goes that has no room in memory any more; it is lost if left out.",
                "type": "object",
                "additionalProperties": false,
                "required": ["dir"],
                "properties": {
                    "dir": described(&absolute, "Private directory, absolute; made if missing."),
                    "bytes_per_session": integer(
                        "Bytes of files per session; over it the oldest text goes.",
                        &limits::SPOOL_BYTES,
                        defaults::SPOOL_BYTES_PER_SESSION,
                    ),
                    "bytes_total": integer(
                        "Bytes of files of all sessions; over it the oldest text goes.",
                        &limits::SPOOL_BYTES,
                        defaults::SPOOL_BYTES_TOTAL,
                    ),
                    "when_slow": {
                        "description": "block: a slow disk slows the command. drop: it costs text.",
                        "enum": ["block", "drop"],
                        "default": "block",
                    },
                },
            },
        },
    })
}

fn described(schema: &Value, description: &str) -> Value {
    let mut described = schema.clone();
    described["description"] = description.into();
    described
}

fn limit(description: &str, bounds: &RangeInclusive<u64>) -> Value {
    json!({
        "description": description,
        "type": "integer",
        "minimum": bounds.start(),
        "maximum": bounds.end(),
    })
}

fn integer(description: &str, bounds: &RangeInclusive<u64>, default: u64) -> Value {
    json!({
        "description": description,
        "type": "integer",
        "minimum": bounds.start(),
        "maximum": bounds.end(),
        "default": default,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document::{
        FIELDS, LIMITS_FIELDS, PROFILE_FIELDS, SANDBOX_FIELDS, SPOOL_FIELDS,
    };

    fn names(properties: &Value) -> Vec<&str> {
        let properties = properties.as_object().unwrap();
        properties.keys().map(String::as_str).collect()
    }

    fn sorted<const N: usize>(mut names: [&str; N]) -> [&str; N] {
        names.sort_unstable();
        names
    }

    #[test]
    fn the_schema_has_the_fields_that_the_reader_knows() {
        let schema = schema();
        assert_eq!(names(&schema["properties"]), sorted(FIELDS));
        let profile = &schema["properties"]["commands"]["additionalProperties"];
        assert_eq!(names(&profile["properties"]), sorted(PROFILE_FIELDS));
        let limits = &profile["properties"]["limits"];
        assert_eq!(names(&limits["properties"]), sorted(LIMITS_FIELDS));
        let spool = &schema["properties"]["spool"];
        assert_eq!(names(&spool["properties"]), sorted(SPOOL_FIELDS));
        let sandbox = &profile["properties"]["sandbox"];
        assert_eq!(names(&sandbox["properties"]), sorted(SANDBOX_FIELDS));
    }

    #[test]
    fn every_field_is_described() {
        let schema = schema();
        let profile = &schema["properties"]["commands"]["additionalProperties"];
        for properties in [&schema["properties"], &profile["properties"]] {
            for (name, field) in properties.as_object().unwrap() {
                assert!(field["description"].is_string(), "{name}");
            }
        }
    }
}
