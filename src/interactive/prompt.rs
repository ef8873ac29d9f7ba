//! Whether a line that isn't finished looks like one that asks for input. A guess by its last characters: whoever acts on it
//! makes sure that the program waits for input, too.

/// Lines that ask without one of the usual characters at the end.
const WHOLE: [&str; 3] = ["...", "(END)", "--More--"];

/// Whether `line`, up to the cursor and without escape sequences, looks like a prompt.
pub(super) fn is_prompt(line: &str) -> bool {
    let line = line.trim();
    let Some(last) = line.chars().next_back() else {
        return false;
    };
    let before = &line[..line.len() - last.len_utf8()];
    match last {
        '$' | '#' | '>' | ':' | '?' | '❯' | '›' | '»' | '➜' | 'λ' => true,
        // A share of something is none.
        '%' => !before.ends_with(|char: char| char.is_ascii_digit() || char == ' '),
        // (y/n), [Y/n], (gdb), (Pdb).
        ')' | ']' => asks_in_brackets(before, last) || WHOLE.contains(&line),
        _ => WHOLE.contains(&line) || names_a_host(line),
    }
}

/// Whether it ends as prompts of shells do.
pub(super) fn is_shell_prompt(line: &str) -> bool {
    let line = line.trim_end();
    line.ends_with(['$', '#', '>', '%', '❯', '›', '»', '➜', 'λ'])
}

/// Whether the brackets that `close` ends hold a choice, or are the whole line.
fn asks_in_brackets(before: &str, close: char) -> bool {
    let open = if close == ')' { '(' } else { '[' };
    let Some(at) = before.rfind(open) else {
        return false;
    };
    let inside = &before[at + 1..];
    let is_word = |text: &str| {
        let mut chars = text.chars();
        !text.is_empty() && chars.all(|char| char.is_ascii_alphanumeric() || "-_".contains(char))
    };
    let choice = inside.contains('/') && inside.split('/').all(is_word);
    choice || (close == ')' && at == 0 && is_word(inside))
}

/// Whether something like `user@host:` or `user@host ~` is in it.
fn names_a_host(line: &str) -> bool {
    line.match_indices('@').any(|(at, _)| {
        let user = line[..at].ends_with(|char: char| char.is_alphanumeric() || char == '_');
        let host = line[at + 1..]
            .trim_start_matches(|char: char| char.is_alphanumeric() || "_.-".contains(char));
        user && host.len() < line.len() - at - 1 && host.starts_with([':', '#', '~'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_of_shells_repls_clients_and_questions_are_seen() {
        for line in [
            "$ ",
            "# ",
            "> ",
            ">>> ",
            "... ",
            "% ",
            "bash-5.2$ ",
            "user@host:~/src$ ",
            "[root@host /]# ",
            "host% ",
            "user@host:~/src",
            "❯ ",
            "mysql> ",
            "    -> ",
            "postgres=# ",
            "postgres-> ",
            "sqlite> ",
            "   ...> ",
            "127.0.0.1:6379> ",
            "irb(main):001:0> ",
            "In [1]: ",
            "iex(1)> ",
            "(gdb) ",
            "(Pdb) ",
            "Password: ",
            "user@host's password:",
            "Continue? (y/n) ",
            "Do it [Y/n] ",
            "Continue connecting (yes/no/[fingerprint])? ",
            "login: ",
            ":",
            "(END)",
            "--More--",
        ] {
            assert!(is_prompt(line), "{line:?}");
        }
    }

    #[test]
    fn other_unfinished_lines_are_none() {
        for line in [
            "",
            "   ",
            "Compiling foo v1.0",
            "100%",
            "Progress: 42 %",
            "loading...",
            "done (3 files)",
            "[####    ]",
            "see a/b (or c)",
            "mail me@home",
            "f(x)",
            "a [b]",
        ] {
            assert!(!is_prompt(line), "{line:?}");
        }
    }
}
