"""Makes a wheel of the binary: wheel.py BINARY VERSION FOLDER. Installing it puts the binary itself on the PATH."""

import base64
import hashlib
import json
import pathlib
import re
import stat
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

METADATA = """Metadata-Version: 2.4
Name: sluicegate
Version: {version}
Summary: An MCP process host for Linux: starts only approved commands, follows their output without losing a character, leaves nothing behind
License-Expression: MIT
License-File: LICENSE
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{readme}
<!-- The MCP registry looks for this. mcp-name: {name} -->
"""

WHEEL = """Wheel-Version: 1.0
Generator: sluicegate
Root-Is-Purelib: false
Tag: {tag}
"""


def platform(binary):
    """The tag of the oldest C library that the binary runs with."""
    symbols = subprocess.run(["objdump", "-T", binary], check=True, capture_output=True, text=True).stdout
    versions = {tuple(map(int, found)) for found in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)}
    if not versions:
        return "py3-none-musllinux_1_1_x86_64.manylinux2014_x86_64"
    return "py3-none-manylinux_%d_%d_x86_64" % max(versions)


def main(binary, version, folder):
    tag = platform(binary)
    name = json.loads((HERE / "server.json").read_text())["name"]
    readme = (ROOT / "README.md").read_text()
    info = f"sluicegate-{version}.dist-info"
    files = {
        f"sluicegate-{version}.data/scripts/sluicegate": pathlib.Path(binary).read_bytes(),
        f"{info}/METADATA": METADATA.format(version=version, readme=readme, name=name).encode(),
        f"{info}/WHEEL": WHEEL.format(tag=tag).encode(),
        f"{info}/licenses/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    record = f"{info}/RECORD"
    lines = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    files[record] = ("".join(lines) + f"{record},,\n").encode()
    path = pathlib.Path(folder) / f"sluicegate-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # pip takes the mode of an entry only if it says that it is a regular file.
            entry.external_attr = (stat.S_IFREG | (0o755 if "/scripts/" in name else 0o644)) << 16
            wheel.writestr(entry, content)
    print(path)


main(*sys.argv[1:])
