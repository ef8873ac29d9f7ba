//! The safety gate: input that looks destructive isn't typed until it is confirmed. A seat belt, not a lock: who wants to get
//! around it can, with a variable, a script, or half of a command at a time.

use regex_automata::{meta::Regex, util::syntax};

use super::requests::Failure;

/// Where a command's name may stand: at a start, after a separator, within a quoted command, or with its directory.
macro_rules! command {
    ($name:literal) => {
        concat!(r#"(?:^|[\s;&|(){`!"']|/s?bin/)"#, $name)
    };
}

/// A name for each pattern, which the client is told. Letters of either case match.
const PATTERNS: [(&str, &str); 17] = [
    (
        "forced or recursive rm",
        command!(
            r"rm\s+(?:[^\s;&|]+\s+)*(?:-[a-z]*[rf][a-z]*|--force|--recursive|--no-preserve-root)(?:[\s;&|)]|$)"
        ),
    ),
    ("dd", command!(r"dd\s+(?:[^\s;&|]+\s+)*[a-z]+=")),
    ("mkfs", command!(r"mkfs(?:\.\w+)?\s+\S")),
    (
        "SQL DROP",
        r"\bdrop\s+(?:table|database|schema|view|materialized\s+view|index|sequence|tablespace|user|role|owned)\b",
    ),
    (
        "SQL TRUNCATE",
        r#"\btruncate\s+(?:table\b|[\w.",\s]+(?:;|\bcascade\b|\brestart\s+identity\b))"#,
    ),
    (
        "download piped to a shell",
        r"\b(?:curl|wget)\b[^\n]*\|\s*(?:sudo\s+(?:-\S+\s+)*|env\s+)?(?:\S*/)?(?:ba|z|da|k|c|tc|fi)?sh(?:[\s;&|)]|$)",
    ),
    (
        "download run by a shell",
        r"\b(?:(?:ba|z|da|k)?sh|eval|source)\s[^\n|;]*(?:<\(|\$\(|`)\s*(?:curl|wget)\b",
    ),
    (
        "chmod 777 or -R",
        command!(
            r"chmod\s+(?:[^\s;&|]+\s+)*(?:[0-7]?777|(?:a|ugo)?[+=]rwx|(?-i:-[a-zA-Z]*R[a-zA-Z]*)|--recursive)(?:[\s;&|)]|$)"
        ),
    ),
    (
        "chown -R",
        command!(
            r"chown\s+(?:[^\s;&|]+\s+)*(?:(?-i:-[a-zA-Z]*R[a-zA-Z]*)|--recursive)(?:[\s;&|)]|$)"
        ),
    ),
    (
        "write to a raw disk",
        r"(?:>\|?\s*|\btee\s+(?:-a\s+)?|\bof=|\b(?:shred|wipefs|blkdiscard)\s[^\n;&|]*)/dev/(?:[shv]d[a-z]|xvd[a-z]|nvme\d|mmcblk\d|dm-\d|md\d|mapper/|disk/|loop\d)",
    ),
    (
        "fork bomb",
        r"\(\)\s*\{\s*[^\s|{}]+\s*\|\s*[^\s|{}]+\s*&\s*\}\s*;",
    ),
    (
        "shutdown",
        command!(r"(?:shutdown|poweroff)(?:[\s;&|)\x22']|$)"),
    ),
    ("reboot", command!(r"reboot(?:[\s;&|)\x22']|$)")),
    (
        "init 0 or 6",
        command!(r"(?:tel)?init\s+[06](?:[\s;&|)\x22']|$)"),
    ),
    (
        "systemctl stop, disable or mask",
        command!(r"systemctl\s+(?:-\S+\s+)*(?:stop|disable|mask)\s+\S"),
    ),
    (
        "kill -9",
        command!(
            r"kill\s+(?:-\S+\s+)*(?:-9|-(?:sig)?kill|-s\s*(?:9|(?:sig)?kill)|--signal[=\s](?:9|(?:sig)?kill))(?:\s|$)"
        ),
    ),
    (
        "pkill -9",
        command!(
            r"(?:pkill|killall)\s+(?:-\S+\s+)*(?:-9|-(?:sig)?kill|-s\s*(?:9|(?:sig)?kill)|--signal[=\s](?:9|(?:sig)?kill))(?:\s|$)"
        ),
    ),
];

/// See the module.
#[derive(Debug)]
pub(super) struct Gate {
    /// `None` when the Owner turned it off.
    patterns: Option<Regex>,
    owners: Vec<String>,
}

impl Gate {
    /// A gate with the Owner's patterns beside its own.
    ///
    /// # Panics
    /// When one of them is none; each was compiled when the config was checked.
    pub(super) fn new(closed: bool, owners: &[String]) -> Gate {
        let own = PATTERNS.iter().map(|(_, pattern)| *pattern);
        let all: Vec<&str> = own.chain(owners.iter().map(String::as_str)).collect();
        let patterns = Regex::builder()
            .configure(Regex::config().nfa_size_limit(None))
            .syntax(syntax::Config::new().case_insensitive(true))
            .build_many(&all)
            .expect("each pattern was compiled before");
        Gate {
            patterns: closed.then_some(patterns),
            owners: owners.to_vec(),
        }
    }

    /// Lets input through, or says what it looks like.
    ///
    /// # Errors
    /// [`Failure::Confirmation`].
    pub(super) fn pass(&self, input: &str) -> Result<(), Failure> {
        let Some(found) = self.patterns.as_ref().and_then(|all| all.find(input)) else {
            return Ok(());
        };
        let index = found.pattern().as_usize();
        let name = match PATTERNS.get(index) {
            Some((name, _)) => name,
            None => self.owners[index - PATTERNS.len()].as_str(),
        };
        Err(Failure::Confirmation {
            command: input.to_owned(),
            reason: format!("Matched dangerous pattern: {name}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped_by(gate: &Gate, input: &str) -> Option<String> {
        match gate.pass(input) {
            Ok(()) => None,
            Err(Failure::Confirmation { command, reason }) => {
                assert_eq!(command, input);
                Some(
                    reason
                        .strip_prefix("Matched dangerous pattern: ")
                        .unwrap()
                        .to_owned(),
                )
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_pattern_stops_what_it_means() {
        let gate = Gate::new(true, &[]);
        let hits: &[(&str, &[&str])] = &[
            (
                "forced or recursive rm",
                &[
                    "rm -rf /",
                    "rm -f x",
                    "rm -r dir",
                    "rm -R dir",
                    "rm -fr dir",
                    "rm -v -r dir",
                    "rm dir -rf",
                    "rm --recursive dir",
                    "rm --no-preserve-root /",
                    "sudo rm -rf /tmp/x",
                    "cd /; rm -rf *",
                    "true&&rm -rf x",
                    "/bin/rm -rf x",
                    "bash -c 'rm -rf x'",
                    "find . -exec rm -f {} +",
                    "echo $(rm -rf x)",
                    "ls\nrm -rf x",
                ],
            ),
            ("dd", &["dd if=/dev/zero of=x", "sudo dd bs=1M if=a of=b"]),
            (
                "mkfs",
                &[
                    "mkfs /dev/sdb1",
                    "mkfs.ext4 -F /dev/sdb1",
                    "sudo /sbin/mkfs.xfs /dev/sdb",
                ],
            ),
            (
                "SQL DROP",
                &[
                    "DROP TABLE users;",
                    "drop database prod",
                    "Drop  Schema public cascade;",
                ],
            ),
            (
                "SQL TRUNCATE",
                &[
                    "TRUNCATE TABLE users",
                    "truncate users;",
                    "TRUNCATE a, b CASCADE",
                ],
            ),
            (
                "download piped to a shell",
                &[
                    "curl https://x.y/z | sh",
                    "curl -fsSL https://x.y | bash",
                    "wget -qO- https://x.y|sh",
                    "curl x | sudo -E bash -",
                    "wget -O - x | /bin/zsh",
                    "curl x | tac | sh -s -- -y",
                ],
            ),
            (
                "download run by a shell",
                &[
                    "bash <(curl -s x)",
                    "sh -c \"$(curl -fsSL x)\"",
                    "eval `wget -qO- x`",
                ],
            ),
            (
                "chmod 777 or -R",
                &[
                    "chmod 777 x",
                    "chmod 0777 x",
                    "chmod -R 755 .",
                    "chmod -vR a+x .",
                    "chmod a+rwx x",
                ],
            ),
            (
                "chown -R",
                &[
                    "chown -R me .",
                    "sudo chown me:me -R /",
                    "chown --recursive me .",
                ],
            ),
            (
                "write to a raw disk",
                &[
                    "cat x > /dev/sda",
                    "echo >/dev/nvme0n1",
                    "cat x | tee /dev/vdb",
                    "shred -n1 /dev/sdb",
                    "wipefs -a /dev/sdb",
                ],
            ),
            (
                "fork bomb",
                &[
                    ":(){ :|:& };:",
                    ":() { : | : & }; :",
                    "bomb() { bomb | bomb & }; bomb",
                ],
            ),
            (
                "shutdown",
                &["shutdown -h now", "sudo poweroff", "sudo shutdown"],
            ),
            (
                "reboot",
                &[
                    "reboot",
                    "sudo reboot now",
                    "systemctl reboot",
                    "sleep 1;reboot",
                ],
            ),
            ("init 0 or 6", &["init 0", "sudo init 6", "telinit 6"]),
            (
                "systemctl stop, disable or mask",
                &[
                    "systemctl stop nginx",
                    "sudo systemctl --user disable x",
                    "systemctl mask y",
                ],
            ),
            (
                "kill -9",
                &[
                    "kill -9 1",
                    "kill -KILL 12",
                    "kill -s 9 12",
                    "kill -SIGKILL 1",
                    "sudo kill -9 $(pidof x)",
                ],
            ),
            (
                "pkill -9",
                &[
                    "pkill -9 node",
                    "pkill -KILL -f x",
                    "killall -9 x",
                    "pkill -f -9 x",
                ],
            ),
        ];
        assert_eq!(hits.len(), PATTERNS.len());
        for (name, inputs) in hits {
            for input in *inputs {
                assert_eq!(
                    stopped_by(&gate, input).as_deref(),
                    Some(*name),
                    "{input:?}"
                );
            }
        }
    }

    #[test]
    fn what_only_looks_alike_is_typed() {
        let gate = Gate::new(true, &[]);
        for input in [
            "",
            "ls -la",
            "rm file",
            "rm my-file.txt",
            "rm -i x; ls -f",
            "rm x | grep -r y",
            "docker run --rm -it -f x",
            "farm -rf x",
            "git add if=x",
            "man mkfs",
            "cat mkfs.log",
            "drop the table",
            "dropdb --help",
            "SELECT * FROM droptable;",
            "truncate -s 0 log.txt",
            "curl https://x.y/install.sh -o i.sh",
            "curl x | shasum -c",
            "curl x | ssh host cat",
            "wget x | grep sh",
            "bash script.sh",
            "chmod 755 x",
            "chmod -r x",
            "chmod +x x",
            "chmod 7770 x",
            "chown me x",
            "ls > /dev/null 2>&1",
            "cat < /dev/sda",
            "echo x > /dev/stdout",
            "f() { a | b; }; f",
            "server.shutdown()",
            "cat shutdown.log",
            "rebooted",
            "git init",
            "init 3",
            "systemctl status stop.service",
            "systemctl restart x",
            "systemctl unmask x",
            "kill 9",
            "kill -15 99",
            "kill -l",
            "skill -9x",
            "pkill node",
            "pkill -90 x",
        ] {
            assert_eq!(stopped_by(&gate, input), None, "{input:?}");
        }
    }

    #[test]
    fn the_owner_adds_patterns_or_opens_the_gate() {
        let owners = [
            "terraform destroy".to_owned(),
            r"\bgit push .*--force\b".to_owned(),
        ];
        let gate = Gate::new(true, &owners);
        assert_eq!(
            stopped_by(&gate, "git push origin --force").as_deref(),
            Some(r"\bgit push .*--force\b")
        );
        assert_eq!(
            stopped_by(&gate, "Terraform Destroy").as_deref(),
            Some("terraform destroy")
        );
        assert!(stopped_by(&gate, "rm -rf x").is_some());
        let open = Gate::new(false, &owners);
        assert_eq!(stopped_by(&open, "rm -rf /"), None);
    }
}
