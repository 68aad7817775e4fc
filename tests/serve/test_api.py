"""LibreTranslate's API as its clients use it, over made-up engines that answer in capitals."""

import gzip
import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from made_up_service import HELLO, SSE, UPLOAD, client, made_up_app
from starlette.testclient import TestClient

from bytenmt.serve.server import ProxyHeaders
from bytenmt.serve.work_queue import Limits
from bytenmt.translation.glossary import Term

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"

KEPT = "[X7X] of {name} <b>at</b> https://a.b/c %1$s x@y.org"

KO = {"language": "ko", "confidence": 100.0}
HTML = '<p title="x">one &amp; <b>two</b></p><script>if (a<b) {}</script>'
IN_CAPITALS = HTML.replace("x", "X0").replace("one", "ONE").replace("two</b>", "TWO</b>0")
COPIED = "https://x.org/a\ninfo@x.org\n{name}"
GREETING = "안녕하세요"
TO_ENGLISH = {"source": "auto", "target": "en"}

# In which way, and what besides HELLO, clients send to /translate; the translation; the answer's
# other fields.
ANSWERS: list[tuple[str, dict[str, Any], str | list[str], dict[str, Any]]] = [
    ("json", {}, "HELLO0", {}),
    ("data", {}, "HELLO0", {}),  # libretranslatepy
    ("params", {}, "HELLO0", {}),  # deep-translator: no body at all
    ("json", {"source": "EN", "target": "de-AT"}, "HELLO0", {}),
    ("json", {"apiKey": "", "api_key": None}, "HELLO0", {}),
    # Lists: repeated fields of a form (libretranslate-aio), and Weblate's probe.
    ("data", {"q": ["a", "b"]}, ["A0", "B0"], {}),
    ("json", {"q": ["a", "", "b", "a", "c\nd"]}, ["A0", "", "B0", "A0", "C0\nD0"], {}),
    ("json", {"q": ["test"], "api_key": ""}, ["TEST0"], {}),
    ("json", {"q": []}, [], {}),
    # White space and line ends are kept, and so are spans, lines of addresses alone, and markup.
    ("json", {"q": "  one\r\n\r\n\ttwo \n"}, "  ONE0\r\n\r\n\tTWO0 \n", {}),
    ("json", {"q": " \n"}, " \n", {}),
    ("json", {"q": KEPT}, KEPT.replace("of", "OF").replace("at", "AT") + "0", {}),
    ("json", {"q": COPIED}, COPIED, {}),
    ("json", {"format": "html", "q": HTML}, IN_CAPITALS, {}),
    ("json", {"format": "html", "q": ["<p>a", "b"]}, ["<p>A0</p>", "B0"], {}),
    ("data", {"alternatives": "2"}, "HELLO0", {"alternatives": ["HELLO1", "HELLO2"]}),
    ("json", {"q": ["a\nb"], "alternatives": 1}, ["A0\nB0"], {"alternatives": [["A1\nB1"]]}),
    ("json", {"alternatives": 99}, "HELLO0", {"alternatives": ["HELLO1", "HELLO2", "HELLO3"]}),
    # A language into itself needs no model.
    ("json", {"q": " abc\n", "source": "de"}, " abc\n", {}),
    ("json", {"q": HTML, "source": "de", "format": "html"}, HTML, {}),
    # The server has a term (dog, Hund).
    ("json", {"q": "a dog"}, "A Hund0", {}),
    # The language is found out; of a list it is one.
    ("json", {"q": GREETING, **TO_ENGLISH}, f"{GREETING}0", {"detectedLanguage": KO}),
    ("json", {"q": [GREETING], **TO_ENGLISH}, [f"{GREETING}0"], {"detectedLanguage": [KO]}),
]


def test_what_clients_of_translate_are_answered() -> None:
    with client(terms=[Term("dog", "Hund")]) as asked:
        for way, fields, translated, more in ANSWERS:
            sent: dict[str, Any] = {way: {**HELLO, **fields}}
            answer = asked.post("/translate", **sent)
            assert answer.status_code == 200
            assert answer.json() == {"translatedText": translated, **more}, fields
        parts = {name: (None, value) for name, value in HELLO.items()}
        # Multipart, and JSON without a type.
        for sent in ({"files": parts}, {"content": json.dumps(HELLO)}):
            assert asked.post("/translate", **sent).json() == {"translatedText": "HELLO0"}


# Fields besides HELLO, the status, and what the message has.
REFUSALS: list[tuple[dict[str, Any], int, str]] = [
    ({"q": 7}, 400, "$.q"),
    ({"q": ["a", None]}, 400, "$.q"),
    ({"target": ["de", "en"]}, 400, "$.target"),
    ({"target": "xx"}, 400, "'xx' is not a served language"),
    ({"source": "ko"}, 400, "no model translates from ko into de"),  # though over en it could
    ({"source": "auto", "target": "ko", "q": "hello you there"}, 400, "no model translates from"),
    ({"source": "auto", "q": "Je ne comprends pas ce que vous dites."}, 400, "French (fr), as"),
    ({"source": "auto", "q": "Γεια σου, κόσμε"}, 400, "the text is in Greek (el), as detected"),
    ({"format": "pdf"}, 400, "$.format"),
    ({"alternatives": -1}, 400, "$.alternatives"),
    ({"alternatives": "many"}, 400, "$.alternatives"),
    ({"q": "a" * 201}, 413, "201 characters: at most 200"),
    ({"q": [""] * 201}, 413, "at most 200"),
]
PACKED = gzip.compress(json.dumps(HELLO).encode())
# Bodies, their type, the status, and what the message has.
BAD_BODIES: list[tuple[bytes, str, int, str]] = [
    (b'{"q": "a",, }', JSON, 400, "Invalid request"),  # SubtitleEdit with a key
    (b'{"q": "\xff"}', JSON, 400, "Invalid request"),
    (b'{"q": "\\ud83d", "source": "en", "target": "de"}', JSON, 400, "Invalid request"),
    (b"[" * 9_000, JSON, 400, "Invalid request"),
    (b'{"q":' * 1_000, JSON, 400, "Invalid request"),
    (b'["hello"]', JSON, 400, "Expected `object`"),
    (b'{"target": "de"}', JSON, 400, "missing required field `q`"),
    (b"q=a", FORM, 400, "missing required field `target`"),
    (b"", FORM, 400, "missing required field"),
    (b"q=\xff\xfe&source=en&target=de", FORM, 400, "can't decode"),
    (b"q=%ff%fe&source=en&target=de", FORM, 400, "can't decode"),
    (b"a=&" * 10_001, FORM, 413, "at most 20,000 bytes"),
    (b"--x", "multipart/form-data; boundary=y", 400, "Invalid"),
    (b"--x", "multipart/form-data", 400, "Invalid"),
    *((PACKED, kind, 400, "Invalid request") for kind in (JSON, FORM, "a/b")),
]


def test_what_is_no_request_is_told_why() -> None:
    with client(limits=Limits(characters=200)) as asked:
        assert asked.post("/translate", json={**HELLO, "q": ["a"] * 200}).status_code == 200

        def check(answer: Any, status: int, reason: str) -> None:
            sent = answer.request.content
            assert (answer.status_code, list(answer.json())) == (status, ["error"]), sent
            assert reason in answer.json()["error"]

        for fields, status, reason in REFUSALS:
            check(asked.post("/translate", json={**HELLO, **fields}), status, reason)
        for body, kind, status, reason in BAD_BODIES:
            headers = {"content-type": kind}
            check(asked.post("/translate", content=body, headers=headers), status, reason)
        # Any page can make a browser ask by GET.
        by_get = asked.get("/translate", params=HELLO)
        check(by_get, 405, "Method Not Allowed")
        assert by_get.headers["allow"] == "POST"
        check(asked.get("/none"), 404, "Not Found")


def events(text: str) -> list[tuple[str, Any]]:
    blocks = re.findall(r"event: (.*)\ndata: (.*)\n\n", text)
    return [(name, json.loads(data)) for name, data in blocks]


@pytest.mark.parametrize(("source", "target"), [("ko", "en"), ("en", "en")])
def test_parts_of_a_stream_make_the_text(source: str, target: str) -> None:
    """They include what stands between the lines."""
    sent = {"q": " 하나 둘 셋 넷\n\n다섯 ", "source": source, "target": target}
    with client() as asked:
        answer = asked.post("/translate", json=sent, headers=SSE)
        whole = asked.post("/translate", json=sent).json()
    assert answer.headers["content-type"].startswith("text/event-stream")
    *parts, last = events(answer.text)
    assert last == ("done", whole)
    if source == target:
        assert not parts and whole["translatedText"] == sent["q"]
    else:
        assert "".join(part["text"] for _, part in parts) == whole["translatedText"]
        assert {name for name, _ in parts} == {"part"}


def test_other_streams() -> None:
    with client(keys=["k"]) as asked:
        assert asked.post("/translate", json=HELLO, headers=SSE).status_code == 403
    with client() as asked:
        for more in ({"q": ["a", "b"]}, {"q": "<p>a", "format": "html"}):
            answer = asked.post("/translate", json={**HELLO, **more}, headers=SSE)
            ((name, data),) = events(answer.text)
            assert name == "done" and data["translatedText"] in (["A0", "B0"], "<p>A0</p>")
        refused = asked.post("/translate", json={**HELLO, "target": "xx"}, headers=SSE)
        assert refused.status_code == 400


KOREAN = '<html lang="ko"><body><p>안녕하세요</p></body></html>'


def test_files() -> None:
    po = b'msgid ""\nmsgstr ""\n\n#: a.c:1\nmsgid "%d dogs"\nmsgstr ""\n'
    rows = [
        ("my file.txt", b"one\r\ntwo\n", b"ONE0\r\nTWO0\n", "my_file_de.txt"),
        ("a.HTML", b"<p>one</p>", b"<p>ONE0</p>", "a_de.HTML"),
        ("../a/b.json", b'{"a": "one", "b": 1}', b'{"a": "ONE0", "b": 1}', "b_de.json"),
    ]
    with client() as asked:

        def upload(name: str, data: bytes, **fields: str) -> Any:
            sent = {"source": "en", "target": "de", **fields}
            return asked.post("/translate_file", data=sent, files={"file": (name, data, "x/y")})

        for name, data, expected, named in rows:
            url = upload(name, data).json()["translatedFileUrl"]
            fetched = asked.get(url)
            assert (fetched.content, url.rpartition("/")[2]) == (expected, named)
            assert fetched.headers["content-disposition"] == "attachment"
        assert asked.get(url.replace("/download_file/", "/download_file/x")).status_code == 404
        made = asked.get(upload("a.po", po).json()["translatedFileUrl"]).text
        assert 'msgstr "%d DOGS0"' in made
        url = upload("a.html", KOREAN.encode(), **TO_ENGLISH).json()["translatedFileUrl"]
        assert asked.get(url).text == KOREAN.replace('"ko"', '"en"').replace("</p>", "0</p>")
        for name in ("a.exe", "", "txt", "a.csv", "a.json"):
            refused = upload(name, b"caf\xe9")
            assert (refused.status_code, list(refused.json())) == (400, ["error"]), name
        refused = asked.post("/translate_file", data=HELLO)
        assert refused.status_code == 400 and "the field file is missing" in refused.text
        assert upload("a.txt", b"x" * 2_100_000).status_code == 413


@pytest.mark.parametrize(("proxy", "path"), [("testclient", "/mt"), ("1.2.3.4", "")])
def test_a_trusted_proxy_tells_the_path_before_that_of_the_server(proxy: str, path: str) -> None:
    server: Any = made_up_app().asgi()
    behind: Any = ProxyHeaders(server, [proxy])
    asked, told = TestClient(behind), {"x-forwarded-prefix": "/mt/"}
    url = asked.post("/translate_file", **UPLOAD, headers=told).json()["translatedFileUrl"]
    assert url.startswith(f"http://testserver{path}/download_file/")
    assert asked.get(url.replace("/mt/", "/"), headers=told).content == b"X0"


def test_what_is_deleted_cannot_be_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    with client() as asked:

        def upload() -> str:
            url: str = asked.post("/translate_file", **UPLOAD).json()["translatedFileUrl"]
            return url

        first, second = upload(), upload()
        monkeypatch.setattr("bytenmt.serve.app.KEPT_BYTES", 3)
        upload()
        assert [asked.get(url).status_code for url in (first, second)] == [404, 404]
        monkeypatch.setattr("bytenmt.serve.app.KEPT_SECONDS", 0.0)
        assert asked.get(upload()).status_code == 404


def test_suggestions_are_texts_to_train_on(tmp_path: Path) -> None:
    with client(suggestions=tmp_path) as asked:
        sent = {**HELLO, "q": "one\ttwo\n", "s": "eins\r\nzwei\u2028drei"}
        assert asked.post("/suggest", data=sent).json() == {"success": True}
        (tmp_path / "de-en.tsv").mkdir()
        for suggested, status in (
            ({**HELLO, "s": "hallo"}, 200),
            ({**sent, "q": " \n"}, 400),
            (HELLO, 400),
            ({**sent, "target": "../x"}, 400),
            ({**sent, "target": "en"}, 400),
            ({**sent, "source": "de", "target": "en"}, 507),
        ):
            assert asked.post("/suggest", json=suggested).status_code == status
    assert (tmp_path / "en-de.tsv").read_bytes() == b"one two\teins zwei drei\nhello\thallo\n"
    with client() as asked:
        assert asked.post("/suggest", data={**HELLO, "s": "hallo"}).status_code == 403


def test_what_clients_ask_first() -> None:
    with client() as asked:
        languages = asked.get("/languages").json()
        assert languages[0] == {"code": "ko", "name": "Korean", "targets": ["en", "ko"]}
        assert languages[2]["targets"] == ["de", "en"]
        guesses = asked.post("/detect", data={"q": "the dog and the cat are here"}).json()
        assert guesses[0]["language"] == "en" and guesses[0]["confidence"] > 90
        assert {guess["language"] for guess in guesses} == {"ko", "en", "de"}
        assert asked.get("/health").json() == asked.get("/ready").json() == {"status": "ok"}
        settings = asked.get("/frontend/settings").json()
        assert settings["charLimit"] == 20_000
        assert {".po", ".xliff", ".docx"} <= set(settings["supportedFilesFormat"])
        spec = asked.get("/spec").json()
    assert set(spec["paths"]) == {route.path for route in made_up_app()._routes}
    content = spec["paths"]["/translate"]["post"]["requestBody"]["content"]
    name = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
    body = spec["components"]["schemas"][name]
    assert set(body["required"]) == {"q", "target"} and "alternatives" in body["properties"]


def test_the_page_asks_nobody_else() -> None:
    with client() as asked:
        page = asked.get("/")
        script = asked.get("/page/script.js")
        assert asked.get("/page/style.css").status_code == script.status_code == 200
        assert asked.get("/page/../app.py").status_code == asked.get("/page/").status_code == 404
    policy = page.headers["content-security-policy"]
    assert page.headers["content-type"].startswith("text/html") and "default-src 'none'" in policy
    assert "unsafe" not in policy and "*" not in policy
    assert not re.search(r"https?://|//[a-z]|\son[a-z]+=|\sstyle=|<style", page.text)
    assert not re.search(r"https?://|innerHTML|eval\(", script.text)
    fields = set(re.findall(r'id="(\w+)"', page.text))
    assert set(re.findall(r'<label[^>]*for="(\w+)"', page.text)) <= fields
    assert set(re.findall(r'\$\("(\w+)"\)', script.text)) <= fields


def test_metrics_and_a_failure_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The log has neither texts nor what an error's answer hides, nor tokens or file names."""
    caplog.set_level("INFO", "bytenmt.serve")
    app = made_up_app("en-de", keys=["secret"])
    with TestClient(app.asgi()) as asked:
        for path in ("/metrics", "/download_file/token/name.txt"):
            assert asked.get(path).status_code == 403
        key = {"authorization": "bearer  secret"}  # the scheme's case does not matter
        assert asked.get("/download_file/token/name.txt", headers=key).status_code == 404
        asked.post("/translate", json=HELLO, headers=key)
        asked.get("/token/hello")
        lines = asked.get("/metrics", params={"api_key": "secret"}).text.splitlines()

        broken: Any = app.service
        broken.plan = AsyncMock(side_effect=RuntimeError("the inside of it"))
        answer = asked.post("/translate", json=HELLO, headers=key)
    assert answer.status_code == 500 and "inside" not in answer.text
    for beginning in (
        'bytenmt_requests_total{path="/translate",status="200"} 1.0',
        'bytenmt_requests_total{path="/download_file/{token}/{name}",status="404"} 1.0',
        'bytenmt_source_bytes_total{direction="en-de"} 5.0',
        "bytenmt_requests_in_flight 0.0",
        'bytenmt_build_info{direction="en-de",models="",version=',
        'bytenmt_queue_wait_seconds_bucket{le="5.0"} 1.0',
        "bytenmt_dead_document_processes_total 0.0",
        "process_resident_memory_bytes",
    ):
        assert any(line.startswith(beginning) for line in lines), beginning
    logged = "\n".join(caplog.messages).replace("{token}/{name}", "")
    assert "testclient failed: RuntimeError: the inside of it" in logged
    assert "POST /translate 200" in logged and "GET (unknown) 404" in logged
    assert not re.search("hello|token/|/name|secret", logged)
