"""The field `formality` of requests to the server, over made-up engines."""

from pathlib import Path
from typing import Any

import pytest
from made_up_engine import make_run
from made_up_service import HELLO, SSE, UPLOAD, Gate, made_up_app
from starlette.testclient import TestClient

from bytenmt.errors import BytenmtError
from bytenmt.reporter import SILENT
from bytenmt.serve.languages import Direction
from bytenmt.serve.loading import load_models

ABLE = Direction("en", "de")


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def client(gate: Gate) -> TestClient:
    """A client of a server whose model from English into German has learned forms of address."""
    app = made_up_app(gate=gate)
    models = app.service.models
    models[ABLE] = models[ABLE]._replace(has_formality=True)
    return TestClient(app.asgi())


def forms(gate: Gate) -> set[Any]:
    """Return the forms that engines were asked for."""
    return {request.formality for batch in gate.admitted for request in batch}


@pytest.mark.parametrize("form", ["formal", "informal", None])
@pytest.mark.parametrize("more", [{}, {"alternatives": 1}, {"format": "html"}])
def test_a_request_asks_for_its_form(
    client: TestClient, gate: Gate, form: str | None, more: dict[str, Any]
) -> None:
    answer = client.post("/translate", json={**HELLO, "formality": form, **more})
    assert answer.status_code == 200 and answer.json()["translatedText"] == "HELLO0"
    assert forms(gate) == {form} and set(gate.lines()) == {b"hello"}


def test_requests_side_by_side_have_forms_of_their_own(client: TestClient, gate: Gate) -> None:
    for form in ("formal", None, "informal"):
        client.post("/translate", json={**HELLO, "formality": form})
    assert forms(gate) == {"formal", None, "informal"}


def test_a_stream_and_a_file_ask_for_it_too(client: TestClient, gate: Gate) -> None:
    fields = {**HELLO, "formality": "formal"}
    assert "HELLO0" in client.post("/translate", json=fields, headers=SSE).text
    answer = client.post("/translate_file", **{**UPLOAD, "data": fields})
    assert answer.status_code == 200, answer.text
    assert forms(gate) == {"formal"}


def test_a_model_that_cannot_refuses(client: TestClient) -> None:
    fields = {**HELLO, "source": "de", "target": "en", "formality": "formal"}
    answer = client.post("/translate", json=fields)
    message = "the model of de-en has not learned forms of address: leave out formality"
    assert answer.status_code == 400 and answer.json() == {"error": message}
    wrong = client.post("/translate", json={**HELLO, "formality": "polite"})
    assert wrong.status_code == 400 and "polite" in wrong.json()["error"]


def test_the_page_offers_it_where_the_model_can(client: TestClient) -> None:
    assert client.get("/frontend/settings").json()["formality"] == ["en-de"]
    assert 'id="formality"' in client.get("/").text
    spec = client.get("/spec").json()
    assert "formality" in str(spec["components"]["schemas"]["TranslateBody"])


def test_the_option_of_a_server_is_for_the_models_that_can(tmp_path: Path) -> None:
    able = make_run(tmp_path / "able", settings=("data.formality=0.5",))
    plain = make_run(tmp_path / "plain")
    pairs = [f"en-de={able}", f"de-en={plain}"]
    models = load_models(pairs, {"formality": "formal", "threads": 1}, SILENT)
    assert [model.has_formality for model in models.values()] == [True, False]
    translators = [model.worker._translator for model in models.values()]
    assert [one.settings.formality for one in translators] == ["formal", None]
    with pytest.raises(BytenmtError, match="--formality needs a model"):
        load_models(pairs[1:], {"formality": "formal", "threads": 1}, SILENT)
