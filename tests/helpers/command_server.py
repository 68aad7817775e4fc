"""Run `bytenmt` commands in forks of one process that has imported everything: 0.1 s a command, not 1 s.

A shell finds a program `bytenmt` that hands its arguments, its environment and its three standard streams to
this process over a Unix socket and ends with the command's exit code. Trainings are cut to a few updates,
unless the server is started with --unchanged.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Imported before the first fork; what is missing here is imported again by every command that needs it.
WARM = (
    *("torch", "numba", "sacrebleu", "msgspec", "bytenmt.cli.line_filter", "bytenmt.checkpoints.resumable"),
    *("bytenmt.training.run", "bytenmt.evaluation.scores", "bytenmt.decoding.cpu.engine", "bytenmt.api.runs"),
)
CLIENT = """#!{python} -SE
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(call).to_bytes(4, "big")], [0, 1, 2])
server.sendall(call)
pid = int.from_bytes(server.recv(4), "big")
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: os.kill(pid, number))
sys.exit((server.recv(1) or b"\\1")[0])
"""


SERVER_OPTIONS = tuple(sys.argv[2:])  # of this process; a fork has its command's arguments in their place


def shortened(arguments: list[str]) -> list[str]:
    """Return a command's arguments; those of a training with limits that make it take a moment."""
    if arguments[:1] != ["train"] or "--help" in arguments or "--unchanged" in SERVER_OPTIONS:
        return arguments
    if "--resume" in arguments:
        return [*arguments, "--max-updates", "4"]
    settings = ["--set", "train.valid_lines=2", "--set", "train.valid_bytes=500"]
    return [*arguments, "--max-updates", "2", "--max-tokens", "300", *settings]


def write_client(path: Path, address: str) -> None:
    """Write the program that stands for `bytenmt`."""
    path.write_text(CLIENT.format(python=sys.executable, address=address))
    path.chmod(0o755)


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Path]:
    """Start a server in a process of its own and yield the program `bytenmt` in a folder that asks it."""
    address, program = folder / "socket", folder / "bytenmt"
    write_client(program, str(address))
    server = subprocess.Popen([sys.executable, __file__, str(address), *options])
    try:
        while not address.exists():
            assert server.poll() is None, "the command server ended"
            time.sleep(0.05)
        yield program
    finally:
        server.kill()
        server.wait()


def run_command(arguments: list[str], folder: str, environment: dict[str, str], streams: list[int]) -> int:
    """Run a command in this process, a fork, and return its exit code."""
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["bytenmt", *arguments]
    try:
        importlib.import_module("bytenmt.cli.main").main(shortened(arguments), prog_name="bytenmt")
        return 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def answer(connection: socket.socket) -> None:
    """Run the command that a client asks for in a fork of its own, and send its exit code."""
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    call, n_bytes = b"", int.from_bytes(head, "big")
    while len(call) < n_bytes:
        call += connection.recv(n_bytes - len(call))
    pid = os.fork()
    if pid == 0:
        os._exit(run_command(*json.loads(call), streams))
    connection.sendall(pid.to_bytes(4, "big"))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    connection.sendall(bytes([code if code >= 0 else 128 - code]))


def serve(address: str) -> None:
    """Answer clients for ever, each in a process of its own."""
    for name in WARM:
        importlib.import_module(name)
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen(8)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children need no wait
    while True:
        connection, _ = server.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            server.close()
            answer(connection)
            os._exit(0)
        connection.close()


if __name__ == "__main__":
    serve(sys.argv[1])
