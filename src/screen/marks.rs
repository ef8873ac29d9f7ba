//! What a shell tells of its commands: OSC 133 (prompt, command, output, exit code).

/// Where a shell that marks its prompts stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommandState {
    /// No mark has come.
    #[default]
    Unknown,
    /// A: the prompt is being printed.
    Prompt,
    /// B: the prompt ends, the command is being typed.
    Running,
    /// C: the command has been started.
    Output,
    /// D: the command has ended.
    Idle,
}

/// The shell marks (OSC 133) that have come so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Whether there was any.
    pub seen: bool,
    /// What the last one says.
    pub state: CommandState,
    /// The exit code of the last D mark, when it had one.
    pub exit_code: Option<i32>,
    /// How many D marks have come: how many commands have ended.
    pub finished: u64,
}

impl Marks {
    /// Takes in what stands after `133;` in the sequence. Fields that are unknown to us (`aid=…`, `cl=…`) are passed over.
    pub(super) fn take(&mut self, fields: &str) {
        let mut fields = fields.split(';');
        self.state = match fields.next() {
            Some("A" | "N") => CommandState::Prompt,
            Some("B" | "I") => CommandState::Running,
            Some("C") => CommandState::Output,
            Some("D") => {
                self.exit_code = fields.next().and_then(|code| code.parse().ok());
                self.finished += 1;
                CommandState::Idle
            }
            _ => return,
        };
        self.seen = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(marks: &[&str]) -> Marks {
        let mut so_far = Marks::default();
        for fields in marks {
            so_far.take(fields);
        }
        so_far
    }

    #[test]
    fn a_command_goes_from_its_prompt_to_its_exit_code() {
        assert_eq!(after(&[]), Marks::default());
        assert_eq!(after(&["A"]).state, CommandState::Prompt);
        assert_eq!(after(&["A", "B"]).state, CommandState::Running);
        assert_eq!(after(&["A", "B", "C"]).state, CommandState::Output);
        assert_eq!(
            after(&["A", "B", "C", "D;3"]),
            Marks {
                seen: true,
                state: CommandState::Idle,
                exit_code: Some(3),
                finished: 1
            }
        );
    }

    #[test]
    fn a_mark_of_the_end_without_a_code_forgets_the_last_one() {
        let marks = after(&["D;1", "D"]);
        assert_eq!((marks.exit_code, marks.finished), (None, 2));
        assert_eq!(after(&["D;0;aid=7"]).exit_code, Some(0));
        assert_eq!(after(&["D;-1"]).exit_code, Some(-1));
        assert_eq!(after(&["D;99999999999"]).exit_code, None);
    }

    #[test]
    fn further_fields_and_unknown_marks_are_passed_over() {
        assert_eq!(after(&["A;cl=m;aid=12"]).state, CommandState::Prompt);
        assert_eq!(after(&["P;k=i"]), Marks::default());
        assert_eq!(after(&["A", "", "Z"]).state, CommandState::Prompt);
    }
}
