"""What a sensible model calls on each server for each job, by that server's own descriptions.

A script is a generator: it yields a tool's name and arguments and is sent the text that the model is shown. It may use what it
was shown, and nothing else. It ends when the answer is in hand; the bench checks that it is.

Three of the four servers take any shell command. Their scripts pipe to grep or tail where one knows before that the output
is long, as a model with a shell does; ours starts what the Owner has approved, and reads less of it.
"""

import json
import re
from collections.abc import Callable, Generator

Script = Generator[tuple[str, dict], str, None]

# What the model is asked for, and what has to be among all that it was shown.
ANSWERS = {
    "failing cargo build": r"E0308.*mismatched types",
    "green cargo test": r"300 passed; 0 failed",
    "npm install": r"added 412 packages",
    "dev server until ready": r"ready on http://localhost:5173",
    "Python REPL, two inputs": r"499999500000(.|\n)*3026",
    "100 MB log, one error": r"ERROR row 0505000: duplicate key ord-7731",
    "pytest, 2 of 61 fail": r"assert 41 != 41(.|\n)*2 failed",
    "make, 180 kB in 40 s": r"build/part_118.o build/part_119.o",
    "curl, 5,000 redraws": r"100 7812k  100 7812k",
    "terraform, plan and yes": r"Plan: 3 to add(.|\n)*Apply complete! Resources: 3 added",
}
SUM = "total = sum(range(10**6)); print(total)"
DIGITS = "print(total % 4409)"


# sluicegate. Instructions: start with wait_ms; is it still running, read until end or a pattern; a small budget for long output.


def ours_run(command_id: str, **more) -> Callable[[], Script]:
    """One call: the description says that a start with wait_ms answers at the end, with exit code and output."""

    def script() -> Script:
        yield "terminal_start", {"command_id": command_id, "wait_ms": 55_000, **more}

    return script


def session(shown: str) -> str:
    return json.loads(shown)["session_id"]


def ours_dev() -> Script:
    # It doesn't end: a short wait_ms, and if the word isn't there yet, a read that waits for it.
    shown = yield "terminal_start", {"command_id": "npm-run-dev", "wait_ms": 5_000}
    if "ready on" not in shown:
        wanted = {"pattern": "ready on .*"}
        arguments = {"session_id": session(shown), "until": wanted, "wait_ms": 50_000}
        yield "terminal_read", arguments


def ours_repl() -> Script:
    # `input` is stdin at start; a short wait_ms, since Python stays.
    first = {"command_id": "python", "input": SUM + "\n", "wait_ms": 1_000}
    started = yield "terminal_start", first
    written = yield "terminal_write", {"session_id": session(started), "text": DIGITS + "\n"}
    yield from ours_answer(started, written, {"pattern": r"\d+"})


def ours_apply() -> Script:
    started = yield "terminal_start", {"command_id": "terraform-apply", "wait_ms": 3_000}
    if "Enter a value" not in started:
        wanted = {"pattern": "Enter a value"}
        arguments = {"session_id": session(started), "until": wanted, "wait_ms": 50_000}
        yield "terminal_read", arguments
    written = yield "terminal_write", {"session_id": session(started), "text": "yes\n"}
    yield from ours_answer(started, written, "end")


def ours_answer(started: str, written: str, until: dict | str) -> Script:
    """What comes of a write: "What the process answers comes at next_cursor or later"."""
    cursor = json.loads(written)["next_cursor"]
    arguments = {"session_id": session(started), "cursor": cursor, "until": until, "wait_ms": 50_000}
    yield "terminal_read", arguments


def ours_log() -> Script:
    # More than is retained: the pattern is matched as the text comes, from the tail of what is there at the call on. max_bytes
    # bounds what is shown before the match.
    started = yield "terminal_start", {"command_id": "import-orders"}
    yield (
        "terminal_read",
        {
            "session_id": session(started),
            "from": "tail",
            "until": {"pattern": "ERROR.*"},
            "max_bytes": 256,
            "wait_ms": 55_000,
        },
    )


OURS = {
    "failing cargo build": ours_run("cargo-build", output_bytes=1024),
    "green cargo test": ours_run("cargo-test", output_bytes=512),
    "npm install": ours_run("npm-install"),
    "dev server until ready": ours_dev,
    "Python REPL, two inputs": ours_repl,
    "100 MB log, one error": ours_log,
    "pytest, 2 of 61 fail": ours_run("pytest"),
    # Only the end counts of a long build and of a transfer.
    "make, 180 kB in 40 s": ours_run("make", output_bytes=512),
    "curl, 5,000 redraws": ours_run("curl", output_bytes=512),
    "terraform, plan and yes": ours_apply,
}

# terminal-mcp. session_exec: "Execute a command in a temporary session and return the output"; its timeout is 5 s unless said.
# session_wait_for: "Use this instead of session_read when you know what output to expect".


def pty_run(command: str, timeout: int = 15) -> Callable[[], Script]:
    def script() -> Script:
        yield "session_exec", {"exec": command, "timeout": timeout}

    return script


def pty_session(shown: str) -> str:
    return re.search(r"[0-9a-f]{8}[0-9a-f-]*", shown)[0]


def pty_dev() -> Script:
    created = yield "session_create", {"command": "npm run dev"}
    yield "session_wait_for", {"session_id": pty_session(created), "pattern": "ready on .*"}


def pty_repl() -> Script:
    # session_interact: "Combines session_send + session_read to halve round trips".
    created = yield "session_create", {"command": "python3 -i"}
    name = pty_session(created)
    yield "session_interact", {"session_id": name, "input": SUM, "wait_for": r"^\d+"}
    yield "session_interact", {"session_id": name, "input": DIGITS, "wait_for": r"^\d+"}


def pty_apply() -> Script:
    created = yield "session_create", {"command": "terraform apply"}
    name = pty_session(created)
    yield "session_wait_for", {"session_id": name, "pattern": "Enter a value"}
    yield (
        "session_interact",
        {"session_id": name, "input": "yes", "wait_for": "Apply complete!.*", "timeout": 60},
    )


TERMINAL_MCP = {
    "failing cargo build": pty_run("cargo build 2>&1 | tail -30"),
    "green cargo test": pty_run("cargo test 2>&1 | tail -5"),
    "npm install": pty_run("npm install"),
    "dev server until ready": pty_dev,
    "Python REPL, two inputs": pty_repl,
    "100 MB log, one error": pty_run("import-orders | grep ERROR"),
    "pytest, 2 of 61 fail": pty_run("pytest"),
    "make, 180 kB in 40 s": pty_run("make -j4 2>&1 | tail -5", timeout=50),
    "curl, 5,000 redraws": pty_run("curl -O https://example.org/a.tar 2>&1 | tail -c 300"),
    "terraform, plan and yes": pty_apply,
}

# Desktop Commander. start_process wants timeout_ms: it waits so long for the end, or for a prompt; "Process running (use
# read_process_output)" after that. interact_with_process sends a line and returns what comes of it.


def commander_run(command: str) -> Callable[[], Script]:
    def script() -> Script:
        shown = yield "start_process", {"command": command, "timeout_ms": 55_000}
        # An answer that has output is one to go by, also when it doesn't say that the command has ended.
        yield from commander_rest(shown)

    return script


def commander_rest(shown: str) -> Script:
    pid = int(re.search(r"PID:? (\d+)", shown)[1])
    for _ in range(10):
        if re.search(r"Initial output:\s*\S|finished|completed|exit code", shown):
            return
        shown = yield "read_process_output", {"pid": pid, "timeout_ms": 55_000}


def commander_dev() -> Script:
    shown = yield "start_process", {"command": "npm run dev", "timeout_ms": 10_000}
    pid = int(re.search(r"PID:? (\d+)", shown)[1])
    for _ in range(10):
        if "ready on" in shown:
            return
        shown = yield "read_process_output", {"pid": pid, "timeout_ms": 10_000}


def commander_repl() -> Script:
    # "start_process("python3 -i") → Start an interactive Python REPL".
    shown = yield "start_process", {"command": "python3 -i", "timeout_ms": 5_000}
    pid = int(re.search(r"PID:? (\d+)", shown)[1])
    yield "interact_with_process", {"pid": pid, "input": SUM}
    yield "interact_with_process", {"pid": pid, "input": DIGITS}


def commander_apply() -> Script:
    shown = yield "start_process", {"command": "terraform apply", "timeout_ms": 30_000}
    pid = int(re.search(r"PID:? (\d+)", shown)[1])
    for _ in range(10):
        if "Enter a value" in shown:
            break
        shown = yield "read_process_output", {"pid": pid, "timeout_ms": 10_000}
    shown = yield "interact_with_process", {"pid": pid, "input": "yes", "timeout_ms": 30_000}
    for _ in range(10):
        if "Apply complete" in shown:
            return
        shown = yield "read_process_output", {"pid": pid, "timeout_ms": 10_000}


COMMANDER = {
    "failing cargo build": commander_run("cargo build 2>&1 | tail -30"),
    "green cargo test": commander_run("cargo test 2>&1 | tail -5"),
    "npm install": commander_run("npm install"),
    "dev server until ready": commander_dev,
    "Python REPL, two inputs": commander_repl,
    "100 MB log, one error": commander_run("import-orders | grep ERROR"),
    "pytest, 2 of 61 fail": commander_run("pytest"),
    "make, 180 kB in 40 s": commander_run("make -j4 2>&1 | tail -5"),
    "curl, 5,000 redraws": commander_run("curl -O https://example.org/a.tar 2>&1 | tail -c 300"),
    "terraform, plan and yes": commander_apply,
}

# mcp-yieldshell. execute waits for the end, 30 s unless yield_ms says otherwise; side_effects is required. wait goes on waiting
# for the end; read takes what is new, without waiting. Nothing waits for a word.

BUILDS = ["MODIFIES_WORKSPACE_FILES"]
FETCHES = ["CHANGES_PACKAGES_OR_DEPENDENCIES", "MAKES_NETWORK_REQUESTS"]


def yielding_run(command: str, side_effects: list[str]) -> Callable[[], Script]:
    def script() -> Script:
        yield (
            "execute",
            {"command": command, "side_effects": side_effects, "yield_ms": 55_000},
        )

    return script


def yielding_until(name: str, pattern: str, shown: str) -> Script:
    """Asks again while what it waits for isn't there: with wait, which comes back early when the process ends."""
    for _ in range(20):
        if re.search(pattern, shown):
            return
        shown = yield "wait", {"execution_id": name, "timeout_ms": 3_000}


def execution(shown: str) -> str:
    return json.loads(shown)["execution_id"]


def yielding_dev() -> Script:
    shown = yield (
        "execute",
        {"command": "npm run dev", "side_effects": BUILDS, "yield_ms": 5_000},
    )
    yield from yielding_until(execution(shown), "ready on", shown)


def yielding_repl() -> Script:
    # `stdin` is given at once; a short yield_ms, since Python stays.
    shown = yield (
        "execute",
        {
            "command": "python3 -i",
            "side_effects": ["NONE"],
            "stdin": SUM + "\n",
            "close_stdin": False,
            "yield_ms": 1_000,
        },
    )
    name = execution(shown)
    yield "write", {"execution_id": name, "input": DIGITS, "newline": True}
    yield "read", {"execution_id": name}


def yielding_apply() -> Script:
    shown = yield (
        "execute",
        {
            "command": "terraform apply",
            "side_effects": BUILDS,
            "close_stdin": False,
            "yield_ms": 3_000,
        },
    )
    name = execution(shown)
    yield from yielding_until(name, "Enter a value", shown)
    yield "write", {"execution_id": name, "input": "yes", "newline": True}
    yield "wait", {"execution_id": name}


YIELDSHELL = {
    "failing cargo build": yielding_run("cargo build 2>&1 | tail -30", BUILDS),
    "green cargo test": yielding_run("cargo test 2>&1 | tail -5", BUILDS),
    "npm install": yielding_run("npm install", FETCHES),
    "dev server until ready": yielding_dev,
    "Python REPL, two inputs": yielding_repl,
    "100 MB log, one error": yielding_run("import-orders | grep ERROR", BUILDS),
    "pytest, 2 of 61 fail": yielding_run("pytest", ["NONE"]),
    "make, 180 kB in 40 s": yielding_run("make -j4 2>&1 | tail -5", BUILDS),
    "curl, 5,000 redraws": yielding_run(
        "curl -O https://example.org/a.tar 2>&1 | tail -c 300", ["MAKES_NETWORK_REQUESTS"]
    ),
    "terraform, plan and yes": yielding_apply,
}
