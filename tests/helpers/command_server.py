"""Run commands in forks of one process that has imported everything: 0.2 s a command, not 4 s.

A shell finds a program `bytenmt` that hands its arguments, its environment and its three standard
streams to this process over a Unix socket and ends with the command's exit code.
"""

import importlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from processes import FORKSERVER

from bytenmt import Translator

MODEL = Path(__file__).parents[2] / "data" / "models" / "en-de"

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


# A function of a module, for pickle, which ends by SystemExit or normally.
Command = Callable[[list[str]], None]


def run_unchanged(arguments: list[str]) -> None:
    """Run a command of bytenmt."""
    importlib.import_module("bytenmt.cli.main").main(arguments, prog_name="bytenmt")


def run_shortened(arguments: list[str]) -> None:
    """Run a command of bytenmt; a training with limits that make it take a moment."""
    if arguments[:1] == ["train"] and "--help" not in arguments:
        if "--resume" in arguments:
            arguments = [*arguments, "--max-updates", "4"]
        else:
            settings = ["--set", "train.valid_lines=2", "--set", "train.valid_bytes=500"]
            arguments = [*arguments, "--max-updates", "2", "--max-tokens", "300", *settings]
    run_unchanged(arguments)


def write_client(path: Path, address: str) -> None:
    """Write the program that stands for `bytenmt`."""
    path.write_text(CLIENT.format(python=sys.executable, address=address))
    path.chmod(0o755)


@contextmanager
def serving(folder: Path, command: Command = run_unchanged) -> Iterator[Path]:
    """Start a server in its own process; yield the program `bytenmt` in a folder that asks it."""
    address = folder / "socket"
    program = folder / "bytenmt"
    write_client(program, str(address))
    server = FORKSERVER.Process(target=serve, args=(str(address), command))
    server.start()
    try:
        while not address.exists():
            assert server.is_alive(), "the command server ended"
            time.sleep(0.05)
        yield program
    finally:
        server.kill()
        server.join()


def run_command(command: Command, call: bytes, streams: list[int]) -> int:
    """Run a command in this process, a fork, and return its exit code."""
    arguments, folder, environment = json.loads(call)
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
    sys.stdin = os.fdopen(0, closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["bytenmt", *arguments]
    # A job in a shell's background ignores interrupts, and so would this process of its.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        command(arguments)
        return 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def answer(connection: socket.socket, command: Command) -> None:
    """Run the command that a client asks for in a fork of its own, and send its exit code."""
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    call = b""
    n_bytes = int.from_bytes(head, "big")
    while len(call) < n_bytes:
        call += connection.recv(n_bytes - len(call))
    pid = os.fork()
    if pid == 0:
        os._exit(run_command(command, call, streams))
    connection.sendall(pid.to_bytes(4, "big"))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    connection.sendall(bytes([code if code >= 0 else 128 - code]))


def serve(address: str, command: Command) -> None:
    """Answer clients for ever, each in a process of its own."""
    # Forks inherit the kernels, whose loading takes three seconds. Here nothing is computed by
    # PyTorch, whose threads do not survive a fork.
    Translator.load(MODEL, device="cpu", threads=1).translate(["a"])
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen(8)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children need no wait
    while True:
        connection, _ = server.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            server.close()
            answer(connection, command)
            os._exit(0)
        connection.close()
