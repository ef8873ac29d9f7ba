//! Shells that mark their prompts and commands with OSC 133.

use serde_json::{Value, json};

use super::{at_home, at_once, text};
use crate::common::{Owner, Terminal, installed::lacks};

/// The prompt looks like none, so that only the marks tell that it is one.
const BASH: &str = r#"PS1='\[\e]133;A\a\]ready, \[\e]133;B\a\]'
PS0='\e]133;C\a'
PROMPT_COMMAND='printf "\e]133;D;%s\a" $?'
"#;
const ZSH: &str = r#"PS1=$'%{\e]133;A\a%}ready, %{\e]133;B\a%}'
preexec() { printf '\e]133;C\a' }
precmd() { printf '\e]133;D;%s\a' $? }
"#;

fn state(read: &Value) -> [&Value; 3] {
    [
        &read["command_state"],
        &read["exit_code"],
        &read["command_complete"],
    ]
}

fn tells_of_each_command(shell: &Terminal) {
    let started = shell.wait_for("ready, $");
    assert_eq!(started["osc133"], true, "{started}");
    let read = at_once(shell, "echo o'u't");
    assert!(text(&read).contains("out\r\n"), "{read}");
    assert!(text(&read).ends_with("ready, "), "{read}");
    assert_eq!(state(&read), [&json!("running"), &json!(0), &json!(true)]);
    let read = at_once(shell, "(exit 4)");
    assert_eq!(state(&read), [&json!("running"), &json!(4), &json!(true)]);

    // One that runs.
    let script = "sh -c 'echo be\"\"gun; read line; echo \"got $line\"; exit 7'";
    shell.ok("session_send", json!({ "input": script }));
    let read = shell.wait_for("begun");
    assert_eq!(state(&read), [&json!("output"), &json!(4), &json!(false)]);
    let read = at_once(shell, "a line");
    assert!(text(&read).contains("got a line"), "{read}");
    assert_eq!(state(&read), [&json!("running"), &json!(7), &json!(true)]);
    let read = shell.ok("session_read", json!({"timeout": 0}));
    assert_eq!(state(&read), [&json!("running"), &json!(7), &json!(false)]);

    // One that is interrupted.
    let script = "sh -c 'echo be\"\"gun; exec sleep 9001'";
    shell.ok("session_send", json!({ "input": script }));
    shell.wait_for("begun");
    let arguments = json!({"control_char": "c", "timeout": super::HOUR});
    let read = shell.ok("session_interact", arguments);
    assert_eq!(state(&read), [&json!("running"), &json!(130), &json!(true)]);

    let read = at_once(shell, "exit 3");
    assert_eq!(read["is_alive"], false, "{read}");
    assert_eq!(shell.close()["exit_status"], 3);
}

#[test]
fn bash_tells_how_each_command_ended_and_the_answer_is_there_at_once() {
    if lacks("bash") {
        return;
    }
    let owner = Owner::new();
    owner.file("root/rc", BASH.as_bytes());
    let server = at_home(owner, &[]);
    tells_of_each_command(&Terminal::open(&server, "bash --noprofile --rcfile rc"));
}

#[test]
fn zsh_tells_how_each_command_ended_and_the_answer_is_there_at_once() {
    if lacks("zsh") {
        return;
    }
    let owner = Owner::new();
    owner.file("root/.zshrc", ZSH.as_bytes());
    let home = owner.root();
    let server = at_home(owner, &[("ZDOTDIR", home.to_str().expect("UTF-8"))]);
    tells_of_each_command(&Terminal::open(&server, "zsh -d -i"));
}
