"""A picture of a program's run in a terminal, as SVG: what was left on the screen, with its weights and colours.

    python3 picture.py COMMAND ARGUMENT... > FILE
    python3 picture.py --cut '^sluicegate .* over epoll' target/release/sluicegate demo > fixtures/demo.svg

Runs the command in a terminal of 100 columns and waits for its end. `--cut` leaves out what lies between the first line that
matches and the last line, and says so in the picture. A sequence that isn't known here is an error, and so is a command that
fails: there is no picture then. The letters stand on a ground of their own, so it doesn't matter where the picture is shown.
"""

import argparse
import fcntl
import os
import pty
import re
import struct
import sys
import termios
import unicodedata
from dataclasses import dataclass
from xml.sax.saxutils import escape

COLUMNS = 100
ROWS = 40
# Sizes in pixels. Letters are put into columns, whatever the font's own width is.
COLUMN = 7.8
LINE = 18.0
MARGIN = 16.0
GROUND = "#16181d"
TEXT = "#d7dae0"
FAINT = "#8b93a1"
COLOURS = {31: "#f07178", 32: "#7fd88f", 33: "#e6c07b", 34: "#7aa2f7", 35: "#c792ea", 36: "#70c0ba"}
TOKEN = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(.)", re.DOTALL)


@dataclass(frozen=True)
class Style:
    bold: bool = False
    dim: bool = False
    colour: str = TEXT

    def after(self, parameters):
        style = self
        for code in [int(code or 0) for code in parameters.split(";")]:
            if code == 0:
                style = Style()
            elif code == 1:
                style = Style(True, style.dim, style.colour)
            elif code == 2:
                style = Style(style.bold, True, style.colour)
            elif code == 22:
                style = Style(False, False, style.colour)
            elif code == 39:
                style = Style(style.bold, style.dim, TEXT)
            elif code in COLOURS:
                style = Style(style.bold, style.dim, COLOURS[code])
            else:
                raise ValueError(f"unknown style {code}")
        return style


def width(character):
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def run(command):
    """All that the command writes to its terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.environ.pop("NO_COLOR", None)
        # The terminal's size is there before the command: it may ask for it at once.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.execvp(command[0], command)
    written = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            # How Linux tells that the last process has closed the terminal.
            break
        if not piece:
            break
        written += piece
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != 0:
        raise SystemExit(f"{command[0]} failed ({code}); there is no picture of that")
    return written.decode()


def screen(written):
    """The lines that are left, each a list of (column, character, style)."""
    lines, column, style = [{}], 0, Style()
    for match in TOKEN.finditer(written):
        parameters, final, character = match.groups()
        if final == "m":
            style = style.after(parameters)
        elif final == "K":
            keep = {"": lambda at: at < column, "0": lambda at: at < column, "2": lambda at: False}[parameters]
            lines[-1] = {at: cell for at, cell in lines[-1].items() if keep(at)}
        elif final in ("h", "l") and parameters == "?25":
            pass
        elif final is not None or character == "\x1b":
            raise ValueError(f"unknown sequence {match.group(0)!r}")
        elif character == "\r":
            column = 0
        elif character == "\n":
            lines.append({})
        else:
            lines[-1][column] = (character, style)
            column += width(character)
    return [sorted((at, *cell) for at, cell in line.items()) for line in lines]


def text(line):
    return "".join(character for _, character, _ in line)


def runs(line):
    """Neighbours of one style, as (column, text, style). A wide character stands alone: fonts disagree on its width."""
    out, end = [], None
    for at, character, style in line:
        joins = out and end == at and out[-1][2] == style and width(character) == 1
        if joins:
            out[-1] = (out[-1][0], out[-1][1] + character, style)
        else:
            out.append((at, character, style))
        end = at + 1 if width(character) == 1 else None
    return out


def svg(title, lines):
    across = COLUMNS * COLUMN + 2 * MARGIN
    down = len(lines) * LINE + 2 * MARGIN
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across:.0f} {down:.0f}" width="{across:.0f}" '
        f'height="{down:.0f}" role="img" font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" '
        f'font-size="13">'
    )
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>'
    for row, line in enumerate(lines):
        y = MARGIN + (row + 0.75) * LINE
        for at, letters, style in runs(line):
            # Blanks at an edge are dropped by some viewers, and then the rest moves.
            at += len(letters) - len(letters.lstrip())
            letters = letters.strip()
            if not letters:
                continue
            # Fonts differ in width; where the letters end is told too, so that columns stay columns.
            span = sum(width(letter) for letter in letters) * COLUMN
            weight = ' font-weight="bold"' if style.bold else ""
            colour = FAINT if style.dim else style.colour
            yield (
                f'<text x="{MARGIN + at * COLUMN:.1f}" y="{y:.1f}" textLength="{span:.1f}" lengthAdjust="spacingAndGlyphs" '
                f'xml:space="preserve" fill="{colour}"{weight}>{escape(letters)}</text>'
            )
    yield "</svg>"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cut", type=re.compile)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("name a command")
    prompt = " ".join([os.path.basename(arguments.command[0]), *arguments.command[1:]])
    lines = screen(run(arguments.command))
    while lines and not text(lines[-1]).strip():
        lines.pop()
    if arguments.cut:
        first = next((at for at, line in enumerate(lines) if arguments.cut.search(text(line))), None)
        if first is None:
            raise SystemExit("no line matches --cut")
        left_out = [(at, letter, Style(dim=True)) for at, letter in enumerate(f"[{len(lines) - 2 - first} lines left out]")]
        lines = [*lines[: first + 1], left_out, lines[-1]]
    typed = [(at, letter, Style(dim=True)) for at, letter in enumerate(f"$ {prompt}")]
    sys.stdout.write("\n".join(svg(prompt, [typed, *lines])) + "\n")


main()
