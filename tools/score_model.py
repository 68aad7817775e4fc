"""Score a translation model on text like that of its users.

    python tools/score_model.py data/models/en-de --direction en-de --corpora corpora --json de.json

Test sets: everyday sentences (Tatoeba) as they are, in upper case, title case and lower case, and
with 5, 10 and 20 % of the source characters disturbed; everyday phrases, letters, signs; strings,
help and documentation of programs that the models have not seen; news and encyclopaedia (FLORES);
lines with placeholders and tags; and single words of interfaces (tools/interface_words.toml).
"kept" is the share of the lines with kept spans (bytenmt/sentinels.py) whose translation has them
all. "chrf_case_ignored" compares case-folded texts ("ß" is "ss"), so that it does not depend on the
case of the output. BLEU of Korean is that of characters. Several models are used as an ensemble.

With --recipe two tables are added: bits per byte of training pairs beside held-out pairs, by
source; and chrF of the lines of each text by the rarest word of the source in the recipe's training
text.
"""

from __future__ import annotations

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

from bytenmt.data.augment.augmenter import Case, with_case
from bytenmt.data.augment.noise import Letters, noisy_lines
from bytenmt.data.text_file import TextFile
from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.decoding.loading import load_runs
from bytenmt.errors import BytenmtError, DataError
from bytenmt.evaluation.scores import text_scores
from bytenmt.sentinels import find_spans
from bytenmt.translation.translator import Translator
from tools.extras import tool_parser
from tools.measurements import NOISE_SEED, SHARES
from tools.results.recipe import FOLDER, Recipe
from tools.results.training_text import chrf_by_rarity, count_words, training_bits

WORDS = Path(__file__).with_name("interface_words.toml")
# The test sets beside everyday sentences: the corpus, and the name of its file without the
# language.
SENTENCES = {"de": "tatoeba-eng-deu", "ko": "tatoeba-eng-kor"}
OTHERS = {
    "de": {
        "phrases": ("phrases-eng-deu-kor", "test"),
        "uistrings": ("uistrings-eng-deu", "test"),
        "node-red": ("software-eng-deu", "test.node-red"),
        "libreoffice-help": ("software-eng-deu", "test.libreoffice-help"),
        "docs": ("docs-eng-deu", "test"),
        "flores": ("flores200-devtest", "devtest"),
        "spans": ("software-eng-deu", "test.spans"),
    },
    "ko": {
        "phrases": ("phrases-eng-deu-kor", "test"),
        "node-red": ("software-eng-kor", "test.node-red"),
        "libreoffice-help": ("software-eng-kor", "test.libreoffice-help"),
        "docs": ("docs-eng-kor", "test"),
        "flores": ("flores200-devtest", "devtest"),
        "spans": ("software-eng-kor", "test.spans"),
    },
}
WHOLE = ("flores",)  # compared with the scores of other systems: --lines does not cut it

Translate = Callable[[Sequence[str]], list[str]]


def scores(
    translate: Translate,
    direction: str,
    corpora: Path,
    n_lines: int | None,
    counts: Counter[str] | None = None,
) -> dict[str, Any]:
    """Return all scores of a model.

    n_lines: number of first lines of each test text; None: all. counts: of the words of the
    training text, for chrF by the rarest word of the source. Raises BytenmtError where a test text
    is missing.
    """
    foreign = foreign_language(direction)
    tokenize = "char" if direction.endswith("ko") else "13a"
    sources, references = read_test(corpora, direction, SENTENCES[foreign], "test", n_lines)
    found: dict[str, Any] = {"direction": direction, "lines": len(sources)}
    translated = translate(sources)
    sentences = found["tatoeba"] = {"clean": _scored(translated, references, tokenize)}
    if counts is not None:
        sentences["by rarest word"] = chrf_by_rarity(sources, translated, references, counts)
    for case in get_args(Case):
        cased = [with_case(line, case) for line in sources]
        sentences[case] = _scored(translate(cased), references, tokenize)
    letters = Letters.from_texts(sources)
    encoded = [line.encode() for line in sources]
    for share in SHARES[1:]:
        disturbed = [line.decode() for line in noisy_lines(encoded, share, letters, NOISE_SEED)]
        sentences[f"noise {share:g}"] = _scored(translate(disturbed), references, tokenize)
    for name, place in OTHERS[foreign].items():
        most = None if name in WHOLE else n_lines
        sources, references = read_test(corpora, direction, *place, most)
        translated = translate(sources)
        found[name] = _scored(translated, references, tokenize)
        found[name]["kept"] = kept_share(sources, translated)
        if counts is not None:
            found[name]["by rarest word"] = chrf_by_rarity(sources, translated, references, counts)
    found["words"] = interface_words(translate, direction)
    return found


def foreign_language(direction: str) -> str:
    """Return the language of a direction that is not English."""
    own, other = direction.split("-")
    return other if own == "en" else own


def read_test(
    corpora: Path, direction: str, corpus: str, name: str, n_lines: int | None
) -> tuple[list[str], list[str]]:
    """Return the first sources and references of a test text; n_lines None: all."""
    source, reference = (
        [
            line.decode()
            for line in islice(iter(TextFile.open(corpora / corpus / f"{name}.{side}")), n_lines)
        ]
        for side in direction.split("-")
    )
    return source, reference


def _scored(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str
) -> dict[str, float]:
    """Return chrF, chrF of case-folded texts, BLEU and exact matches."""
    found = text_scores(hypotheses, references, tokenize)
    own, other = ([text.casefold() for text in side] for side in (hypotheses, references))
    folded = text_scores(own, other, tokenize).chrf
    rest = {"bleu": found.bleu, "exact_match": found.exact_match}
    return {"chrf": found.chrf, "chrf_case_ignored": folded, **rest}


def kept_spans(text: str) -> Counter[str]:
    """Count the placeholders, tags, addresses and the like of a text."""
    return Counter(text[begin:end] for begin, end in find_spans(text))


def kept_share(sources: Sequence[str], hypotheses: Sequence[str]) -> float:
    """Return the share of translations that keep all spans of the source, of the sources that have
    any."""
    pairs = zip(map(kept_spans, sources), map(kept_spans, hypotheses), strict=True)
    with_any = [own == other for own, other in pairs if own]
    return sum(with_any) / len(with_any) if with_any else 1.0


def interface_words(translate: Translate, direction: str) -> dict[str, Any]:
    """Return how many single words have an accepted translation, and the wrong translations."""
    accepted: dict[str, list[str]] = tomllib.loads(WORDS.read_text(encoding="utf-8"))[direction]
    translated = dict(zip(accepted, translate(list(accepted)), strict=True))
    wrong = {
        word: text
        for word, text in translated.items()
        if text.strip(" .!…").casefold() not in {one.casefold() for one in accepted[word]}
    }
    return {"n": len(accepted), "right": len(accepted) - len(wrong), "wrong": wrong}


def training_files(recipe: str, corpora: Path) -> list[tuple[Path, Path]]:
    """Return the source and target file of each training text of a recipe."""
    texts = Recipe.from_file(FOLDER / f"{recipe}.toml").texts
    pairs = zip(texts["src"], texts["tgt"], strict=True)
    return [(corpora / src, corpora / tgt) for src, tgt in pairs]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = tool_parser(__doc__)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="runs or weights")
    parser.add_argument("--direction", choices=("en-de", "de-en", "en-ko", "ko-en"), required=True)
    parser.add_argument("--corpora", type=Path, required=True, help="folder of tools/get_data.py")
    parser.add_argument("--lines", type=int, help="use only the first lines of each test text")
    parser.add_argument("-b", "--beam", type=int, default=5, help="beam size (%(default)s)")
    parser.add_argument("--precision", default=AUTO, help="of the weights, as in bytenmt translate")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (%(default)s)")
    parser.add_argument("--recipe", help="of tools/recipes, for two tables of the training text")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    args = parser.parse_args(arguments)
    try:
        runtime = load_runs(args.models, EngineSpec(AUTO, AUTO, args.precision, args.threads))
        translator = Translator.from_runtime(runtime, beam=args.beam)
        training = training_files(args.recipe, args.corpora) if args.recipe else []
        counts = count_words(source for source, _ in training) if training else None
        found = scores(translator.translate, args.direction, args.corpora, args.lines, counts)
        if training:
            found["bits"] = training_bits(runtime, training)
    except (BytenmtError, DataError, ValueError) as error:
        sys.exit(f"error: {error}")
    text = json.dumps(found, indent=1, ensure_ascii=False)
    print(text)
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
