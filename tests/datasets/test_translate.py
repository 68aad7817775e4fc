"""A column of texts in batches of Arrow, translated by a made-up engine."""

from typing import Any

import pytest
from made_up_engine import made_up_translator

from bytenmt.datasets import Translate
from bytenmt.errors import SettingError
from bytenmt.translation.translator import Translator

pa = pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Translator, "load", lambda *_, **__: made_up_translator())


def test_a_column_is_added() -> None:
    """Nulls stay, invalid UTF-8 is repaired, and of several lines each is translated."""
    texts = [b"a", None, b"", b"c\xff", b"one\r\n\ntwo\n"]
    expected = ["A0", None, "", "C\ufffd0", "ONE0\r\n\nTWO0\n"]
    for kind in (pa.binary(), pa.large_binary()):
        table = pa.table({"id": range(5), "text": pa.array(texts, kind)})
        done = Translate("run", to="out")(table)
        assert done["out"].to_pylist() == expected and done.drop_columns("out").equals(table)
    rows = {"text": ["a", None], "id": [1, 2]}
    batch = pa.RecordBatch.from_pydict(rows)
    assert Translate("run")(batch).to_pydict() == {**rows, "translation": ["A0", None]}
    encoded = pa.array(["a", None, "a"]).dictionary_encode()
    for column, translations in ((encoded, ["A0", None, "A0"]), ([None, None], [None, None])):
        done = Translate("run")(pa.table({"text": column}))
        assert done["translation"].to_pylist() == translations


@pytest.mark.parametrize(
    ("batch", "options", "message"),
    [
        (pa.table({"id": [1]}), {}, "the columns are id: expected a column text"),
        (pa.table({"text": ["a"], "out": ["b"]}), {"to": "out"}, "and no out yet"),
        (pa.table({"text": [1]}), {}, "the column text is of type int64, not of texts"),
        ({"text": ["a"]}, {}, 'batch_format="pyarrow"'),
    ],
)
def test_a_batch_that_does_not_fit(batch: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Translate("run", **options)(batch)
