#!/usr/bin/env python3
"""Ten jobs with the manners of the programs that they are named for, at about their pace and the same in every run.

    ln -s .../jobs.py DIRECTORY/cargo; PATH=DIRECTORY:$PATH cargo build

The name of the link and the first argument choose the job. Like the programs they stand for, they draw colours and bars for
a terminal only, except for curl, which draws its meter everywhere. `fixtures/` has the recordings that are played.
"""

import os
import re
import sys
import time
from pathlib import Path

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
TERMINAL = sys.stdout.isatty()
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def recording(name: str) -> str:
    """A recorded terminal's output; without its escapes and bars when this is no terminal."""
    text = (FIXTURES / name).read_text().replace("\r\n", "\n")
    if TERMINAL:
        return text
    text = ESCAPES.sub("", text)
    return re.sub(r" *Building \[[^\r\n]*?\] \d+/\d+: \S+ *", "", text).replace("\r", "")


def cargo_build() -> int:
    """120 crates, then a type error, in 4 s."""
    for number in range(120):
        name = f"crate-{number:03}"
        if TERMINAL:
            say(f"\x1b[1m\x1b[92m   Compiling\x1b[0m {name} v1.{number}.0\x1b[K\n")
            bar = "=" * (number // 6)
            say(f"\x1b[1m\x1b[96m    Building\x1b[0m [{bar}>{' ' * (20 - len(bar))}] {number}/121: {name}\r")
        else:
            say(f"   Compiling {name} v1.{number}.0\n")
        time.sleep(4 / 120)
    say(recording("tty/cargo-error.raw"))
    return 101


def cargo_test() -> int:
    """300 tests, all good, in 3 s."""
    say("\nrunning 300 tests\n")
    for number in range(300):
        ok = "\x1b[32mok\x1b(B\x1b[m" if TERMINAL else "ok"
        say(f"test ledger::tests::entry_{number:03}_balances ... {ok}\n")
        time.sleep(3 / 300)
    say("\ntest result: ok. 300 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.98s\n\n")
    return 0


def npm_install() -> int:
    """A spinner for a terminal, and one line at the end, after 5 s."""
    for step in range(60):
        if TERMINAL:
            say("\u280b\u2819\u2839\u2838\u283c\u2834\u2826\u2827"[step % 8] + "\x1b[1G\x1b[0K")
        time.sleep(5 / 60)
    say("\nadded 412 packages in 5s\n")
    return 0


def npm_run() -> int:
    """A development server, ready after 4 s. It runs on for a minute at most, should nobody end it."""
    say("\n> shop@1.0.0 dev\n> vite\n\n")
    for step in ("loading config", "optimizing dependencies", "building module graph", "warming up"):
        say(f"[vite] {step}...\n")
        time.sleep(1)
    say("\n  VITE v7.1.2  ready on http://localhost:5173\n")
    time.sleep(60)
    return 0


def import_orders() -> int:
    """100 MB of log in about 5 s, with one error in its middle; the end doesn't say which."""
    for block in range(100):
        second = f"2026-11-30T12:00:{block // 2:02}Z"
        lines = [f"{second} INFO row {block * 10_000 + line:07} imported, {'.' * 53}\n" for line in range(10_000)]
        if block == 50:
            lines[5000] = f"{second} ERROR row 0505000: duplicate key ord-7731\n"
        say("".join(lines))
        time.sleep(0.03)
    say("import finished, 1 row failed\n")
    return 1


def pytest() -> int:
    """61 tests, two of which fail."""
    time.sleep(1)
    say(recording("tty/pytest.raw"))
    return 1


def make() -> int:
    """A C project with many warnings: 180 kB in 40 s."""
    lines = (FIXTURES / "logs/make.log").read_text().splitlines(keepends=True)
    for at in range(0, len(lines), 40):
        say("".join(lines[at : at + 40]))
        time.sleep(40 / (len(lines) / 40))
    return 0


def curl() -> int:
    """5,000 redraws of a meter in 5 s."""
    say("  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current\n")
    say("                                 Dload  Upload   Total   Spent    Left  Speed\n")
    for step in range(5000):
        percent = step // 50
        say(f"\r{percent:3} 7812k {percent:3} {percent * 78:4}k    0     0  1562k      0  0:00:05  0:00:{step // 1000:02} --:--:-- 1562k")
        time.sleep(0.001)
    say("\r100 7812k  100 7812k    0     0  1562k      0  0:00:05  0:00:05 --:--:-- 1562k\n")
    return 0


def terraform() -> int:
    """A plan that wants a yes."""
    say("Terraform will perform the following actions:\n\n")
    for name in ("web", "db", "cache"):
        say(f'  # local_file.{name} will be created\n  + resource "local_file" "{name}" {{\n')
        say(f'      + content  = "{name}"\n      + filename = "./{name}.txt"\n      + id       = (known after apply)\n    }}\n\n')
        time.sleep(0.3)
    say("Plan: 3 to add, 0 to change, 0 to destroy.\n\nDo you want to perform these actions?\n  Only 'yes' will be accepted.\n\n")
    say("  Enter a value: ")
    if sys.stdin.readline().strip() != "yes":
        say("\nApply cancelled.\n")
        return 1
    for name in ("web", "db", "cache"):
        say(f"\nlocal_file.{name}: Creating...\n")
        time.sleep(0.5)
        say(f"local_file.{name}: Creation complete after 0s\n")
    say("\nApply complete! Resources: 3 added, 0 changed, 0 destroyed.\n")
    return 0


JOBS = {
    "cargo build": cargo_build,
    "cargo test": cargo_test,
    "npm install": npm_install,
    "npm run": npm_run,
    "import-orders": import_orders,
    "pytest": pytest,
    "make": make,
    "curl": curl,
    "terraform apply": terraform,
}

if __name__ == "__main__":
    program = Path(sys.argv[0]).name
    job = JOBS.get(program) or JOBS[f"{program} {sys.argv[1]}"]
    try:
        status = job()
    except (BrokenPipeError, KeyboardInterrupt):
        # Nobody reads any more; the interpreter is not to say so at its end.
        os._exit(1)
    sys.exit(status)
