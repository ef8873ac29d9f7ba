"""Terminal sessions here and on terminal-mcp 0.4.4, driven by one client in one run, turn by turn.

    python3 terminals.py DIRECTORY SERVER [--rounds N]

DIRECTORY is a throwaway folder for terminal-mcp (pip); SERVER is sluicegate's binary. Prints a table of medians, in
milliseconds but where a row says otherwise, and how many times as much the other's are; then what a terminal takes, beside a
loop that only reads it. Takes some minutes: the other waits two seconds and more for output to settle.
"""

import argparse
import json
import os
import pty
import statistics
import sys
import time
from pathlib import Path

from peers import Client, Server, installed

SESSIONS = 20
# 80 characters and a newline: 100,000,008 bytes as the program writes them.
FLOOD = "head -c 98765440 /dev/zero | tr '\\0' x | fold -w 80; echo; echo DO''NE"


def call(client: Client, tool: str, **arguments) -> dict:
    answer = json.loads(client.call(tool, arguments))
    if answer.get("success") is not True:
        raise SystemExit(f"{tool}: {answer}")
    return answer


def took(action) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1000


def check(holds: bool, what: str) -> None:
    if not holds:
        print(f"NOT AS EXPECTED: {what}", file=sys.stderr)


def exec_echo(client: Client) -> float:
    def action():
        answer = call(client, "session_exec", exec="echo hi")
        check("hi" in answer["output"], f"echo hi printed {answer['output']!r}")

    return took(action)


def repl(client: Client) -> float:
    """One expression, until its value is there; the session is warm."""
    session = call(client, "session_create", command="python3 -q -i")["session_id"]
    call(client, "session_interact", session_id=session, input="x = 6", wait_for=">>> ")

    def action():
        answer = call(client, "session_interact", session_id=session, input="print(x * 7)")
        check("42" in answer["output"], f"the REPL printed {answer['output']!r}")

    milliseconds = took(action)
    call(client, "session_close", session_id=session)
    return milliseconds


def flood(client: Client) -> float:
    session = call(client, "session_create", command="bash --norc --noprofile")["session_id"]

    def action():
        answer = call(
            client, "session_interact", session_id=session, input=FLOOD, wait_for="DONE", timeout=100.0
        )
        check(answer["matched"] is True, "the end of 100 MB was not seen")

    milliseconds = took(action)
    call(client, "session_close", session_id=session)
    return milliseconds


def many(client: Client) -> float:
    """Twenty shells, each until its first answer."""
    sessions = []

    def action():
        for number in range(SESSIONS):
            sessions.append(call(client, "session_create", command="bash --norc --noprofile")["session_id"])
        for session in sessions:
            answer = call(client, "session_interact", session_id=session, input="echo $((6*7))", wait_for="42")
            check(answer["matched"] is True, "a shell did not answer")

    milliseconds = took(action)
    for session in sessions:
        call(client, "session_close", session_id=session)
    return milliseconds


def memory(client: Client) -> float:
    """KiB that the server and its own helpers grow by for one session with a screen of output."""
    before = own_memory(client.process.pid)
    sessions = [
        call(client, "session_create", command="bash --norc --noprofile")["session_id"] for _ in range(SESSIONS)
    ]
    for session in sessions:
        call(client, "session_interact", session_id=session, input="seq 1000; echo $((6*7))", wait_for="42\r?\n")
    grown = own_memory(client.process.pid) - before
    for session in sessions:
        call(client, "session_close", session_id=session)
    return grown / SESSIONS


def own_memory(server: int) -> int:
    """Proportional set size, in KiB, of the server and of those of its descendants that run its program."""
    program = os.readlink(f"/proc/{server}/exe")
    total = 0
    for process in [server, *descendants(server)]:
        try:
            if os.readlink(f"/proc/{process}/exe") == program:
                text = Path(f"/proc/{process}/smaps_rollup").read_text()
                total += int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1])
        except (OSError, StopIteration):
            continue
    return total


def descendants(process: int) -> list[int]:
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [pid for child in map(int, children) for pid in (child, *descendants(child))]


ROWS = [
    ("`session_exec` of `echo hi`", exec_echo),
    ("an expression in a Python session", repl),
    ("100 MB on a terminal", flood),
    (f"{SESSIONS} sessions until each has answered", many),
    ("memory of a session, KiB", memory),
]


def bare(file: Path) -> float:
    """MB/s of a loop that reads a terminal."""
    begun = time.perf_counter()
    child, terminal = pty.fork()
    if child == 0:
        os.execv("/bin/cat", ["cat", str(file)])
    total = 0
    while True:
        try:
            total += len(os.read(terminal, 65536))
        except OSError:
            break
    seconds = time.perf_counter() - begun
    os.close(terminal)
    os.waitpid(child, 0)
    return total / seconds / 1e6


def hosted(client: Client, command: str) -> float:
    """MB/s of a command through `terminal_start`."""
    begun = time.perf_counter()
    arguments = {"command_id": command, "wait_ms": 55_000, "output_bytes": 256}
    answer = json.loads(client.call("terminal_start", arguments))
    seconds = time.perf_counter() - begun
    check(answer.get("status") == "EXITED", f"{command}: {answer}")
    return answer["next_cursor"] / seconds / 1e6


def drain(folder: Path, server: Path, environment: dict, rounds: int) -> None:
    file = folder / "lines.txt"
    file.write_bytes((b"x" * 80 + b"\n") * 1_234_567)
    argv = ["/bin/cat", str(file)]
    commands = {
        "terminal": {"argv": argv, "allowed_env": [], "tty": {}},
        "pipe": {"argv": argv, "allowed_env": []},
    }
    config = folder / "terminals.json"
    fields = {"allowed_roots": [str(folder)], "default_cwd": str(folder), "commands": commands}
    config.touch(mode=0o600)
    config.write_text(json.dumps(fields))
    clients = {}
    for io in ("uring", "epoll"):
        command = [str(server.resolve()), "stdio", "--config", str(config), "--io", io]
        clients[io] = Client(Server(f"sluicegate-{io}", command, environment), folder)
    ways = {
        "a loop that reads a terminal": lambda: bare(file),
        "a terminal here, io_uring": lambda: hosted(clients["uring"], "terminal"),
        "a terminal here, epoll": lambda: hosted(clients["epoll"], "terminal"),
        "a pipe here, io_uring": lambda: hosted(clients["uring"], "pipe"),
    }
    found = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(way())
    print("\n| 100 MB of lines, from `cat` | MB/s |\n|---|---|")
    for name, speeds in found.items():
        print(f"| {name} | {statistics.median(speeds):,.0f} |")
    for client in clients.values():
        client.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("server", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = options.directory.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "TERMINAL_MCP_MAX_SESSIONS": str(SESSIONS),
    }
    ours = [str(options.server.resolve()), "stdio", "--tools", "session", "--allow-any-command"]
    theirs = [str(installed(folder, "terminal-mcp", "0.4.4"))]
    clients = [
        Client(Server("sluicegate", ours, environment), folder),
        Client(Server("terminal-mcp", theirs, environment), folder),
    ]
    print("| | sluicegate | terminal-mcp 0.4.4 | times |\n|---|---|---|---|")
    try:
        for name, measure in ROWS:
            found = [[measure(client) for client in clients] for _ in range(options.rounds)]
            mine, other = (statistics.median(column) for column in zip(*found))
            print(f"| {name} | {mine:,.1f} | {other:,.1f} | {other / mine:,.0f} |", flush=True)
    finally:
        for client in clients:
            client.close()
    drain(folder, options.server, environment, options.rounds)


if __name__ == "__main__":
    main()
