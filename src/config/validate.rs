//! The rules of the format, one function each, from a [`Draft`] to a [`Config`].
//!
//! A rule whose fields are broken stays silent: what broke them is reported already. So one mistake makes one
//! finding, and a config with several mistakes shows all of them.

use std::{
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use super::{
    Config, Profile, Results, StdinKind,
    document::{At, Draft, DraftProfile, Field, Members, Strings},
    env_names::{self, Why},
    finding::{Findings, one_line, quoted},
    in_memory,
    limits::{self, defaults},
};

/// The config that `draft` describes. `None` only when an error is reported.
pub(super) fn check(draft: Draft, findings: &mut Findings<'_>) -> Option<Config> {
    let object = Some(draft.offset);
    let max_sessions = bounded(
        draft.max_sessions,
        "max_sessions",
        limits::MAX_SESSIONS,
        defaults::MAX_SESSIONS,
        findings,
    );
    let max_records = bounded(
        draft.max_records,
        "max_records",
        limits::MAX_RECORDS,
        defaults::MAX_RECORDS,
        findings,
    );
    let buffer_bytes = bounded(
        draft.buffer_bytes,
        "buffer_bytes",
        limits::BUFFER_BYTES,
        defaults::BUFFER_BYTES,
        findings,
    );
    let buffer_records = buffer_records(draft.buffer_records, findings);
    let default_timeout_ms = bounded(
        draft.default_timeout_ms,
        "default_timeout_ms",
        limits::TIMEOUT_MS,
        defaults::DEFAULT_TIMEOUT_MS,
        findings,
    );
    let max_timeout_ms = bounded(
        draft.max_timeout_ms,
        "max_timeout_ms",
        limits::TIMEOUT_MS,
        defaults::MAX_TIMEOUT_MS,
        findings,
    );
    let retention_seconds = bounded(
        draft.retention_seconds,
        "retention_seconds",
        limits::RETENTION_SECONDS,
        defaults::RETENTION_SECONDS,
        findings,
    );
    let max_input_bytes = bounded(
        draft.max_input_bytes,
        "max_input_bytes",
        limits::MAX_INPUT_BYTES,
        defaults::MAX_INPUT_BYTES,
        findings,
    );
    records_cover_sessions(&max_records, &max_sessions, findings);
    timeout_below_maximum(&default_timeout_ms, &max_timeout_ms, findings);
    all_records(&max_records, &buffer_records, findings);
    all_bytes(&max_records, &buffer_bytes, findings);

    let roots = allowed_roots(draft.allowed_roots, object, findings);
    let default_cwd = required(draft.default_cwd, "default_cwd", object, findings)
        .and_then(|at| directory_inside(&at, &roots, findings));
    let commands = commands(draft.commands, object, findings)?;
    let commands = commands
        .into_iter()
        .map(|at| profile(at, &roots, &max_timeout_ms, findings))
        .collect::<Vec<_>>();
    let results = results(draft.results, findings);

    Some(Config {
        allowed_roots: roots.named?,
        default_cwd: default_cwd?,
        commands: commands.into_iter().collect::<Option<_>>()?,
        max_sessions: in_memory(max_sessions?.value),
        max_records: in_memory(max_records?.value),
        buffer_bytes: in_memory(buffer_bytes?.value),
        buffer_records: buffer_records?.value,
        default_timeout_ms: default_timeout_ms?.value,
        max_timeout_ms: max_timeout_ms?.value,
        retention_seconds: retention_seconds?.value,
        max_input_bytes: in_memory(max_input_bytes?.value),
        results: results?,
    })
}

// Numbers.

/// The field's value within `bounds`, or its default.
fn bounded(
    field: Field<u64>,
    name: &str,
    bounds: RangeInclusive<u64>,
    default: u64,
    findings: &mut Findings<'_>,
) -> Option<At<u64>> {
    match field {
        Field::Absent => Some(At {
            value: default,
            path: name.to_owned(),
            offset: None,
        }),
        Field::Broken => None,
        Field::Given(at) => within(at, &bounds, findings),
    }
}

fn within(
    at: At<u64>,
    bounds: &RangeInclusive<u64>,
    findings: &mut Findings<'_>,
) -> Option<At<u64>> {
    if bounds.contains(&at.value) {
        return Some(at);
    }
    let (low, high) = (bounds.start(), bounds.end());
    findings.error(
        &at.path,
        at.offset,
        format!("is {}, but must be from {low} to {high}", at.value),
        if at.value < *low {
            format!("raise it to {low} or more")
        } else {
            format!("lower it to {high} or less")
        },
    );
    None
}

fn buffer_records(
    field: Field<Option<u64>>,
    findings: &mut Findings<'_>,
) -> Option<At<Option<u64>>> {
    let number = match field {
        Field::Given(at) if at.value.is_none() => return Some(at),
        Field::Given(At {
            value: Some(value),
            path,
            offset,
        }) => Field::Given(At {
            value,
            path,
            offset,
        }),
        Field::Broken => Field::Broken,
        _ => Field::Absent,
    };
    bounded(
        number,
        "buffer_records",
        limits::BUFFER_RECORDS,
        defaults::BUFFER_RECORDS,
        findings,
    )
    .map(|at| at.map(Some))
}

/// A retained session is not given up for a new one, so there must be a record for each that may run.
fn records_cover_sessions(
    max_records: &Option<At<u64>>,
    max_sessions: &Option<At<u64>>,
    findings: &mut Findings<'_>,
) {
    let (Some(records), Some(sessions)) = (max_records, max_sessions) else {
        return;
    };
    if records.value >= sessions.value {
        return;
    }
    let (blamed, message) = if records.offset.is_some() {
        (records, format!("is {}, below {}", records.value, named(sessions)))
    } else {
        (sessions, format!("is {}, above {}", sessions.value, named(records)))
    };
    findings.error(
        &blamed.path,
        blamed.offset,
        message,
        format!("set max_records to {} or more, or lower max_sessions", sessions.value),
    );
}

fn timeout_below_maximum(
    default_timeout_ms: &Option<At<u64>>,
    max_timeout_ms: &Option<At<u64>>,
    findings: &mut Findings<'_>,
) {
    let (Some(default), Some(maximum)) = (default_timeout_ms, max_timeout_ms) else {
        return;
    };
    if default.value <= maximum.value {
        return;
    }
    let (blamed, message) = if default.offset.is_some() {
        (default, format!("is {}, above {}", default.value, named(maximum)))
    } else {
        (maximum, format!("is {}, below {}", maximum.value, named(default)))
    };
    findings.error(
        &blamed.path,
        blamed.offset,
        message,
        format!("set default_timeout_ms to {} or less, or raise max_timeout_ms", maximum.value),
    );
}

fn all_records(
    max_records: &Option<At<u64>>,
    buffer_records: &Option<At<Option<u64>>>,
    findings: &mut Findings<'_>,
) {
    let (Some(records), Some(per_record)) = (max_records, buffer_records) else {
        return;
    };
    let Some(code_points) = per_record.value else {
        return;
    };
    let per_record = per_record.clone().map(|_| code_points);
    product(records, &per_record, limits::MAX_ALL_BUFFER_RECORDS, findings);
}

fn all_bytes(
    max_records: &Option<At<u64>>,
    buffer_bytes: &Option<At<u64>>,
    findings: &mut Findings<'_>,
) {
    if let (Some(records), Some(per_record)) = (max_records, buffer_bytes) {
        product(records, per_record, limits::MAX_ALL_BUFFER_BYTES, findings);
    }
}

/// `records * per_record` stays within `most`. Both are within their own bounds, so the product can't overflow.
fn product(records: &At<u64>, per_record: &At<u64>, most: u64, findings: &mut Findings<'_>) {
    let product = records.value * per_record.value;
    if product <= most {
        return;
    }
    let (blamed, other) = if per_record.offset.is_some() {
        (per_record, records)
    } else {
        (records, per_record)
    };
    findings.error(
        &blamed.path,
        blamed.offset,
        format!(
            "is {}, which times {} makes {product}, but at most {most} may be kept",
            blamed.value,
            named(other)
        ),
        format!("lower it to {} or less, or lower {}", most / other.value, other.path),
    );
}

/// A field with its value, as another field's finding speaks of it.
fn named(at: &At<u64>) -> String {
    let origin = if at.offset.is_none() { " (its default)" } else { "" };
    format!("{} {}{origin}", at.path, at.value)
}

// Directories.

/// The roots as they are named, and where they really are; absent as soon as one is broken, because then nobody can
/// say what lies outside all of them.
struct Roots {
    named: Option<Vec<PathBuf>>,
    real: Vec<PathBuf>,
}

fn allowed_roots(field: Field<Strings>, object: Option<usize>, findings: &mut Findings<'_>) -> Roots {
    let broken = Roots {
        named: None,
        real: Vec::new(),
    };
    let Some(array) = required(field, "allowed_roots", object, findings) else {
        return broken;
    };
    if array.value.is_empty() {
        findings.error(
            &array.path,
            array.offset,
            "is empty, but must name at least one directory",
            "name the directories that commands may work in",
        );
        return broken;
    }
    let count = array.value.len();
    let (mut named, mut real) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for root in array.value.into_iter().flatten() {
        if let Some(place) = existing_directory(&root, findings) {
            if place == Path::new("/") {
                findings.warning(
                    &root.path,
                    root.offset,
                    format!("is {}, so every directory of the machine is allowed", quoted(&root.value)),
                    "name a narrower one if you can",
                );
            }
            named.push(PathBuf::from(root.value));
            real.push(place);
        }
    }
    Roots {
        named: (named.len() == count).then_some(named),
        real,
    }
}

/// Where the directory really is, links resolved.
fn existing_directory(at: &At<String>, findings: &mut Findings<'_>) -> Option<PathBuf> {
    let shown = quoted(&at.value);
    let mut refuse = |message: String, hint: &str| {
        findings.error(&at.path, at.offset, message, hint);
        None
    };
    if !at.value.starts_with('/') {
        let hint = if at.value.starts_with('~') {
            "begin it with \"/\"; \"~\" is not expanded"
        } else {
            "begin it with \"/\""
        };
        return refuse(format!("is {shown}, but must be an absolute path"), hint);
    }
    if at.value.contains('\0') {
        return refuse(format!("is {shown}, which holds a NUL"), "remove it");
    }
    let real = match fs::canonicalize(&at.value) {
        Ok(real) => real,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return refuse(
                format!("is {shown}, which does not exist"),
                "create the directory, or correct the path",
            );
        }
        Err(error) => {
            return refuse(
                format!("is {shown}, which can't be reached: {error}"),
                "correct the path or its permissions",
            );
        }
    };
    if !real.is_dir() {
        return refuse(format!("is {shown}, which is not a directory"), "name a directory");
    }
    Some(real)
}

/// An existing directory inside a root, compared component by component after resolution.
fn directory_inside(
    at: &At<String>,
    roots: &Roots,
    findings: &mut Findings<'_>,
) -> Option<PathBuf> {
    let real = existing_directory(at, findings)?;
    if roots.named.is_some() && !roots.real.iter().any(|root| real.starts_with(root)) {
        let place = if real == Path::new(&at.value) {
            String::new()
        } else {
            format!(" (really {})", quoted(&real.to_string_lossy()))
        };
        findings.error(
            &at.path,
            at.offset,
            format!("is {}{place}, which lies outside every allowed root", quoted(&at.value)),
            "choose a directory inside one, or add a root",
        );
        return None;
    }
    Some(PathBuf::from(&at.value))
}

// Commands.

fn commands(
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

fn profile(
    at: At<(String, DraftProfile)>,
    roots: &Roots,
    max_timeout_ms: &Option<At<u64>>,
    findings: &mut Findings<'_>,
) -> Option<Profile> {
    let At {
        value: (id, draft),
        path,
        offset,
    } = at;
    let id_is_good = command_id(&id, &path, offset, findings);
    let argv = argv(draft.argv, &path, offset, findings);
    let allowed_env = allowed_env(draft.allowed_env, findings);
    let description = description(draft.description, findings);
    let env = fixed_env(draft.env, findings);
    let cwd = optional(draft.cwd, |at| directory_inside(&at, roots, findings));
    let timeout_ms = optional(draft.timeout_ms, |at| {
        profile_timeout(at, max_timeout_ms, findings)
    });
    let stdin = stdin(draft.stdin, findings);
    Some(Profile {
        id: id_is_good.then_some(id)?,
        argv: argv?,
        allowed_env: allowed_env?,
        description: description?,
        env: env?,
        cwd: cwd?,
        timeout_ms: timeout_ms?,
        stdin: stdin?,
    })
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
            format!("is {}, but must be an absolute path", quoted(&program.value)),
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
                format!("is {}, which no client may set because it {why}", quoted(&name.value)),
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
            format!("is {}, but must be one line of plain text", quoted(&at.value)),
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
                format!("{} is no variable name: it {}", quoted(&name), Why::NotAName),
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
    if let Some(maximum) = max_timeout_ms.as_ref().filter(|maximum| at.value > maximum.value) {
        findings.error(
            &at.path,
            at.offset,
            format!("is {}, above {}", at.value, named(maximum)),
            format!("lower it to {} or less, or raise max_timeout_ms", maximum.value),
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

fn results(field: Field<String>, findings: &mut Findings<'_>) -> Option<Results> {
    let chosen = optional(field, |at| match at.value.as_str() {
        "both" => Some(Results::Both),
        "structured" => Some(Results::Structured),
        "text" => Some(Results::Text),
        _ => choice(&at, "\"both\", \"structured\" or \"text\"", findings),
    });
    chosen.map(Option::unwrap_or_default)
}

// Fields.

fn choice<T>(at: &At<String>, choices: &str, findings: &mut Findings<'_>) -> Option<T> {
    findings.error(
        &at.path,
        at.offset,
        format!("is {}, but must be {choices}", quoted(&at.value)),
        "choose one of them, or leave the field out",
    );
    None
}

/// A field that may be left out: `Some(None)` when it is, `None` when it is wrong.
fn optional<T, U>(field: Field<T>, read: impl FnOnce(At<T>) -> Option<U>) -> Option<Option<U>> {
    match field {
        Field::Absent => Some(None),
        Field::Broken => None,
        Field::Given(at) => read(at).map(Some),
    }
}

/// A field that must be there; `object` is where the object that lacks it begins.
fn required<T>(
    field: Field<T>,
    path: &str,
    object: Option<usize>,
    findings: &mut Findings<'_>,
) -> Option<At<T>> {
    match field {
        Field::Absent => {
            findings.error(path, object, "is missing, but is required", "add it");
            None
        }
        Field::Broken => None,
        Field::Given(at) => Some(at),
    }
}
