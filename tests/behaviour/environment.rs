//! The variables of a child: a fixed base, the Owner's, and those that a client may set.

use crate::common::{Owner, Server};
use serde_json::{Map, Value, json};

#[test]
fn a_child_gets_three_variables_and_nothing_of_the_server() {
    let owner = Owner::new().argv("env", &["/usr/bin/env"]);
    let mut command = owner.command();
    command
        .env("SECRET_TOKEN", "abc")
        .env("HOME", "/root")
        .env("LC_TIME", "de_DE")
        .env("PATH", "/nowhere");
    let server = Server::spawn(owner, command);
    server.initialize();
    let output = server.start("env").read_all().stdout;
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["LANG=C.UTF-8", "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"]
    );
    server.finish();
}

#[test]
fn variables_come_from_the_base_then_the_owner_then_the_client() {
    let profile = json!({
        "argv": ["/usr/bin/env"],
        "allowed_env": ["LABEL", "MODE"],
        "env": {"MODE": "owner", "FIXED": "yes", "HOME": "/owner", "LANG": "C"},
    });
    let server = Owner::new().profile("env", profile).serve();
    let environment = |env: Value| {
        let session = server.start_with(json!({"command_id": "env", "env": env}));
        let output = session.read_all().stdout;
        output
            .lines()
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let owners = [
        "FIXED=yes",
        "HOME=/owner",
        "LANG=C",
        "LC_ALL=C.UTF-8",
        "MODE=owner",
        "PATH=/usr/bin:/bin",
    ];
    assert_eq!(environment(json!({})), owners.map(str::to_owned).into());
    let clients = environment(json!({"LABEL": "x=y z", "MODE": ""}));
    assert!(
        clients.contains("LABEL=x=y z") && clients.contains("MODE="),
        "{clients:?}"
    );
    for name in ["FIXED", "LANG", "OTHER"] {
        let error = server.refused(
            "terminal_start",
            json!({"command_id": "env", "env": {name: "x"}}),
        );
        assert_eq!(error["code"], "ENV_NOT_ALLOWED");
        assert!(
            error["message"].as_str().expect("a message").contains(name),
            "{error}"
        );
    }
    server.finish();
}

/// Names that no Owner may list and no client may set, each rule of the format at least once.
const DENIED: &str = "\
    PATH HOME SHELL ENV BASH_ENV IFS CDPATH PYTHONPATH PYTHONSTARTUP LD_PRELOAD \
    LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES BASH_FUNC_x MY_TOKEN TOKENS A_SECRET_B PASSWORD \
    DB_PASSWORD_FILE CREDENTIALS API_KEY X_PRIVATE_KEY NODE_OPTIONS NODE_PATH PERL5OPT \
    PERL5LIB RUBYOPT RUBYLIB GCONV_PATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS \
    CLASSPATH DOTNET_STARTUP_HOOKS GLIBC_TUNABLES PROMPT_COMMAND PS4 ZDOTDIR LUA_INIT PAGER \
    EDITOR VISUAL BROWSER RUSTC_WRAPPER RUSTFLAGS MAKEFLAGS GIT_SSH_COMMAND GIT_DIR \
    ld_preload Path git_pager my_Token Node_Options";

/// Names that are no names of variables.
const MALFORMED: &[&str] = &["", "A=B", "1A", "A-B", "A B", "\u{c4}", "A\u{0}B", "A\n"];

#[test]
fn a_denied_variable_is_refused_by_name() {
    let profile = json!({"argv": ["/usr/bin/env"], "allowed_env": ["SAFE_LABEL", "HOMEPAGE", "LDX", "GITHUB_REF"]});
    let server = Owner::new()
        .profile("env", profile)
        .set("max_records", 1)
        .set("max_sessions", 1)
        .serve();
    for name in DENIED.split(' ').chain(MALFORMED.iter().copied()) {
        let error = server.refused(
            "terminal_start",
            json!({"command_id": "env", "env": {name: "x"}}),
        );
        assert_eq!(error["code"], "ENV_NOT_ALLOWED", "{name:?}");
        let message = error["message"].as_str().expect("a message");
        let printable = name.chars().all(|c| c.is_ascii_graphic());
        assert!(
            !printable || message.contains(name),
            "{name:?} is not named in {message}"
        );
    }
    let near_misses = json!({"SAFE_LABEL": "a", "HOMEPAGE": "b", "LDX": "c", "GITHUB_REF": "d"});
    let output = server
        .start_with(json!({"command_id": "env", "env": near_misses}))
        .read_all();
    assert_eq!(output.stdout.lines().count(), 7, "{}", output.stdout);
    server.finish();
}

#[test]
fn a_config_that_allows_a_denied_variable_does_not_load() {
    for name in DENIED.split(' ').chain(MALFORMED.iter().copied()) {
        let owner = Owner::new().profile(
            "env",
            json!({"argv": ["/usr/bin/env"], "allowed_env": [name]}),
        );
        let output = owner.command().output().expect("the binary starts");
        assert!(!output.status.success(), "{name:?} was accepted");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("allowed_env"), "{name:?}: {stderr}");
    }
}

#[test]
fn values_with_a_nul_are_refused_and_others_pass_unchanged() {
    let profile =
        json!({"argv": ["/bin/sh", "-c", "printf '%s' \"$LABEL\""], "allowed_env": ["LABEL"]});
    let server = Owner::new().profile("job", profile).serve();
    let error = server.refused(
        "terminal_start",
        json!({"command_id": "job", "env": {"LABEL": "a\u{0}b"}}),
    );
    assert_eq!(error["code"], "ENV_NOT_ALLOWED");
    let value = "  $(id) `id`\t\u{4e2d}\u{1f600}\n'\"\\";
    let session = server.start_with(json!({"command_id": "job", "env": {"LABEL": value}}));
    assert_eq!(session.read_all().stdout, value);
    server.finish();
}

#[test]
fn thirty_two_variables_pass_and_thirty_three_do_not() {
    let names: Vec<String> = (0..33).map(|n| format!("V{n}")).collect();
    let server = Owner::new()
        .profile(
            "env",
            json!({"argv": ["/usr/bin/env"], "allowed_env": names}),
        )
        .serve();
    let environment = |count: usize| -> Map<String, Value> {
        names[..count]
            .iter()
            .map(|name| (name.clone(), json!("x")))
            .collect()
    };
    let session = server.start_with(json!({"command_id": "env", "env": environment(32)}));
    assert_eq!(session.read_all().stdout.lines().count(), 35);
    let code = server.code(
        "terminal_start",
        json!({"command_id": "env", "env": environment(33)}),
    );
    assert_eq!(code, "ENV_NOT_ALLOWED");
    server.finish();
}

#[test]
fn a_variable_may_be_as_long_as_the_kernel_takes_and_one_byte_more_is_refused() {
    // MAX_ARG_STRLEN: 32 pages for the name, the sign, the value and the NUL.
    let profile = json!({"argv": ["/bin/sh", "-c", "echo ${#BIG}"], "allowed_env": ["BIG"]});
    let server = Owner::new().profile("job", profile).serve();
    let start = |length: usize| json!({"command_id": "job", "env": {"BIG": "x".repeat(length)}});
    let session = server.start_with(start(131_067));
    assert_eq!(session.read_all().stdout, "131067\n");
    for _ in 0..5 {
        let error = server.refused("terminal_start", start(131_068));
        assert_eq!(error["code"], "START_FAILED");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("environment too large"), "{message}");
    }
    assert_eq!(
        server.start_with(start(131_067)).read_all().stdout,
        "131067\n"
    );
    server.finish();
}
