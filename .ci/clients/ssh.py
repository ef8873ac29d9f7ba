"""The binary on another machine, as OpenSSH gives it: ssh.py BINARY FOLDER.

A real sshd on loopback, with keys of its own in FOLDER, takes the current user's login. The five tools are used through
it, and then a connection is cut in each way in which it can be: afterwards nothing of the server may be left.
"""

import contextlib
import json
import os
import pathlib
import pwd
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

TOOLS = ["terminal_start", "terminal_read", "terminal_write", "terminal_status", "terminal_terminate"]
# No deadline is tested: this is how long a failure takes to show.
PATIENCE = 60


class Refused(Exception):
    """A tool's error, by its code."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Sshd:
    """sshd in the foreground, on a port of its own, until `close`."""

    def __init__(self, folder):
        self.folder = folder
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        shutil.copy(folder / "user_key.pub", folder / "authorized_keys")
        if os.geteuid() == 0:
            # sshd's place for privilege separation, which its service would make.
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        # Another program can take the port between its choice and its use.
        for _ in range(5):
            self.port = free_port()
            if self.start():
                break
        else:
            raise SystemExit("sshd can't listen: " + (folder / "sshd.log").read_text())
        host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
        (folder / "known_hosts").write_text(f"gate {host_key}\n")

    def start(self):
        config = self.folder / "sshd_config"
        config.write_text(
            f"""
            Port {self.port}
            ListenAddress 127.0.0.1
            HostKey {self.folder}/host_key
            AuthorizedKeysFile {self.folder}/authorized_keys
            PidFile none
            PermitRootLogin prohibit-password
            PasswordAuthentication no
            KbdInteractiveAuthentication no
            UsePAM no
            # The folder lies below /tmp, which others may write.
            StrictModes no
            # Without these a connection that falls silent is only noticed by TCP, after hours.
            ClientAliveInterval 1
            ClientAliveCountMax 2
            """
        )
        self.process = subprocess.Popen(
            [shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin"), "-D", "-e", "-f", config],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        listening = False
        with open(self.folder / "sshd.log", "a") as log:
            for line in self.process.stderr:
                log.write(line)
                if "Server listening" in line:
                    listening = True
                    break
        if listening:
            # What it says later must not fill its pipe.
            threading.Thread(target=self.process.stderr.read, daemon=True).start()
        else:
            self.process.wait()
        return listening

    def command(self, remote, port=None):
        options = {
            "BatchMode": "yes",
            "HostKeyAlias": "gate",
            "IdentitiesOnly": "yes",
            "IdentityFile": self.folder / "user_key",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": self.folder / "known_hosts",
        }
        given = [f"-o{name}={value}" for name, value in options.items()]
        user = pwd.getpwuid(os.geteuid()).pw_name
        return ["ssh", "-F", "none", "-T", "-p", str(port or self.port), *given, f"{user}@127.0.0.1", shlex.join(remote)]

    def close(self):
        self.process.terminate()
        self.process.wait()


class Client:
    """An MCP client on the near end of `ssh`."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.guard = threading.Timer(PATIENCE, self.process.kill)
        self.guard.start()
        self.requests = 0
        self.request(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo={"name": "ssh", "version": "1"},
        )
        self.send({"method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def request(self, method, **params):
        self.requests += 1
        self.send({"id": self.requests, "method": method, "params": params})
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.requests:
                return answer["result"]
        raise SystemExit(f"ssh ended before {method} was answered, with {self.process.wait()}")

    def call(self, tool, **arguments):
        result = self.request("tools/call", name=tool, arguments=arguments)
        body = result["structuredContent"]
        if result.get("isError"):
            raise Refused(body["error"]["code"])
        return body

    def close(self):
        """Hangs up as a client does, and answers how `ssh` ended."""
        self.process.stdin.close()
        return self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.guard.cancel()
        self.process.kill()
        self.process.wait()


class Relay:
    """A hop between ssh and sshd on which a connection can be cut."""

    def __init__(self, port):
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.silent = False
        self.ends = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        near, _ = self.listener.accept()
        far = socket.create_connection(("127.0.0.1", self.target))
        self.ends = [near, far]
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self.carry, args=(source, sink), daemon=True).start()

    def carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self.silent:
                    sink.sendall(data)
            if not self.silent:
                sink.shutdown(socket.SHUT_WR)

    def reset(self):
        """Both ends get a reset, as from a router that forgot the connection."""
        for end in self.ends:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            # A close alone waits for the reader.
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RD)
            end.close()

    def fall_silent(self):
        """Nothing comes through any more, and neither end is told."""
        self.silent = True


def ancestors(pid, binary):
    """The processes of the server above `pid`, itself included."""
    found = []
    while pid > 1:
        try:
            if not os.path.samefile(f"/proc/{pid}/exe", binary):
                return found
        except OSError:
            return found
        found.append(pid)
        pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return found


class Watch:
    """Waits for the end of processes that aren't children."""

    def __init__(self, pids):
        self.open = {os.pidfd_open(pid): pid for pid in pids}

    def all_end(self):
        until = time.monotonic() + PATIENCE
        while self.open:
            ready, _, _ = select.select(list(self.open), [], [], max(0, until - time.monotonic()))
            if not ready:
                raise SystemExit(f"still there: {sorted(self.open.values())}")
            for descriptor in ready:
                os.close(descriptor)
                del self.open[descriptor]


def read_until(client, session_id, cursor, until):
    """Everything from `cursor` to where `until` is fulfilled, and the last page."""
    text = ""
    while True:
        page = client.call("terminal_read", session_id=session_id, cursor=cursor, until=until, wait_ms=PATIENCE * 500)
        text += "".join(record["text"] for record in page["records"])
        cursor = page["next_cursor"]
        if not page["has_more"]:
            return text, page


def five_tools(command, binary):
    with Client(command) as client:
        assert [tool["name"] for tool in client.request("tools/list")["tools"]] == TOOLS
        try:
            client.call("terminal_start", command_id="unknown")
            raise SystemExit("an unknown command was started")
        except Refused as refused:
            assert str(refused) == "COMMAND_NOT_FOUND", refused

        session = client.call("terminal_start", command_id="interactive")
        session_id = session["session_id"]
        assert client.call("terminal_write", session_id=session_id, text="über ssh\n")["accepted_bytes"] == 10
        page = client.call("terminal_read", session_id=session_id, until={"pattern": "über ssh"}, wait_ms=30000)
        assert page["wait_result"] == "pattern", page
        assert client.call("terminal_status", session_id=session_id)["status"] == "RUNNING"
        client.call("terminal_write", session_id=session_id, text="", close_stdin=True)
        _, page = read_until(client, session_id, page["next_cursor"], "end")
        assert page["status"] == "EXITED" and page["output_complete"], page

        # More than the connection holds at once.
        flood = client.call("terminal_start", command_id="flood", wait_ms=30000)
        assert flood["status"] == "EXITED" and flood["truncated"], flood
        text, page = read_until(client, flood["session_id"], flood["base_cursor"], "end")
        assert len(text) == flood["next_cursor"] - flood["base_cursor"], page

        stubborn = client.call("terminal_start", command_id="ignore-term")
        # Before it says so it hasn't arranged to ignore the signal.
        client.call("terminal_read", session_id=stubborn["session_id"], wait_ms=2000)
        ended = client.call("terminal_terminate", session_id=stubborn["session_id"], grace_ms=100)
        assert (ended["status"], ended["termination_reason"], ended["exit_signal"]) == ("TERMINATED", "user", 9), ended

        left = client.call("terminal_start", command_id="long")
        watch = Watch(ancestors(left["process_id"], binary))
        code = client.close()
        assert code == 0, code
        watch.all_end()


def cut(command, binary, how):
    """`how` cuts the connection of a client whose sessions run."""
    with Client(command) as client:
        pids = set()
        for command_id in ("long", "ignore-term", "interactive"):
            started = client.call("terminal_start", command_id=command_id)
            pids.update(ancestors(started["process_id"], binary))
        # Three sessions, their keepers, and the server.
        assert len(pids) >= 7, pids
        watch = Watch(pids)
        how(client)
        watch.all_end()


def main(binary, folder):
    binary = os.path.realpath(binary)
    folder = pathlib.Path(folder)
    config = folder / "config.json"
    subprocess.run([binary, "config", "new", "--root", folder, "--output", config], check=True, stdout=subprocess.DEVNULL)
    remote = [binary, "stdio", "--config", str(config)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("out of time"))
    sshd = Sshd(folder)
    try:
        five_tools(sshd.command(remote), binary)
        print("ssh, the five tools: ok")
        cut(sshd.command(remote), binary, lambda client: client.process.kill())
        print("ssh, its client killed: ok, nothing is left")
        for name, act in (("reset", Relay.reset), ("silent", Relay.fall_silent)):
            relay = Relay(sshd.port)
            cut(sshd.command(remote, relay.port), binary, lambda _: act(relay))
            print(f"ssh, the connection {name}: ok, nothing is left")
    finally:
        sshd.close()


main(*sys.argv[1:])
