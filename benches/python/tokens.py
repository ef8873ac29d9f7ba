"""What a model pays for ten jobs on four MCP servers that run commands: calls, and tokens of what it writes and is shown.

    python3 tokens.py DIRECTORY SERVER [--only NAME] [--json FILE]

Takes about eight minutes: some servers wait out the time that a call gives them.

DIRECTORY is a throwaway folder for what is installed: terminal-mcp and mcp-yieldshell (pip), Desktop Commander and the tokenizer
(npm); what is there already is used. SERVER is sluicegate's binary. A table goes to stdout, progress to stderr.

Counted are, by gpt-tokenizer's o200k_base, a call's tool name and arguments (as compact JSON) and the text blocks of its
result: of text and structuredContent a client hands one to its model, and here both say the same. `tools/list` is counted once,
by itself: name, description and input schema of each tool, and the server's instructions. A second passes between two calls,
since no model answers faster. `jobs.py` plays the jobs, `scripts.py` says what is called and why.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import scripts
from peers import Client, Server, Unavailable, installed, installed_from_npm

HERE = Path(__file__).resolve().parent
THINKING_SECONDS = 1.0
PROGRAMS = ("cargo", "npm", "import-orders", "pytest", "make", "curl", "terraform")
COUNT = """
const { encode } = require("gpt-tokenizer/encoding/o200k_base");
const texts = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(texts.map((text) => encode(text, { disallowedSpecial: new Set() }).length)));
"""
PROFILES = {
    "cargo-build": ["cargo", "build"],
    "cargo-test": ["cargo", "test"],
    "npm-install": ["npm", "install"],
    "npm-run-dev": ["npm", "run", "dev"],
    "python": ["/usr/bin/env", "python3", "-i"],
    "import-orders": ["import-orders"],
    "pytest": ["pytest"],
    "make": ["make", "-j4"],
    "curl": ["curl", "-O", "https://example.org/a.tar"],
    "terraform-apply": ["terraform", "apply"],
}


SCRIPTS = {
    "sluicegate": scripts.OURS,
    "terminal-mcp": scripts.TERMINAL_MCP,
    "Desktop Commander": scripts.COMMANDER,
    "mcp-yieldshell": scripts.YIELDSHELL,
}


@dataclass
class Bill:
    """What a job cost."""

    calls: int = 0
    found: bool = False
    texts: list[str] = field(default_factory=list)
    tokens: int = 0


def play(client: Client, script, answer: str) -> Bill:
    bill = Bill()
    steps = script()
    shown = None
    try:
        while True:
            tool, arguments = steps.send(shown)
            if bill.calls:
                time.sleep(THINKING_SECONDS)
            bill.calls += 1
            bill.texts.append(tool + json.dumps(arguments, separators=(",", ":"), ensure_ascii=False))
            shown = client.call(tool, arguments)
            bill.texts.append(shown)
    except StopIteration:
        pass
    except (LookupError, TypeError, ValueError) as error:
        print(f"an answer that the script can't read ({error}): {shown[:300]}", file=sys.stderr)
    bill.found = re.search(answer, "\n".join(bill.texts[1::2])) is not None
    return bill


def lay_out(folder: Path) -> Path:
    """A folder whose programs are the jobs, to stand first in PATH."""
    programs = folder / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        link = programs / name
        link.unlink(missing_ok=True)
        link.symlink_to(HERE / "jobs.py")
    return programs


def servers(folder: Path, binary: Path) -> list[Server]:
    programs = lay_out(folder)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    path = f"{programs}:{os.environ['PATH']}"
    environment = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "xterm-256color"}

    def ours() -> Server:
        commands = {}
        for command_id, (program, *arguments) in PROFILES.items():
            program = program if program.startswith("/") else str(programs / program)
            commands[command_id] = {
                "argv": [program, *arguments],
                "allowed_env": [],
                "env": {"PATH": path, "HOME": str(home)},
            }
        config = {
            "allowed_roots": [str(folder)],
            "default_cwd": str(folder),
            # Retention that suits a job of 100 MB: 4 MiB of text each.
            "buffer_bytes": 4_194_304,
            "buffer_records": None,
            "max_records": 16,
            "default_timeout_ms": 120_000,
            "commands": commands,
        }
        file = folder / "sluicegate.json"
        file.write_text(json.dumps(config, indent=2))
        command = [str(binary.resolve()), "stdio", "--config", str(file)]
        return Server("sluicegate", command, environment)

    def terminal_mcp() -> Server:
        program = installed(folder, "terminal-mcp", "0.4.4")
        return Server("terminal-mcp", [str(program)], environment)

    def commander() -> Server:
        package = installed_from_npm(folder, "@wonderwhy-er/desktop-commander", "0.2.52")
        main = str(package / "dist/index.js")
        return Server("Desktop Commander", ["node", main], environment)

    def yieldshell() -> Server:
        program = installed(folder, "mcp-yieldshell", "1.1.2")
        return Server("mcp-yieldshell", [str(program)], environment)

    found = []
    for server in (ours, terminal_mcp, commander, yieldshell):
        try:
            found.append(server())
        except Unavailable as error:
            print(f"SKIPPED: {server.__name__}: {error}", file=sys.stderr)
    return found


def count(folder: Path, texts: list[str]) -> list[int]:
    done = subprocess.run(
        ["node", "-e", COUNT], input=json.dumps(texts), capture_output=True, text=True, check=True, cwd=folder
    )
    return json.loads(done.stdout)


def measure(server: Server, folder: Path) -> dict:
    client = Client(server, folder)
    try:
        tools = client.request("tools/list", {})["tools"]
        shown = [[tool["name"], tool.get("description", ""), tool["inputSchema"]] for tool in tools]
        listed = json.dumps(shown, separators=(",", ":"), ensure_ascii=False) + client.instructions
        bills = {}
        for job, answer in scripts.ANSWERS.items():
            bills[job] = play(client, SCRIPTS[server.name][job], answer)
            print(f"{server.name}: {job}: {bills[job].calls} calls", file=sys.stderr)
    finally:
        client.close()
    for bill in bills.values():
        bill.tokens = sum(count(folder, bill.texts))
    return {"list": count(folder, [listed])[0], "jobs": bills}


def table(results: dict[str, dict]) -> str:
    lines = ["| job | " + " | ".join(results) + " |", "|---|" + "---|" * len(results)]

    def cell(bill: Bill) -> str:
        return f"{bill.calls} / {bill.tokens:,}" + ("" if bill.found else ", not found")

    for job in scripts.ANSWERS:
        lines.append(f"| {job} | " + " | ".join(cell(result["jobs"][job]) for result in results.values()) + " |")
    totals = []
    for result in results.values():
        bills = result["jobs"].values()
        totals.append(f"{sum(bill.calls for bill in bills)} / {sum(bill.tokens for bill in bills):,}")
    lines.append("| all ten | " + " | ".join(totals) + " |")
    lines.append("| the list of tools, once | " + " | ".join(f"{result['list']:,}" for result in results.values()) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("server", type=Path)
    parser.add_argument("--only", action="append", help="a server's name")
    parser.add_argument("--json", type=Path, help="where to write calls, tokens and transcripts")
    options = parser.parse_args()
    folder = options.directory.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    installed_from_npm(folder, "gpt-tokenizer", "4.0.0")
    chosen = [server for server in servers(folder, options.server) if not options.only or server.name in options.only]
    results = {}
    for server in chosen:
        try:
            results[server.name] = measure(server, folder)
        except (Unavailable, OSError) as error:
            print(f"SKIPPED: {server.name}: {error}", file=sys.stderr)
    print(table(results))
    if options.json:
        written = {
            name: {
                "list": result["list"],
                "jobs": {job: vars(bill) for job, bill in result["jobs"].items()},
            }
            for name, result in results.items()
        }
        options.json.write_text(json.dumps(written, indent=1, ensure_ascii=False))


main()
