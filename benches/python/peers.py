"""Servers that are measured beside each other: how they are had, and a client that is the same for all."""

import json
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

# Longer than any call may take. A server that is silent for so long is killed, and its column is missing.
PATIENCE_SECONDS = 120.0


class Unavailable(Exception):
    """This server can't be had here, or doesn't answer."""


@dataclass
class Server:
    """How a server is started, and what is called on it."""

    name: str
    command: list[str]
    environment: dict


class Client:
    """A client that speaks just enough JSON-RPC, over a server's stdio."""

    def __init__(self, server: Server, folder: Path):
        self.log = open(folder / f"{server.name}.stderr", "w")
        self.process = subprocess.Popen(
            server.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=folder,
            env=server.environment,
        )
        self.last_id = 0
        client = {"name": "bench", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self.instructions = self.request("initialize", hello).get("instructions", "")
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict) -> None:
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, params: dict) -> dict:
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        patience = threading.Timer(PATIENCE_SECONDS, self.process.kill)
        patience.start()
        try:
            return self.answer(method)
        finally:
            patience.cancel()

    def answer(self, method: str) -> dict:
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if message.get("id") == self.last_id and "method" not in message:
                if "error" in message:
                    raise Unavailable(f"{method}: {message['error']}")
                return message["result"]
        raise Unavailable(f"{method}: the server has gone")

    def call(self, tool: str, arguments: dict) -> str:
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        return "\n".join(block.get("text", "") for block in result["content"])

    def close(self) -> None:
        """The end of input is a server's word to end itself and its children; one that stays is killed."""
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


def installed(folder: Path, name: str, version: str) -> Path:
    """The program of a Python package, in an environment of its own."""
    environment = folder / name
    program = environment / "bin" / name
    if not program.exists():
        print(f"installing {name}", file=sys.stderr)
        run([sys.executable, "-m", "venv", str(environment)])
        run([str(environment / "bin/pip"), "install", "--quiet", f"{name}=={version}"])
    return program


def installed_from_npm(folder: Path, package: str, version: str) -> Path:
    """The folder of an npm package. Scripts of packages are not run: they would fetch a browser."""
    if not (folder / "node_modules" / package).exists():
        print(f"installing {package}", file=sys.stderr)
        run(
            [shutil.which("npm") or "npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
            + ["--prefix", str(folder), f"{package}@{version}"]
        )
    return folder / "node_modules" / package


def run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(str(error)) from error
