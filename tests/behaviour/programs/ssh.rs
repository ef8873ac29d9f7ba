//! ssh to an sshd on loopback.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::json;
use tempfile::TempDir;

use super::{answers, assert_is_secret, at_home, at_once, audited, text};
use crate::common::{
    Owner, Terminal,
    installed::{self, lacks, not_tested},
    wait_until,
};

const SECRET: &str = "correct-horse-battery";
/// Its hash, as `openssl passwd -6 -salt sluicegate` makes it.
const HASH: &str = "$6$sluicegate$dNtIFcfaCt1/0C6JrtitbYtaiAOfc8T6B.u8KaQBK0j568QbfANNUh8SzYwTljrwoiG/p09kjnrKLFhS4/1La/";

/// An sshd with a host key of its own, until it is dropped.
struct Sshd {
    folder: TempDir,
    port: u16,
    running: Option<Child>,
}

fn keygen(file: &Path) {
    let mut keygen = Command::new("ssh-keygen");
    keygen
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(file);
    assert!(keygen.status().expect("it starts").success());
}

impl Sshd {
    fn new() -> Sshd {
        let folder = tempfile::Builder::new()
            .prefix("sluicegate-test-")
            .tempdir();
        let folder = folder.expect("a temporary directory");
        // Whoever logs in has its home in it.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        keygen(&folder.path().join("host_key"));
        keygen(&folder.path().join("user_key"));
        if nix::unistd::geteuid().is_root() {
            // sshd's place for privilege separation, which its service would make.
            fs::create_dir_all("/run/sshd").expect("root may");
        }
        Sshd {
            folder,
            port: 0,
            running: None,
        }
    }

    /// Starts it by this command, which gets sshd's arguments.
    fn listen(&mut self, launcher: &[&str], settings: &str) {
        let folder = self.folder.path();
        let (config, log) = (folder.join("sshd_config"), folder.join("sshd.log"));
        let sshd = installed::find("sshd").expect("it was looked for");
        // Another program can take the port between its choice and its use.
        for _ in 0..5 {
            let free = TcpListener::bind(("127.0.0.1", 0)).expect("loopback");
            self.port = free.local_addr().expect("it has one").port();
            drop(free);
            let (port, folder) = (self.port, folder.display());
            let text = format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\n\
                 AuthorizedKeysFile {folder}/user_key.pub\nPidFile none\nUsePAM no\n\
                 PermitRootLogin prohibit-password\nKbdInteractiveAuthentication no\n\
                 StrictModes no\nPrintMotd no\nPrintLastLog no\n{settings}\n"
            );
            fs::write(&config, text).expect("the folder takes files");
            fs::write(&log, "").expect("the folder takes files");
            let mut command = Command::new("setpriv");
            command
                .args(["--pdeathsig", "TERM"])
                .args(launcher)
                .arg(&sshd);
            command.arg("-D").arg("-E").arg(&log).arg("-f").arg(&config);
            command.stdin(Stdio::null());
            let mut child = command.spawn().expect("it starts");
            let mut ended = false;
            wait_until("sshd listens or ends", || {
                ended = child.try_wait().expect("it is ours").is_some();
                let said = fs::read_to_string(&log).expect("it is there");
                ended || said.contains("Server listening")
            });
            if !ended {
                self.running = Some(child);
                return;
            }
        }
        panic!("{}", fs::read_to_string(&log).expect("it is there"));
    }

    /// An ssh to it, before what is to be done there.
    fn client(&self, user: &str, options: &str) -> String {
        let folder = self.folder.path().display();
        format!(
            "ssh -F none -p {} -o UserKnownHostsFile={folder}/known_hosts -o IdentitiesOnly=yes {options} {user}@127.0.0.1",
            self.port
        )
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.kill().ok();
            running.wait().ok();
        }
    }
}

fn lacks_ssh() -> bool {
    ["ssh", "sshd", "ssh-keygen", "setpriv", "bash"]
        .iter()
        .any(|program| lacks(program))
}

/// At the remote shell's prompt: its answers, its terminal's size, its end.
fn works_there(ssh: &Terminal) {
    answers(ssh, "echo $((6 * 7))", "\r42\r\n");
    answers(
        ssh,
        "test -t 0 && test -n \"$SSH_TTY\" && echo on a t'ermina'l",
        "on a terminal",
    );
    // ssh polls all the time, and the echo comes in pieces that end as prompts do.
    for code in 1..=20 {
        answers(
            ssh,
            &format!("(exit {code}); echo $? >&2; echo s'ta'tus $?"),
            "status 0",
        );
    }
    answers(ssh, "stty size", "24 80");
    ssh.ok("session_resize", json!({"rows": 40, "cols": 120}));
    // ssh passes it on when it gets to it.
    wait_until("the size has arrived", || {
        text(&at_once(ssh, "stty size")).contains("40 120")
    });
    ssh.ok(
        "session_send",
        json!({"input": "echo be''gun; exec 3< <(:); read line"}),
    );
    ssh.wait_for("begun");
    let arguments = json!({"control_char": "c", "wait_for": r"remote\$ $"});
    assert_eq!(ssh.ok("session_interact", arguments)["matched"], true);
    let read = at_once(ssh, "exit 3");
    assert_eq!(read["is_alive"], false, "{read}");
    assert_eq!(ssh.close()["exit_status"], 3);
}

#[test]
fn ssh_with_a_key_gives_a_shell_whose_answers_are_there_at_once() {
    if lacks_ssh() {
        return;
    }
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid());
    let Ok(Some(user)) = user else {
        return not_tested("this user has no name");
    };
    let mut sshd = Sshd::new();
    sshd.listen(&[], "PasswordAuthentication no");
    let key = sshd.folder.path().join("user_key");
    let options = format!(
        "-tt -o StrictHostKeyChecking=no -o BatchMode=yes -i {}",
        key.display()
    );
    let shell = r#""HISTFILE= PS1='remote$ ' exec bash --norc --noprofile""#;
    let client = format!("{} {shell}", sshd.client(&user.name, &options));
    let server = at_home(Owner::new(), &[]);
    let ssh = Terminal::open_with(&server, json!({"command": client, "label": "ssh"}));
    ssh.wait_for(r"remote\$ $");
    works_there(&ssh);
}

#[test]
fn ssh_asks_for_a_password_which_stands_nowhere() {
    if lacks_ssh() || lacks("unshare") || lacks("mount") {
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        return not_tested("only root can have an account that is nobody else's");
    }
    let bare = ["--mount", "true"];
    let unshared = Command::new("unshare").args(bare).output();
    if !unshared.expect("it starts").status.success() {
        return not_tested("mount namespaces are not allowed here");
    }
    let Some((user, group)) = installed::user(&["nobody"]) else {
        return not_tested("there is no user nobody");
    };
    let mut sshd = Sshd::new();
    let folder = sshd.folder.path().to_owned();
    let home = folder.join("home");
    fs::create_dir(&home).expect("the folder takes files");
    fs::write(home.join(".bash_profile"), "PS1='remote$ ' HISTFILE=\n").expect("it does");
    chown(&home, Some(user), Some(group)).expect("root gives away");
    // An account that only this sshd sees, and the only one with a password there.
    let bash = installed::find("bash").expect("it was looked for");
    let mut accounts = fs::read_to_string("/etc/passwd").expect("anyone reads it");
    accounts.push_str(&format!(
        "visitor:x:{user}:{group}::{}:{}\n",
        home.display(),
        bash.display()
    ));
    fs::write(folder.join("passwd"), accounts).expect("it does");
    let hash = format!("visitor:{HASH}:20000:0:99999:7:::\n");
    fs::write(folder.join("shadow"), hash).expect("it does");
    let folder = folder.display();
    let script = format!(
        "mount --bind {folder}/passwd /etc/passwd && mount --bind {folder}/shadow /etc/shadow && exec \"$@\""
    );
    let launcher = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    sshd.listen(
        &launcher,
        "PasswordAuthentication yes\nPubkeyAuthentication no",
    );

    let (server, log) = audited(Owner::new());
    let options = "-o StrictHostKeyChecking=ask -o PreferredAuthentications=password";
    let client = sshd.client("visitor", options);
    let ssh = Terminal::open_with(&server, json!({"command": client, "label": "ssh"}));
    let asked = ssh.ok("session_read", json!({"timeout": super::HOUR}));
    assert!(text(&asked).contains("(yes/no/[fingerprint])? "), "{asked}");
    answers(&ssh, "yes", "visitor@127.0.0.1's password: ");
    let sent = ssh.ok("session_send", json!({ "password": SECRET }));
    assert_eq!(sent["bytes_sent"], SECRET.len() + 1);
    let read = ssh.wait_for(r"remote\$ $");
    assert!(!text(&read).contains(SECRET), "{read}");
    works_there(&ssh);
    drop(ssh);
    assert_is_secret(server, log, SECRET);
}
