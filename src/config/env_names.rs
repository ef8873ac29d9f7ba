//! Which environment variables no client may set, whatever the Owner lists.
//!
//! Names that choose which program or library runs, that make a common runtime or tool run other code, or that
//! look like secrets. A block list is no general guarantee: it holds the names that are known to be dangerous.

use std::fmt;

/// Variables that decide which files and programs a child finds, or how a shell reads its input.
const LOOKUP: &[&str] = &["PATH", "HOME", "SHELL", "ENV", "BASH_ENV", "IFS", "CDPATH"];

/// Beginnings that belong to a loader or an interpreter.
const PREFIXES: &[&str] = &["PYTHON", "LD_", "DYLD_", "BASH_FUNC_", "GIT_"];

/// Parts of a name that mark a secret.
const SECRETS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "CREDENTIAL",
    "API_KEY",
    "PRIVATE_KEY",
];

/// Variables that make a common runtime or tool run other code.
const RUN_CODE: &[&str] = &[
    "NODE_OPTIONS",
    "NODE_PATH",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "GCONV_PATH",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "DOTNET_STARTUP_HOOKS",
    "GLIBC_TUNABLES",
    "PROMPT_COMMAND",
    "PS4",
    "ZDOTDIR",
    "LUA_INIT",
    "PAGER",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "MAKEFLAGS",
];

/// Why a name is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Not `[A-Za-z_][A-Za-z0-9_]*`.
    NotAName,
    /// Decides which files and programs are found.
    Lookup,
    /// Begins like the variables of a loader, an interpreter or git.
    Prefix(&'static str),
    /// Contains a word that marks a secret.
    Secret(&'static str),
    /// Makes a common runtime or tool run other code.
    RunsCode,
}

/// Reads after "the name is denied because it".
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::NotAName => f.write_str(
                "is not a letter or underscore followed by letters, digits or underscores",
            ),
            Why::Lookup => f.write_str("decides which programs and files a child finds"),
            Why::Prefix(prefix) => write!(f, "begins with {prefix}"),
            Why::Secret(word) => write!(f, "contains {word}"),
            Why::RunsCode => f.write_str("can make a runtime or tool run other code"),
        }
    }
}

/// Whether `name` is denied to every client, and why. Letters are compared without regard to case.
pub fn denied(name: &str) -> Option<Why> {
    if !is_name(name) {
        return Some(Why::NotAName);
    }
    let upper = name.to_ascii_uppercase();
    if LOOKUP.contains(&upper.as_str()) {
        return Some(Why::Lookup);
    }
    if RUN_CODE.contains(&upper.as_str()) {
        return Some(Why::RunsCode);
    }
    let prefix = PREFIXES.iter().find(|prefix| upper.starts_with(**prefix));
    let secret = SECRETS.iter().find(|word| upper.contains(**word));
    prefix
        .map(|prefix| Why::Prefix(prefix))
        .or(secret.map(|word| Why::Secret(word)))
}

/// Whether `name` is `[A-Za-z_][A-Za-z0-9_]*`.
pub fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_class_of_name_is_denied_for_its_own_reason() {
        for (name, why) in [
            ("", Why::NotAName),
            ("1A", Why::NotAName),
            ("A=B", Why::NotAName),
            ("A\0", Why::NotAName),
            ("Ä", Why::NotAName),
            ("A-B", Why::NotAName),
            ("PATH", Why::Lookup),
            ("bash_env", Why::Lookup),
            ("PythonStartup", Why::Prefix("PYTHON")),
            ("ld_preload", Why::Prefix("LD_")),
            ("GIT_SSH_COMMAND", Why::Prefix("GIT_")),
            ("MY_token_X", Why::Secret("TOKEN")),
            ("AWS_SECRET_ACCESS_KEY", Why::Secret("SECRET")),
            ("STRIPE_API_KEY", Why::Secret("API_KEY")),
            ("_JAVA_OPTIONS", Why::RunsCode),
            ("ps4", Why::RunsCode),
        ] {
            assert_eq!(denied(name), Some(why), "{name:?}");
        }
    }

    #[test]
    fn names_that_only_resemble_denied_ones_pass() {
        for name in [
            "_",
            "DEMO_LABEL",
            "PATHS",
            "MYPATH",
            "ENVIRONMENT",
            "GITHUB_REF",
            "LDFLAGS",
            "PAGER2",
            "LANG",
            "APIKEY",
        ] {
            assert_eq!(denied(name), None, "{name:?}");
        }
    }

    #[test]
    fn every_listed_name_is_denied_in_any_case() {
        for name in LOOKUP.iter().chain(RUN_CODE) {
            assert!(denied(name).is_some());
            assert!(denied(&name.to_ascii_lowercase()).is_some());
        }
    }

    proptest! {
        #[test]
        fn case_never_changes_the_verdict(name in "[A-Za-z0-9_=]{0,20}") {
            prop_assert_eq!(denied(&name), denied(&name.to_ascii_lowercase()));
        }

        #[test]
        fn whatever_passes_is_a_shell_name(name in ".{0,12}") {
            if denied(&name).is_none() {
                let first = name.chars().next();
                prop_assert!(first.is_some_and(|c| c == '_' || c.is_ascii_alphabetic()));
                prop_assert!(name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()));
            }
        }
    }
}
