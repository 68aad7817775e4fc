"""Score an English-German translation model on text like that of its users.

    python tools/score_model.py data/models/en-de --direction en-de --corpora corpora --json en-de.json

Test sets: Tatoeba's test text as it is, in upper case, title case and lower case, and with 5, 10 and 20 % of
the source characters disturbed; strings of user interfaces; sentences with inserted placeholders, tags and
addresses ("kept": the share of lines that keep all of them); and single words of interfaces
(tools/interface_words.toml). "chrf_case_ignored" compares case-folded texts ("ß" is "ss"), so that it does
not depend on the case of the output. Several models are used as an ensemble.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, get_args

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # the checkout: tools import each other

import numpy as np

from bytenmt.data.augment.copying import keyed_draws
from bytenmt.data.augment.letter_case import Case, with_case
from bytenmt.data.augment.noise import Letters, noisy_lines
from bytenmt.data.augment.placeholders import insert_placeholders, literal_spans
from bytenmt.data.text_file import TextFile
from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.decoding.loading import load_runs
from bytenmt.decoding.translator import Translator
from bytenmt.errors import BytenmtError, DataError
from bytenmt.evaluation.scores import text_scores
from tools.measurements import NOISE_SEED, SHARES

WORDS = Path(__file__).with_name("interface_words.toml")
SENTENCES, STRINGS = "tatoeba-eng-deu", "uistrings-eng-deu"
N_PLACEHOLDERS = 300  # sentences that get a placeholder
PLACEHOLDER_SEED = 1

Translate = Callable[[Sequence[str]], list[str]]


def scores(translate: Translate, direction: str, corpora: Path, n_lines: int | None) -> dict[str, Any]:
    """Return all scores of a model. n_lines: number of first lines of each test text; None: all.

    Raises BytenmtError where a test text is missing.
    """
    own, other = direction.split("-")
    sources, references = (read_test(corpora, SENTENCES, side, n_lines) for side in (own, other))
    strings, string_references = (read_test(corpora, STRINGS, side, n_lines) for side in (own, other))
    found: dict[str, Any] = {"direction": direction, "lines": len(sources)}
    found["tatoeba"] = {"clean": _scored(translate(sources), references)}
    for case in get_args(Case):
        cased = [with_case(line, case) for line in sources]
        found["tatoeba"][case] = _scored(translate(cased), references)
    letters = Letters.from_texts(sources)
    encoded = [line.encode() for line in sources]
    for share in SHARES[1:]:
        disturbed = [line.decode() for line in noisy_lines(encoded, share, letters, NOISE_SEED)]
        found["tatoeba"][f"noise {share:g}"] = _scored(translate(disturbed), references)
    translated = translate(strings)
    found["uistrings"] = {**_scored(translated, string_references), "kept": kept_share(strings, translated)}
    found["placeholders"] = _placeholders(translate, sources[:N_PLACEHOLDERS], references[:N_PLACEHOLDERS])
    found["words"] = interface_words(translate, direction)
    return found


def read_test(corpora: Path, name: str, side: str, n_lines: int | None) -> list[str]:
    """Return the lines of one side of a corpus' test text. Raises DataError."""
    text = TextFile.open(corpora / name / f"test.{side}")
    return [line.decode() for line in islice(iter(text), n_lines)]


def _scored(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Return chrF, chrF of case-folded texts, BLEU and exact matches."""
    found = text_scores(hypotheses, references)
    folded = text_scores([text.casefold() for text in hypotheses], [text.casefold() for text in references])
    return {
        "chrf": found.chrf,
        "chrf_case_ignored": folded.chrf,
        "bleu": found.bleu,
        "exact_match": found.exact_match,
    }


def literals(text: str) -> Counter[str]:
    """Count the placeholders, tags, addresses and escapes of a text."""
    return Counter(text[begin:end] for begin, end in literal_spans(text))


def kept_share(sources: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Return the share of translations that keep all literals of the source, of the sources that have any."""
    pairs = [(literals(own), literals(other)) for own, other in zip(sources, hypotheses, strict=True)]
    with_any = [own == other for own, other in pairs if own]
    return sum(with_any) / len(with_any) if with_any else 1.0


def _placeholders(translate: Translate, sources: list[str], references: list[str]) -> dict[str, float]:
    """Score sentences with a literal inserted on both sides; insertions are the same in every run."""
    changed = [
        insert_placeholders(own, other, keyed_draws(np.uint64(PLACEHOLDER_SEED + k)))
        for k, (own, other) in enumerate(zip(sources, references, strict=True))
    ]
    changed_sources = [own for own, _ in changed]
    translated = translate(changed_sources)
    return {
        **_scored(translated, [other for _, other in changed]),
        "kept": kept_share(changed_sources, translated),
    }


def interface_words(translate: Translate, direction: str) -> dict[str, Any]:
    """Return how many single words have an accepted translation, and the translations that do not."""
    accepted: dict[str, list[str]] = tomllib.loads(WORDS.read_text(encoding="utf-8"))[direction]
    translated = dict(zip(accepted, translate(list(accepted)), strict=True))
    wrong = {
        word: text
        for word, text in translated.items()
        if text.strip(" .!…").casefold() not in {one.casefold() for one in accepted[word]}
    }
    return {"n": len(accepted), "right": len(accepted) - len(wrong), "wrong": wrong}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="run folders or weights files")
    parser.add_argument("--direction", choices=("en-de", "de-en"), required=True)
    parser.add_argument("--corpora", type=Path, required=True, help="folder written by tools/get_data.py")
    parser.add_argument("--lines", type=int, help="use only the first lines of each test text")
    parser.add_argument("-b", "--beam", type=int, default=5, help="beam size (%(default)s)")
    parser.add_argument("--precision", default=AUTO, help="of the weights, as in bytenmt translate")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    args = parser.parse_args(arguments)
    try:
        runtime = load_runs(args.models, EngineSpec(AUTO, AUTO, args.precision, args.threads))
        translator = Translator.from_runtime(runtime, beam=args.beam)
        found = scores(translator.translate, args.direction, args.corpora, args.lines)
    except (BytenmtError, DataError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    text = json.dumps(found, indent=1, ensure_ascii=False)
    print(text)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
