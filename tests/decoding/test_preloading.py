"""A translator in a server that forks its workers after it was loaded and used: `gunicorn --preload`."""

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "data/models/en-de"
TEXT = "Where is the station?"
N_WORKERS, N_REQUESTS = 2, 12
APP = f"""
import os
from bytenmt.decoding.translator import Translator

translator = Translator.load({str(MODEL)!r}, device="cpu", threads=2)
expected = translator.translate({TEXT!r})  # its threads are running when the process is forked

def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain; charset=utf-8")])
    same = translator.translate({TEXT!r}) == expected
    return [f"{{os.getpid()}} {{same}}".encode()]
"""


def test_gunicorn_may_preload_a_translator(tmp_path: Path) -> None:
    (tmp_path / "preloaded.py").write_text(APP, encoding="utf-8")
    command = [sys.executable, "-m", "gunicorn", "--preload", f"--workers={N_WORKERS}", "--timeout=20"]
    command += ["--bind=127.0.0.1:0", f"--chdir={tmp_path}", "--no-control-socket", "preloaded:app"]
    server = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        log = []
        for line in server.stderr:
            log.append(line)
            if found := re.search(r"Listening at: (http://\S+)", line):
                break
        else:
            raise AssertionError("".join(log))
        answers = []
        for _ in range(N_REQUESTS):
            with urllib.request.urlopen(found[1], timeout=30) as answer:
                answers.append(answer.read().decode().split())
        assert [same for _, same in answers] == ["True"] * N_REQUESTS
        assert str(server.pid) not in {pid for pid, _ in answers}
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.wait()
        assert server.stderr is not None
        server.stderr.close()
