//! Rules of the approved commands and of the fields of one.

use std::ops::RangeInclusive;

use super::{
    At, DraftLimits, DraftProfile, Executables, Field, Findings, JobLimits, Members, Profile,
    Restrictions, StdinKind, Strings, choice,
    directories::{Roots, directory_inside},
    env_names::{self, Why},
    limits,
    numbers::{named, within},
    one_line, optional, quoted, required,
    sandbox::sandbox,
    tty::tty,
};

pub(super) fn commands(
    field: Field<Members<DraftProfile>>,
    object: Option<usize>,
    findings: &mut Findings<'_>,
) -> Option<Members<DraftProfile>> {
    let commands = required(field, "commands", object, findings)?;
    let count = commands.value.len();
    if !limits::COMMANDS.contains(&count) {
        let (low, high) = (limits::COMMANDS.start(), limits::COMMANDS.end());
        findings.error(
            &commands.path,
            commands.offset,
            format!("holds {count} commands, but must hold {low} to {high}"),
            if count < *low {
                "approve a command: \"ID\": {\"argv\": [\"/path/to/program\"]}"
            } else {
                "remove some, or serve them from two configs"
            },
        );
    }
    Some(commands.value)
}

pub(super) fn profile(
    at: At<(String, DraftProfile)>,
    roots: &Roots,
    max_timeout_ms: &Option<At<u64>>,
    executables: &mut Executables,
    findings: &mut Findings<'_>,
) -> Option<Profile> {
    let At {
        value: (id, draft),
        path,
        offset,
    } = at;
    let id_is_good = command_id(&id, &path, offset, findings);
    let program = program(&draft.argv);
    let argv = argv(draft.argv, &path, offset, findings);
    let sha256 = executables.check(program.as_ref(), draft.sha256, findings);
    let allowed_env = allowed_env(draft.allowed_env, findings);
    let description = description(draft.description, findings);
    let env = fixed_env(draft.env, findings);
    let cwd = optional(draft.cwd, |at| directory_inside(&at, roots, findings));
    let timeout_ms = optional(draft.timeout_ms, |at| {
        profile_timeout(at, max_timeout_ms, findings)
    });
    let stdin = stdin(draft.stdin, findings);
    let allow_detach = optional(draft.allow_detach, |at| Some(at.value));
    let job_limits = job_limits(draft.limits, findings);
    let nice = number(draft.nice, &limits::NICE, findings);
    let umask = optional(draft.umask, |at| umask(&at, findings));
    let sandbox = sandbox(draft.sandbox, program.as_ref(), findings);
    let tty = tty(draft.tty, stdin, findings);
    Some(Profile {
        id: id_is_good.then_some(id)?,
        argv: argv?,
        allowed_env: allowed_env?,
        description: description?,
        env: env?,
        cwd: cwd?,
        timeout_ms: timeout_ms?,
        stdin: stdin?,
        allow_detach: allow_detach?.unwrap_or_default(),
        restrictions: Restrictions {
            limits: job_limits?,
            nice: nice?,
            umask: umask?,
        },
        sha256: sha256?,
        sandbox: sandbox?,
        tty: tty?,
    })
}

fn number(
    field: Field<u64>,
    bounds: &RangeInclusive<u64>,
    findings: &mut Findings<'_>,
) -> Option<Option<u64>> {
    optional(field, |at| within(at, bounds, findings).map(|at| at.value))
}

fn job_limits(draft: DraftLimits, findings: &mut Findings<'_>) -> Option<JobLimits> {
    let cpu_seconds = number(draft.cpu_seconds, &limits::CPU_SECONDS, findings);
    let memory_bytes = number(draft.memory_bytes, &limits::MEMORY_BYTES, findings);
    let processes = number(draft.processes, &limits::PROCESSES, findings);
    let open_files = number(draft.open_files, &limits::OPEN_FILES, findings);
    let file_bytes = number(draft.file_bytes, &limits::FILE_BYTES, findings);
    Some(JobLimits {
        cpu_seconds: cpu_seconds?,
        memory_bytes: memory_bytes?,
        processes: processes?,
        open_files: open_files?,
        file_bytes: file_bytes?,
    })
}

/// Octal digits as umask(1) takes them; a number would be read as decimal.
fn umask(at: &At<String>, findings: &mut Findings<'_>) -> Option<u64> {
    let digits = at.value.as_str();
    let octal =
        (3..=4).contains(&digits.len()) && digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
    let mask = octal.then(|| u64::from_str_radix(digits, 8).ok()).flatten();
    let mask = mask.filter(|mask| *mask <= 0o777);
    if mask.is_none() {
        findings.error(
            &at.path,
            at.offset,
            format!(
                "is {}, but must be octal digits from \"000\" to \"777\"",
                quoted(digits)
            ),
            "write it as umask takes it: \"022\", \"077\"",
        );
    }
    mask
}

fn command_id(id: &str, path: &str, offset: Option<usize>, findings: &mut Findings<'_>) -> bool {
    let chars = id.chars().count();
    if !(1..=limits::MAX_COMMAND_ID_CHARS).contains(&chars) {
        findings.error(
            path,
            offset,
            format!(
                "has an id of {chars} characters, but must have 1 to {}",
                limits::MAX_COMMAND_ID_CHARS
            ),
            "a client names the command by it: keep it short and plain",
        );
        return false;
    }
    if one_line(id) != id {
        findings.warning(
            path,
            offset,
            "has an id with control characters, which a model can hardly repeat",
            "use letters, digits and hyphens",
        );
    }
    true
}

/// The executable, if it is one that rules can look at.
fn program(argv: &Field<Strings>) -> Option<At<String>> {
    let Field::Given(argv) = argv else {
        return None;
    };
    let program = argv.value.first()?.as_ref();
    let is_path = |at: &&At<String>| at.value.starts_with('/') && !at.value.contains('\0');
    program.filter(is_path).cloned()
}

fn argv(
    field: Field<Strings>,
    profile: &str,
    profile_offset: Option<usize>,
    findings: &mut Findings<'_>,
) -> Option<Vec<String>> {
    let argv = required(field, &format!("{profile}.argv"), profile_offset, findings)?;
    let Some(program) = argv.value.first() else {
        findings.error(
            &argv.path,
            argv.offset,
            "is empty, but must name a program",
            "give the program's absolute path, then its arguments",
        );
        return None;
    };
    let mut good = true;
    if let Some(program) = program.as_ref().filter(|at| !at.value.starts_with('/')) {
        good = false;
        findings.error(
            &program.path,
            program.offset,
            format!(
                "is {}, but must be an absolute path",
                quoted(&program.value)
            ),
            "no PATH is searched and no shell runs: find the program with `command -v`",
        );
    }
    for argument in argv.value.iter().flatten() {
        good &= without_nul(argument, findings);
    }
    let arguments: Option<Vec<String>> = argv
        .value
        .into_iter()
        .map(|argument| argument.map(|at| at.value))
        .collect();
    arguments.filter(|_| good)
}

fn without_nul(at: &At<String>, findings: &mut Findings<'_>) -> bool {
    let good = !at.value.contains('\0');
    if !good {
        findings.error(
            &at.path,
            at.offset,
            format!("is {}, which holds a NUL", quoted(&at.value)),
            "remove it; the kernel ends the string there",
        );
    }
    good
}

fn allowed_env(field: Field<Strings>, findings: &mut Findings<'_>) -> Option<Vec<String>> {
    let names = match field {
        Field::Absent => return Some(Vec::new()),
        Field::Broken => return None,
        Field::Given(names) => names.value,
    };
    let mut good = true;
    for name in names.iter().flatten() {
        if let Some(why) = env_names::denied(&name.value) {
            good = false;
            findings.error(
                &name.path,
                name.offset,
                format!(
                    "is {}, which no client may set because it {why}",
                    quoted(&name.value)
                ),
                match why {
                    Why::NotAName => "correct the name",
                    _ => "remove it, or fix the value in the profile's env",
                },
            );
        }
    }
    let names: Option<Vec<String>> = names
        .into_iter()
        .map(|name| name.map(|at| at.value))
        .collect();
    names.filter(|_| good)
}

fn description(field: Field<String>, findings: &mut Findings<'_>) -> Option<Option<String>> {
    optional(field, |at| {
        if one_line(&at.value) == at.value {
            return Some(at.value);
        }
        findings.error(
            &at.path,
            at.offset,
            format!(
                "is {}, but must be one line of plain text",
                quoted(&at.value)
            ),
            "remove line ends and control characters",
        );
        None
    })
}

/// The Owner's own variables may have any valid name. What a loader reads is worth a word.
fn fixed_env(
    field: Field<Members<Option<String>>>,
    findings: &mut Findings<'_>,
) -> Option<Vec<(String, String)>> {
    let members = match field {
        Field::Absent => return Some(Vec::new()),
        Field::Broken => return None,
        Field::Given(members) => members.value,
    };
    let mut env = Some(Vec::with_capacity(members.len()));
    for At {
        value: (name, value),
        path,
        offset,
    } in members
    {
        let mut good = env_names::is_name(&name);
        if !good {
            findings.error(
                &path,
                offset,
                format!(
                    "{} is no variable name: it {}",
                    quoted(&name),
                    Why::NotAName
                ),
                "correct the name",
            );
        }
        if let Some(Why::Prefix(prefix @ ("LD_" | "DYLD_"))) = env_names::denied(&name) {
            findings.warning(
                &path,
                offset,
                format!("changes how the program is loaded: it begins with {prefix}"),
                "keep it only if that is what you want",
            );
        }
        if let Some(value) = &value
            && value.contains('\0')
        {
            good = false;
            findings.error(
                &path,
                offset,
                format!("is {}, which holds a NUL", quoted(value)),
                "remove it; the kernel ends the string there",
            );
        }
        env = match (env, value) {
            (Some(mut env), Some(value)) if good => {
                env.push((name, value));
                Some(env)
            }
            _ => None,
        };
    }
    env
}

fn profile_timeout(
    at: At<u64>,
    max_timeout_ms: &Option<At<u64>>,
    findings: &mut Findings<'_>,
) -> Option<u64> {
    let at = within(at, &limits::TIMEOUT_MS, findings)?;
    if let Some(maximum) = max_timeout_ms
        .as_ref()
        .filter(|maximum| at.value > maximum.value)
    {
        findings.error(
            &at.path,
            at.offset,
            format!("is {}, above {}", at.value, named(maximum)),
            format!(
                "lower it to {} or less, or raise max_timeout_ms",
                maximum.value
            ),
        );
        return None;
    }
    Some(at.value)
}

fn stdin(field: Field<String>, findings: &mut Findings<'_>) -> Option<StdinKind> {
    let chosen = optional(field, |at| match at.value.as_str() {
        "pipe" => Some(StdinKind::Pipe),
        "null" => Some(StdinKind::Null),
        _ => choice(&at, "\"pipe\" or \"null\"", findings),
    });
    chosen.map(Option::unwrap_or_default)
}
