"""The table of properties: growth of the cost, paths and fields of models with all options."""

import re

import pytest
from command_line import invoke
from invariants import build
from variants import VARIANTS

from bytenmt.architectures.registry import BUILT_IN
from bytenmt.evaluation.properties import HEAD, table

# Measured on these models when they were written: costs by counted products, paths and fields by
# gradients.
ROWS = """
seq2seq|RNN/RNN|S + T|no|S + T|T|all from its own on|all up to its own
seq2seq-every-step|RNN/RNN|S + T|no|S|T|all from its own on|all up to its own
bahdanau|RNN/RNN|S·T|yes|1|T|all of the source|all up to its own
luong|RNN/RNN|S·T|yes|1|T|all up to its own|all up to its own
luong-concat|RNN/RNN|S·T|yes|1|T|all from its own on|all up to its own
luong-location|RNN/RNN|S + cT|yes|1 in the window, else ≤ S + T|T|all from its own on|all up to its own
luong-local-p|RNN/RNN|S + cT|yes|1 in the window, else ≤ S + T|T|all up to its own|all up to its own
luong-off|RNN/RNN|S + T|no|S + T|T|all up to its own|all up to its own
luong-alone|–/RNN|T|–|–|T|–|all up to its own
bytenet|CNN/CNN|cS + cT|yes|c = 8|c = 4|13 bytes|13 bytes
bytenet-short|CNN/CNN|cS + cT|yes|c = 4|c = 2|5 bytes|5 bytes
bytenet-add|CNN/CNN|cS + cT|yes|c = 7|c = 4|13 bytes|13 bytes
bytenet-ngrams|CNN/CNN|cS + cT|yes|c = 8|c = 4|18 bytes|18 bytes
bytenet-alone|–/CNN|cT|–|–|c = 4|–|13 bytes
recurrent-bytenet-decoder|CNN/RNN|cS + T|yes|c = 5 in the field, else T|T|13 bytes|all up to its own
recurrent-bytenet-both|RNN/RNN|S + T|yes|T|T|all up to its own|all up to its own
convs2s|CNN/CNN|S·T|yes|1|c = 2|5 bytes|6 bytes
convs2s-uneven|CNN/CNN|S·T|yes|1|c = 3|5 bytes|4 bytes
convs2s-dilated|CNN/CNN|S·T|yes|1|c = 2|9 bytes|14 bytes
convs2s-ngrams|CNN/CNN|S·T|yes|1|c = 2|12 bytes|13 bytes
convs2s-pooling|mean/CNN|S·T|yes|1|c = 2|4 bytes|6 bytes
convs2s-conv|CNN/CNN|S·T|yes|c = 2|c = 2|7 bytes|6 bytes
convs2s-conv-wider|CNN/CNN|S·T|yes|c = 3|c = 3|6 bytes|4 bytes
transformer|attention/attention|S² + S·T|yes|c = 3|c = 2|all of the source|7 bytes
transformer-uneven|attention/attention|S² + S·T|yes|c = 2|c = 3|all of the source|7 bytes
transformer-alone|–/attention|cT|–|–|c = 2|–|7 bytes
""".strip().splitlines()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[0])
def test_what_is_claimed_of_a_model(row: str) -> None:
    name = row.split("|")[0]
    config = build(VARIANTS[name]).config
    head, found, *_ = table([(name, config)]).splitlines()  # type: ignore[list-item]
    assert re.split("  +", head) == [*HEAD] and re.split("  +", found) == row.split("|")


def test_the_table_is_of_the_configured_models() -> None:
    """All by default; others by name; what is not known of an option is not told."""
    said = invoke("info --properties").stdout.splitlines()
    assert [line.split()[0] for line in said[1:7]] == [*BUILT_IN]
    paper = invoke("info --properties --preset paper bytenet").stdout
    assert re.split("  +", paper.splitlines()[1]) == [
        *("bytenet", "CNN/CNN", "cS + cT", "yes", "c = 60", "c = 30", "373 bytes", "373 bytes")
    ]
    for words in ("info", "info luong bytenet"):
        assert invoke(words).exit_code in (1, 2)
