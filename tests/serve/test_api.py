"""LibreTranslate's API as its clients use it, over made-up engines: a line comes back in capitals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from made_up_service import Gate, client, made_up_server
from starlette.routing import Route
from starlette.testclient import TestClient

from bytenmt.decoding.constraints.glossary import Glossary, parse_term
from bytenmt.errors import BytenmtError
from bytenmt.serve.http import app as app_module
from bytenmt.serve.http import request as request_module
from bytenmt.serve.languages import Direction
from bytenmt.serve.limits import Limits
from bytenmt.serve.suggestions import Suggestions

HELLO = {"q": "hello", "source": "en", "target": "de"}


def test_one_text_in_every_way_that_clients_send_it() -> None:
    with client() as test_client:
        answers = [
            test_client.post("/translate", json=HELLO),
            test_client.post("/translate", data=HELLO),
            test_client.post("/translate", params=HELLO),  # and no body at all
            test_client.post("/translate", files={name: (None, value) for name, value in HELLO.items()}),
            test_client.post("/translate", content=json.dumps(HELLO)),  # and no type
            test_client.post("/translate", json={**HELLO, "source": "EN", "target": "de-AT"}),
        ]
    for answer in answers:
        assert (answer.status_code, answer.json()) == (200, {"translatedText": "HELLO0"})


def test_several_texts_are_as_many_answers_in_their_order() -> None:
    texts = ["a", "", "b", "a", "two\nlines"]
    with client() as test_client:
        for sent in ({"json": {**HELLO, "q": texts}}, {"data": {**HELLO, "q": texts}}):
            answer = test_client.post("/translate", **sent)  # type: ignore[arg-type]
            assert answer.json() == {"translatedText": ["A0", "", "B0", "A0", "TWO0\nLINES0"]}
        assert test_client.post("/translate", json={**HELLO, "q": []}).json() == {"translatedText": []}
        assert test_client.post("/translate", json={**HELLO, "q": ["x"]}).json() == {"translatedText": ["X0"]}


def test_requests_as_weblate_sends_them() -> None:
    """The list of languages, a probe, and strings with placeholders; older versions send one in a form."""
    with client() as asked:
        languages = {one["code"]: one["targets"] for one in asked.get("/languages").json()}
        assert "de" in languages["en"]
        probe = {"api_key": "", "q": ["test"], "source": "en", "target": "de"}
        assert asked.post("/translate", json=probe).json() == {"translatedText": ["TEST0"]}
        texts = ["The [X0X] was not found.", "Open [X7X] in [X8X]", "", "Two\nlines"]
        answer = asked.post("/translate", json={**probe, "q": texts})
        assert answer.status_code == 200 and len(answer.json()["translatedText"]) == len(texts)
        for text, translation in zip(texts, answer.json()["translatedText"], strict=True):
            assert re.findall(r"\[X\dX\]", text) == sorted(re.findall(r"\[X\dX\]", translation))
        form = {"api_key": "", "q": "hello", "source": "en", "target": "de"}
        assert asked.post("/translate", data=form).json() == {"translatedText": "HELLO0"}


def test_a_plug_in_of_omegat_that_asks_by_get_is_refused() -> None:
    """Any page can make a browser send a GET: translations are asked for by POST alone."""
    with client() as asked:
        assert asked.get("/translate", params=HELLO).status_code == 405


def test_white_space_and_line_ends_are_kept() -> None:
    with client() as test_client:
        answer = test_client.post("/translate", json={**HELLO, "q": "  one\r\n\r\n\ttwo \n"})
    assert answer.json()["translatedText"] == "  ONE0\r\n\r\n\tTWO0 \n"


def test_lines_of_an_address_alone_are_copied() -> None:
    """Lines of nothing but an address are copied, as a whole and in parts; so are placeholders, which are
    kept by default.
    """
    text = "https://x.org/a\ninfo@x.org\n{name}\nhello"
    copied = text.replace("hello", "HELLO0")
    with client() as test_client:
        answer = test_client.post("/translate", json={**HELLO, "q": text, "alternatives": 1}).json()
        assert answer["translatedText"] == copied
        stream = test_client.post(
            "/translate", json={**HELLO, "q": text}, headers={"accept": "text/event-stream"}
        )
        assert json.loads(stream.text.rpartition("data: ")[2])["translatedText"] == copied
        parts = [json.loads(line[6:]) for line in stream.text.splitlines() if line.startswith("data: ")]
        assert "".join(part.get("text", "") for part in parts) == copied


def test_tags_are_kept() -> None:
    text = '<p title="x">one &amp; <b>two</b></p><!-- no --><script>if (a<b) {}</script>'
    with client() as test_client:
        answer = test_client.post("/translate", json={**HELLO, "q": text, "format": "html"})
    assert answer.json()["translatedText"] == (
        '<p title="X0">ONE &amp; <b>TWO</b>0</p><!-- no --><script>if (a<b) {}</script>'
    )


def test_alternatives() -> None:
    with client() as test_client:
        one = test_client.post("/translate", data={**HELLO, "alternatives": "2"}).json()
        two = test_client.post("/translate", json={**HELLO, "q": ["a\nb", "c"], "alternatives": 1}).json()
    assert one == {"translatedText": "HELLO0", "alternatives": ["HELLO1", "HELLO2"]}
    assert two == {"translatedText": ["A0\nB0", "C0"], "alternatives": [["A1\nB1"], ["C1"]]}


def test_a_third_language_lies_between() -> None:
    """A third language is used if no model joins two languages; a language into itself needs no model."""
    with client() as test_client:
        answer = test_client.post("/translate", json={"q": "abc", "source": "ko", "target": "de"})
        assert answer.json() == {"translatedText": "ABC00"}
        same = test_client.post("/translate", json={"q": " abc\n", "source": "de", "target": "de"})
        assert same.json() == {"translatedText": " abc\n"}
        languages = {one["code"]: one for one in test_client.get("/languages").json()}
    assert languages["ko"] == {
        "code": "ko",
        "name": "Korean",
        "targets": ["de", "en", "ko"],
        "direct": ["en"],
    }
    assert languages["de"]["targets"] == ["de", "en"]
    with client("ko-en") as test_client:  # clients look for the target's code here too
        assert [one["code"] for one in test_client.get("/languages").json()] == ["ko", "en"]


def test_the_language_is_found_out() -> None:
    with client() as test_client:
        one = test_client.post("/translate", json={**HELLO, "q": "안녕", "source": "auto"}).json()
        assert one == {
            "translatedText": "안녕00",
            "detectedLanguage": {"language": "ko", "confidence": 100.0},
        }
        two = test_client.post(
            "/translate", json={"q": ["der Hund", "안녕"], "source": "auto", "target": "en"}
        )
        assert [each["language"] for each in two.json()["detectedLanguage"]] == ["de", "ko"]
        assert two.json()["translatedText"] == ["DER HUND0", "안녕0"]
        guesses = test_client.post("/detect", data={"q": "the dog and the cat"}).json()
    assert guesses[0]["language"] == "en" and guesses[0]["confidence"] > 90
    assert {guess["language"] for guess in guesses} == {"ko", "en", "de"}


@pytest.mark.parametrize(
    ("sent", "status", "reason"),
    [
        ({"content": b'{"q": "a",, }', "headers": {"content-type": "application/json"}}, 400, "Invalid JSON"),
        ({"content": b'{"q": "\xff"}', "headers": {"content-type": "application/json"}}, 400, "Invalid JSON"),
        ({"content": b"[" * 100_000, "headers": {"content-type": "application/json"}}, 400, "Invalid JSON"),
        ({"content": b'{"q":' * 9_000, "headers": {"content-type": "application/json"}}, 400, "Invalid JSON"),
        ({"json": ["hello"]}, 400, "expected an object"),
        ({"json": {**HELLO, "q": 7}}, 400, "q must be a string"),
        ({"json": {**HELLO, "q": ["a", None]}}, 400, "q must be a string"),
        ({"json": {**HELLO, "target": ["de", "en"]}}, 400, "target must be a string"),
        ({"json": {"source": "en", "target": "de"}}, 400, "missing q"),
        ({"json": {"q": "a", "source": "en"}}, 400, "missing target"),
        ({"json": {**HELLO, "target": "xx"}}, 400, "xx is not supported"),
        ({"json": {**HELLO, "source": "de", "target": "ko"}}, 400, "no model translates de into ko"),
        ({"json": {**HELLO, "format": "pdf"}}, 400, "format must be text or html"),
        ({"json": {**HELLO, "alternatives": -1}}, 400, "alternatives must be a whole number"),
        ({"json": {**HELLO, "alternatives": "many"}}, 400, "alternatives must be a whole number"),
        ({"content": b"q=\xff\xfe&source=en&target=de"}, 400, "not UTF-8"),
        ({"content": b"--x", "headers": {"content-type": "multipart/form-data; boundary=y"}}, 400, ""),
        ({"content": b"--x", "headers": {"content-type": "multipart/form-data"}}, 400, "Invalid form"),
        ({"json": {**HELLO, "q": "a" * 101}}, 413, "at most 100"),
        ({"json": {**HELLO, "q": ["a"] * 51}}, 413, "at most 100"),
        ({"content": b"q=" + b"a" * 300_000}, 413, "at most 200,000 bytes"),
    ],
)
def test_what_is_no_request_is_told_why(sent: dict[str, Any], status: int, reason: str) -> None:
    with client(limits=Limits(body=200_000, characters=100)) as test_client:
        answer = test_client.post("/translate", **sent)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
        assert reason in answer.json()["error"]


def test_surrogate_halves_are_no_text() -> None:
    """JSON can write them; UTF-8 cannot."""
    content = b'{"q": "\\ud83d", "source": "en", "target": "de"}'
    with client() as test_client:
        answer = test_client.post("/translate", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400


def test_keys() -> None:
    with client(keys=["secret", "슬쩍"]) as test_client:
        for key in ("", "wrong", "secret ", "secre"):
            answer = test_client.post("/translate", json={**HELLO, "api_key": key})
            assert (answer.status_code, list(answer.json())) == (403, ["error"])
        assert test_client.post("/detect", data={"q": "a"}).status_code == 403
        for sent in (
            {"json": {**HELLO, "api_key": "secret"}},
            {"json": {**HELLO, "apiKey": "슬쩍"}},
            {"params": {**HELLO, "api_key": "secret"}},
            {"json": HELLO, "headers": {"authorization": "Bearer secret"}},
        ):
            assert test_client.post("/translate", **sent).status_code == 200  # type: ignore[arg-type]
        for path in ("/languages", "/health", "/frontend/settings", "/"):
            assert test_client.get(path).status_code == 200
        assert test_client.get("/frontend/settings").json()["keyRequired"] is True


def test_what_waits_is_limited() -> None:
    """The queue is full: come again later."""
    gate = Gate(open=False)
    server, _ = made_up_server(gate=gate, limits=Limits(queue=1))
    with TestClient(server.app()) as test_client:
        with server.service.admitted(1):
            answer = test_client.post("/translate", json=HELLO)
            assert answer.status_code == 429 and 1 <= int(answer.headers["retry-after"]) <= 60
            stream = test_client.post("/translate", json=HELLO, headers={"accept": "text/event-stream"})
            assert stream.status_code == 429
        gate.open.set()
        assert test_client.post("/translate", json=HELLO).status_code == 200
    assert server.service.n_requests == server.service.n_characters == 0


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        ({"content": b"q=%ff%fe&source=en&target=de"}, 400, "a field is not UTF-8"),
        ({"content": b"q=\xff&source=en&target=de"}, 400, "the body is not UTF-8"),
        ({"json": HELLO, "headers": {"content-encoding": "gzip"}}, 415, "Content-Encoding gzip is not"),
        ({"json": HELLO, "headers": {"content-encoding": "identity"}}, 200, None),
    ],
)
def test_bytes_that_are_no_text_are_refused(sent: dict[str, Any], status: int, message: str | None) -> None:
    with client() as test_client:
        answer = test_client.post("/translate", **sent)
    assert answer.status_code == status
    assert message is None or message in answer.json()["error"]


def test_suggestions_are_texts_to_train_on(tmp_path: Path) -> None:
    with client(suggestions=Suggestions(tmp_path)) as test_client:
        sent = {**HELLO, "q": "one\ttwo\n", "s": "eins\r\nzwei\u2028drei"}
        assert test_client.post("/suggest", data=sent).json() == {"success": True}
        assert test_client.post("/suggest", json={**HELLO, "s": "hallo", "source": "auto"}).status_code == 200
        for wrong in ({**sent, "q": " \n"}, {**HELLO}, {**sent, "target": "../x"}):
            assert test_client.post("/suggest", json=wrong).status_code == 400
    assert (tmp_path / "en-de.tsv").read_bytes().splitlines()[0] == b"one two\teins zwei drei"
    assert len(list(tmp_path.iterdir())) == 1
    with client() as test_client:
        assert test_client.post("/suggest", data={**HELLO, "s": "hallo"}).status_code == 403
    Suggestions(tmp_path / "made" / "now").add(Direction("en", "de"), "a", "b")
    with pytest.raises(BytenmtError, match="cannot be created: "):
        Suggestions(tmp_path / "en-de.tsv")


def test_files() -> None:
    def upload(test_client: TestClient, name: str, data: bytes) -> Any:
        return test_client.post(
            "/translate_file", data={"source": "en", "target": "de"}, files={"file": (name, data, "x/y")}
        )

    with client() as test_client:
        answer = upload(test_client, "my file.txt", b"one\r\ntwo\n")
        url = answer.json()["translatedFileUrl"]
        fetched = test_client.get(url)
        assert (fetched.content, url.rpartition("/")[2]) == (b"ONE0\r\nTWO0\n", "my_file_de.txt")
        assert "attachment" in fetched.headers["content-disposition"]
        assert test_client.get(url.replace("/download_file/", "/download_file/x")).status_code == 404
        page = upload(test_client, "a.HTML", b"<p>one</p>").json()["translatedFileUrl"]
        assert test_client.get(page).content == b"<p>ONE0</p>"
        for name, data in (("a.exe", b"x"), ("", b"x"), ("txt", b"x"), ("a.txt", b"caf\xe9")):
            refused = upload(test_client, name, data)
            assert (refused.status_code, list(refused.json())) == (400, ["error"])
        assert test_client.post("/translate_file", data=HELLO).status_code == 400


@pytest.mark.slow
def test_documents_keep_what_is_no_text() -> None:
    """This holds for a bilingual format and a table; a malformed file is reported with the position."""
    po = b'msgid ""\nmsgstr ""\n\n#: a.c:1\nmsgid "%d dogs"\nmsgstr ""\n'
    with client() as test_client:
        kinds = test_client.get("/frontend/settings").json()["supportedFilesFormat"]
        assert {".po", ".xliff", ".tmx", ".srt", ".html", ".md", ".txt"} <= set(kinds)

        def answer(name: str, data: bytes) -> Any:
            sent = {"data": {"source": "en", "target": "de"}, "files": {"file": (name, data)}}
            return test_client.post("/translate_file", **sent).json()  # type: ignore[arg-type]

        made = test_client.get(answer("a.po", po)["translatedFileUrl"]).content
        assert made == po[:-3].replace(b'msgid "%d', b'#, fuzzy\nmsgid "%d') + b'"%d DOGS0"\n'
        reason = answer("a.json", b'{"a": ')["error"]
        assert reason.startswith("the file.json: not json: Expecting value: line 1")


def test_terms_and_placeholders_are_kept() -> None:
    """Terms may come as an object, as lines of a form, and with files; not through a third language, and
    unknown names are refused.
    """
    text = "the {name} dog at https://a.b"
    with client() as test_client:
        for sent in (
            {"json": {**HELLO, "q": text, "keep": ["placeholders"], "glossary": {"dog": "Hund"}}},
            {"data": {**HELLO, "q": text, "keep": "placeholders", "glossary": "dog\tHund|Hunde\n"}},
        ):
            answer = test_client.post("/translate", **sent)  # type: ignore[arg-type]
            assert "Hund" in answer.json()["translatedText"] and "{name}" in answer.json()["translatedText"]
        for wrong, reason in (
            ({"keep": "dogs"}, "keep must contain only"),
            ({"keep": 3}, "keep must contain only"),
            ({"glossary": "dog"}, "glossary, line 1: expected"),
            ({"glossary": [1]}, "glossary must give a target"),
            ({"glossary": {"a": "b" * 400}}, "at most 200 terms"),
            ({"glossary": []}, "glossary must give a target"),
            ({"glossary": {"a": None}}, "must be a string"),
            ({"glossary": {"a": ["b", "c"]}}, "must be a string"),
            ({"glossary": {"a": 7}}, "must be a string"),
            ({"glossary": {"a": "b\nc"}}, "a line break or tab"),
            ({"glossary": {"a": "b\tc"}}, "a line break or tab"),
            ({"glossary": {"a": "b\r"}}, "a line break or tab"),
            ({"glossary": {"a": "\u2028b"}}, "a line break or tab"),
            ({"glossary": {"a\nb": "c"}}, "a line break or tab"),
            ({"glossary": {"a\tb": "c"}}, "a line break or tab"),
            ({"glossary": {"": "c"}}, "expected `term TAB target`"),
            ({"glossary": {"a": ""}}, "expected `term TAB target`"),
            ({"glossary": {"a": "b"}, "source": "auto"}, "a glossary needs a source language"),
            ({"glossary": {"a": "b"}, "source": "ko"}, "a glossary needs a source language"),
        ):
            refused = test_client.post("/translate", json={**HELLO, **wrong})
            assert refused.status_code == 400 and reason in refused.json()["error"]


def test_what_programs_send_is_kept_by_default() -> None:
    """Placeholders, Weblate's too, tags and URLs; a request may name others, or none."""
    text = "[X7X] of {name} <b>at</b> https://a.b/c %1$s x@y.org"
    kept = ["[X7X]", "{name}", "<b>", "</b>", "https://a.b/c", "%1$s"]
    with client() as test_client:

        def translated(**fields: Any) -> str:
            found: str = test_client.post("/translate", json={**HELLO, "q": text, **fields}).json()[
                "translatedText"
            ]
            return found

        assert all(one in translated() for one in kept) and "X@Y.ORG" in translated()
        assert translated(q=[text, "a"]) == [translated(), "A0"]
        assert translated(keep="") == text.upper() + "0"
        assert "x@y.org" in translated(keep="emails") and "{NAME}" in translated(keep="emails")
    with client(keep=()) as test_client:
        assert (
            test_client.post("/translate", json={**HELLO, "q": text}).json()["translatedText"]
            == text.upper() + "0"
        )
        page = test_client.post(
            "/translate", json={**HELLO, "q": "<p>x@y.org is {here}</p>", "format": "html"}
        )
        assert page.json()["translatedText"] == "<p>x@y.org IS {here}0</p>"


def test_a_server_has_terms_of_its_own() -> None:
    """The server's terms apply on every route of their direction; a client's term for the same text replaces
    them.
    """
    terms = [parse_term(line, Path("terms"), 1) for line in (b"dog\tHund", b"cat\tKatze")]
    glossaries = {Direction("en", "de"): Glossary.from_terms(terms)}
    with client(glossaries=glossaries) as test_client:

        def translated(source: str, **fields: Any) -> str:
            sent = {"q": "the dog and the cat", "source": source, "target": "de", **fields}
            found: str = test_client.post("/translate", json=sent).json()["translatedText"]
            return found

        assert "Hund" in translated("en") and "Katze" in translated("en")
        assert translated("auto") == translated("en")
        assert "Hund" in translated("ko", q="a dog it")  # by way of English
        own = translated("en", glossary={"dog": "Dogge"})
        assert "Dogge" in own and "Hund" not in own and "Katze" in own
        assert "Hund" not in test_client.post("/translate", json={**HELLO, "q": "dog", "target": "en"}).text


def test_a_table_has_a_column_to_translate() -> None:
    table = b'id;text;de\n1;"one; two";\n2;three;\n'

    def upload(test_client: TestClient, name: str = "a.csv", **fields: str) -> Any:
        sent = {"source": "en", "target": "de", **fields}
        return test_client.post("/translate_file", data=sent, files={"file": (name, table)})

    with client() as test_client:
        for fields, expected in (
            ({"column": "text"}, b'id;text;de\n1;"ONE; TWO0";\n2;THREE0;\n'),
            ({"column": "2", "into": "3"}, b'id;text;de\n1;"one; two";"ONE; TWO0"\n2;three;THREE0\n'),
            ({"column": "text", "into": "de"}, b'id;text;de\n1;"one; two";"ONE; TWO0"\n2;three;THREE0\n'),
        ):
            answer = upload(test_client, **fields)
            assert answer.status_code == 200, answer.text
            assert test_client.get(answer.json()["translatedFileUrl"]).content == expected
        for fields, reason in (
            ({}, "a table needs a column"),
            (
                {"column": "none"},
                "the file.csv: none is not one of the columns id, text, de",
            ),
            ({"name": "a.txt", "column": "1"}, "column and into are for CSV"),
        ):
            refused = upload(test_client, **fields)
            assert refused.status_code == 400 and reason in refused.json()["error"]


def test_the_description_is_that_of_the_routes() -> None:
    """Every route is in it, with every field that its code reads; a page shows it."""
    server, _ = made_up_server()
    routes = {
        (one.path, method)
        for one in server.routes()
        if isinstance(one, Route)
        for method in one.methods or ()
    }
    with TestClient(server.app()) as test_client:
        spec = test_client.get("/spec").json()
        docs = test_client.get("/docs")
    described = {(path, method.upper()) for path, one in spec["paths"].items() for method in one}
    assert described == {(path, method) for path, method in routes if method != "HEAD"}
    for path, method in described:
        assert f"{method} {path}" in docs.text
        assert spec["paths"][path][method.lower()]["responses"]["200"]["description"]
    source = Path(str(request_module.__file__)).read_text() + Path(str(app_module.__file__)).read_text()
    read = set(
        re.findall(r"(?:fields\.get|self\.text|self\.number|parsed\.text|parsed\.flag)\(\"(\w+)\"", source)
    )
    every = {
        name
        for one in spec["paths"].values()
        if "post" in one
        for name in next(iter(one["post"]["requestBody"]["content"].values()))["schema"]["properties"]
    }
    assert read | {"q", "api_key", "file"} == every


def test_health_figures_and_what_else_is_asked_first() -> None:
    with client() as test_client:
        assert test_client.get("/health").json() == {"status": "ok"}
        test_client.post("/translate", json=HELLO)
        test_client.post("/translate", json={})
        figures = test_client.get("/metrics")
        assert figures.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = figures.text.splitlines()
        assert 'bytenmt_requests_total{path="translate",status="200"} 1.0' in lines
        assert 'bytenmt_requests_total{path="translate",status="400"} 1.0' in lines
        assert 'bytenmt_target_bytes_total{direction="en-de"} 6.0' in lines
        assert 'bytenmt_request_seconds_bucket{le="+Inf"} 1.0' in lines
        assert "bytenmt_requests_in_flight 0.0" in lines
        assert "/translate" in test_client.get("/spec").json()["paths"]
        assert test_client.get("/frontend/settings").json()["charLimit"] == Limits().characters
        for answer, status in ((test_client.get("/none"), 404), (test_client.get("/translate"), 405)):
            assert (answer.status_code, list(answer.json())) == (status, ["error"])


def test_a_failure_is_told_in_the_log_and_not_to_the_client() -> None:
    server, lines = made_up_server()

    async def fails(*_: Any) -> None:
        raise RuntimeError("the inside of it")

    server.service.translate = fails  # type: ignore[assignment]
    with TestClient(server.app()) as test_client:
        answer = test_client.post("/translate", json=HELLO)
    assert answer.status_code == 500 and "inside" not in answer.text
    reason = [json.loads(line) for line in lines]
    assert reason[0]["error"] == "RuntimeError: the inside of it"
    assert {"event", "status", "seconds", "pair", "characters"} <= reason[1].keys()
    assert "hello" not in "".join(lines)


@pytest.mark.slow
def test_an_engine_that_fails_is_replaced() -> None:
    gate = Gate()
    with client(gate=gate) as test_client:
        gate.open.wait = lambda _: False  # type: ignore[method-assign]
        assert test_client.post("/translate", json=HELLO).status_code == 500
        del gate.open.wait
        assert test_client.post("/translate", json=HELLO).json() == {"translatedText": "HELLO0"}
