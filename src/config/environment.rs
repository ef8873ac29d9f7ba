//! The settings of the session tools that the server's own environment gives. They count before those of the config.
//!
//! Each has two names: `SLUICEGATE_` or `TERMINAL_MCP_`, and the field's in capitals. The first one counts where both are
//! set; one without a value counts as not set.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    ops::RangeInclusive,
    time::Duration,
};

use super::{
    SessionSettings, Truncation,
    finding::quoted,
    in_memory,
    limits::{self},
    sessions::{check_pattern, seconds, side},
};

/// What the names of the variables begin with.
const PREFIXES: [&str; 2] = ["SLUICEGATE_", "TERMINAL_MCP_"];

/// A variable whose value can't be taken, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadVariable {
    name: String,
    value: String,
    rule: String,
}

impl fmt::Display for BadVariable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, rule) = (quoted(&self.value), &self.rule);
        write!(
            out,
            "the environment's {} is {value}, but must be {rule}; correct it, or unset it",
            self.name
        )
    }
}

/// Puts what `variable` gives in place of `settings`.
///
/// # Errors
/// The first variable whose value can't be taken.
pub fn apply(
    settings: &mut SessionSettings,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<(), BadVariable> {
    let environment = Environment(variable);
    if let Some(interval) =
        environment.whole("CLEANUP_INTERVAL", &limits::CLEANUP_INTERVAL_SECONDS)?
    {
        settings.cleanup_interval = Duration::from_secs(interval);
    }
    if let Some(count) = environment.whole("MAX_SESSIONS", &limits::MAX_SESSIONS)? {
        settings.max_sessions = in_memory(count);
    }
    if let Some(timeout) = environment.whole("IDLE_TIMEOUT", &limits::IDLE_TIMEOUT_SECONDS)? {
        settings.idle_timeout = Duration::from_secs(timeout);
    }
    if let Some(rows) = environment.whole("DEFAULT_ROWS", &limits::TTY_SIDE)? {
        settings.rows = side(rows);
    }
    if let Some(cols) = environment.whole("DEFAULT_COLS", &limits::TTY_SIDE)? {
        settings.cols = side(cols);
    }
    if let Some(settle) = environment.read("READ_SETTLE_TIMEOUT", settle)? {
        settings.read_settle_timeout = settle;
    }
    if let Some(bytes) = environment.whole("MAX_OUTPUT_BYTES", &limits::MAX_OUTPUT_BYTES)? {
        settings.max_output_bytes = in_memory(bytes);
    }
    if let Some(bytes) = environment.whole("MAX_BUFFER_BYTES", &limits::BUFFER_BYTES)? {
        settings.max_buffer_bytes = in_memory(bytes);
    }
    if let Some(gate) = environment.read("SAFETY_GATE", switch)? {
        settings.safety_gate = gate;
    }
    if let Some(patterns) = environment.read("DANGEROUS_PATTERNS", patterns)? {
        settings.dangerous_patterns = patterns;
    }
    if let Some(mode) = environment.read("TRUNCATION_MODE", truncation)? {
        settings.truncation = mode;
    }
    Ok(())
}

struct Environment<F>(F);

impl<F: Fn(&str) -> Option<OsString>> Environment<F> {
    /// The setting's value, if it is given. `parse` says what it must be when it isn't that.
    fn read<T>(
        &self,
        setting: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, BadVariable> {
        let named = PREFIXES.iter().find_map(|prefix| {
            let name = format!("{prefix}{setting}");
            let value = (self.0)(&name)?;
            let is_blank = value.to_str().is_some_and(|value| value.trim().is_empty());
            (!is_blank).then_some((name, value))
        });
        let Some((name, value)) = named else {
            return Ok(None);
        };
        let parsed = match value.to_str() {
            Some(text) => parse(text.trim()),
            None => Err("UTF-8".to_owned()),
        };
        parsed.map(Some).map_err(|rule| BadVariable {
            name,
            value: OsStr::to_string_lossy(&value).into_owned(),
            rule,
        })
    }

    fn whole(
        &self,
        setting: &str,
        bounds: &RangeInclusive<u64>,
    ) -> Result<Option<u64>, BadVariable> {
        self.read(setting, |text| {
            // Rust's own reading takes a sign as well.
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.then(|| text.parse().ok()).flatten();
            number
                .filter(|number| bounds.contains(number))
                .ok_or_else(|| {
                    let (low, high) = (bounds.start(), bounds.end());
                    format!("a whole number from {low} to {high}")
                })
        })
    }
}

fn settle(text: &str) -> Result<Duration, String> {
    text.parse().ok().and_then(seconds).ok_or_else(|| {
        let (low, high) = (limits::WAIT_SECONDS.start(), limits::WAIT_SECONDS.end());
        format!("a number of seconds from {low} to {high}")
    })
}

fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err("true or false, on or off, 1 or 0".to_owned()),
    }
}

fn patterns(text: &str) -> Result<Vec<String>, String> {
    let patterns = text.split(';').map(str::trim).filter(|one| !one.is_empty());
    let patterns: Vec<String> = patterns.map(str::to_owned).collect();
    if patterns.len() > limits::MAX_DANGEROUS_PATTERNS {
        let most = limits::MAX_DANGEROUS_PATTERNS;
        return Err(format!("at most {most} patterns"));
    }
    for pattern in &patterns {
        check_pattern(pattern).map_err(|fault| {
            let shown = quoted(pattern);
            format!("patterns with semicolons between them, and {shown} is none: {fault}")
        })?;
    }
    Ok(patterns)
}

fn truncation(text: &str) -> Result<Truncation, String> {
    Truncation::parse(text).ok_or_else(|| {
        let [first, second, third, last] = Truncation::NAMES;
        format!("{first}, {second}, {third} or {last}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(variables: &[(&str, &str)]) -> Result<SessionSettings, String> {
        let mut settings = SessionSettings::default();
        let look = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        match apply(&mut settings, look) {
            Ok(()) => Ok(settings),
            Err(bad) => Err(bad.to_string()),
        }
    }

    #[test]
    fn every_setting_has_two_names_and_the_first_one_counts() {
        let values = [
            ("CLEANUP_INTERVAL", "5", "6"),
            ("MAX_SESSIONS", "20", "21"),
            ("IDLE_TIMEOUT", "3600", "3601"),
            ("DEFAULT_ROWS", "30", "31"),
            ("DEFAULT_COLS", "100", "101"),
            ("READ_SETTLE_TIMEOUT", "0.25", "3"),
            ("MAX_OUTPUT_BYTES", "500", "501"),
            ("MAX_BUFFER_BYTES", "7000", "7001"),
            ("SAFETY_GATE", "off", "on"),
            ("DANGEROUS_PATTERNS", "drop it; ^halt$ ;;", "x"),
            ("TRUNCATION_MODE", "head_tail", "none"),
        ];
        let expected = SessionSettings {
            cleanup_interval: Duration::from_secs(5),
            max_sessions: 20,
            idle_timeout: Duration::from_secs(3_600),
            rows: 30,
            cols: 100,
            read_settle_timeout: Duration::from_millis(250),
            max_output_bytes: 500,
            max_buffer_bytes: 7_000,
            safety_gate: false,
            dangerous_patterns: vec!["drop it".to_owned(), "^halt$".to_owned()],
            truncation: Truncation::HeadTail,
        };
        let named = |prefix: &str, second: bool| -> Vec<(String, String)> {
            let pick = |(name, first, other): (&str, &str, &str)| {
                let value = if second { other } else { first };
                (format!("{prefix}{name}"), value.to_owned())
            };
            values.into_iter().map(pick).collect()
        };
        let (ours, theirs) = (named("SLUICEGATE_", false), named("TERMINAL_MCP_", false));
        for variables in [
            ours.clone(),
            theirs,
            [named("TERMINAL_MCP_", true), ours].concat(),
        ] {
            let variables: Vec<(&str, &str)> = variables
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            assert_eq!(applied(&variables), Ok(expected.clone()));
        }
    }

    #[test]
    fn what_is_not_set_or_has_no_value_changes_nothing() {
        let unchanged = Ok(SessionSettings::default());
        assert_eq!(applied(&[]), unchanged);
        let blank = [
            ("SLUICEGATE_MAX_SESSIONS", ""),
            ("TERMINAL_MCP_SAFETY_GATE", " "),
        ];
        assert_eq!(applied(&blank), unchanged);
        let behind = applied(&[
            ("SLUICEGATE_MAX_SESSIONS", ""),
            ("TERMINAL_MCP_MAX_SESSIONS", " 3 "),
        ]);
        assert_eq!(behind.unwrap().max_sessions, 3);
    }

    #[test]
    fn a_switch_is_a_word_or_a_digit() {
        let gate = |word: &str| {
            applied(&[("SLUICEGATE_SAFETY_GATE", word)]).map(|settings| settings.safety_gate)
        };
        for word in ["true", "on", "1", "ON", "True"] {
            assert_eq!(gate(word), Ok(true), "{word}");
        }
        for word in ["false", "off", "0", "OFF"] {
            assert_eq!(gate(word), Ok(false), "{word}");
        }
        for word in ["no", "yes", "2", "disabled"] {
            let said = gate(word).unwrap_err();
            let value = format!("is \"{word}\"");
            assert!(
                said.contains(&value) && said.contains("on or off"),
                "{said}"
            );
        }
    }

    #[test]
    fn what_can_not_be_taken_is_named_with_its_value_and_its_rule() {
        let cases = [
            ("MAX_SESSIONS", "abc", "a whole number from 1 to 64"),
            ("MAX_SESSIONS", "0", "a whole number from 1 to 64"),
            ("MAX_SESSIONS", "65", "a whole number from 1 to 64"),
            ("MAX_SESSIONS", "-1", "a whole number from 1 to 64"),
            ("MAX_SESSIONS", "+1", "a whole number from 1 to 64"),
            (
                "IDLE_TIMEOUT",
                "1800.0",
                "a whole number from 1 to 31536000",
            ),
            ("DEFAULT_ROWS", "501", "a whole number from 1 to 500"),
            (
                "READ_SETTLE_TIMEOUT",
                "nan",
                "a number of seconds from 0 to 3600",
            ),
            (
                "READ_SETTLE_TIMEOUT",
                "-0.1",
                "a number of seconds from 0 to 3600",
            ),
            (
                "READ_SETTLE_TIMEOUT",
                "2s",
                "a number of seconds from 0 to 3600",
            ),
            (
                "MAX_BUFFER_BYTES",
                "16777217",
                "a whole number from 4 to 16777216",
            ),
            (
                "TRUNCATION_MODE",
                "Tail",
                "tail, head_tail, tail_only or none",
            ),
            (
                "DANGEROUS_PATTERNS",
                "ok;(?=x)",
                "\"(?=x)\" is none: look-around",
            ),
        ];
        for (setting, value, rule) in cases {
            let name = format!("TERMINAL_MCP_{setting}");
            let said = applied(&[(&name, value)]).unwrap_err();
            assert!(said.contains(&name), "{said}");
            assert!(said.contains(&format!("is \"{value}\"")), "{said}");
            assert!(said.contains(rule), "{said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
