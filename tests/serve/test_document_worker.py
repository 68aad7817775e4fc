"""A file is translated by a worker of its own, which an opposite model ranks."""

from made_up_service import Gate
from starlette.testclient import TestClient

from bytenmt.serve.app import App
from bytenmt.serve.languages import Direction
from bytenmt.serve.service import DirectionWorkers, Service


def test_a_file_goes_to_the_worker_of_documents() -> None:
    texts, documents = Gate(), Gate()
    workers = DirectionWorkers(texts.worker(), texts.worker(4), documents=documents.worker())
    app = App(Service({Direction("en", "de"): workers}), ["*"], [], None)
    with TestClient(app.asgi()) as client:
        form = {"source": "en", "target": "de"}
        answer = client.post("/translate_file", data=form, files={"file": ("a.txt", b"some text")})
        assert answer.status_code == 200, answer.text
        assert documents.lines() == [b"some text"] and not texts.lines()
        answer = client.post("/translate", json={**form, "q": "other text"})
        assert answer.status_code == 200, answer.text
        assert texts.lines() == [b"other text"] and len(documents.lines()) == 1
