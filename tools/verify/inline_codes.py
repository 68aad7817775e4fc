"""Score inline codes of translations by the validators of Prompsit's integrity benchmark (D1).

    python tools/verify/inline_codes.py BUILD INPUT... --model data/models/en-de

BUILD is datasets/d1-inline-asset-integrity/build of github.com/Prompsit/prompsit-mdc, which has
its validators (MPL). INPUT: a file of the benchmark (.jsonl: dev, test.input), or a public catalog
such as those of which it is made: .po, .arb, .json, .json5, or .xml of Android. Their strings that
have a code are translated by translate-file, as the values of a JSON file, and scored. Of the
strings of catalogs, --sample of each class of codes are drawn by --seed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polib

LANGUAGE = "de"  # of the records of the benchmark that are taken
# A member whose value is a string, in JSON5 as in JSON; names that begin with @ describe others.
MEMBER = re.compile(r'^\s*"(?!@)[^"]*":\s*("(?:[^"\\]|\\.)*"),?\s*$', re.MULTILINE)


# A string of Android.
RESOURCE = re.compile(r"<string [^>]*>(.*?)</string>", re.DOTALL)


def read_strings(path: Path) -> Iterator[str]:
    """Yield the English strings of a file of the benchmark or of a catalog."""
    if path.suffix == ".po":
        for entry in polib.pofile(str(path)):
            yield entry.msgid
        return
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".xml":
        for value in RESOURCE.findall(text):
            yield " ".join(value.replace("\\'", "'").split())
        return
    if path.suffix != ".jsonl":
        for value in MEMBER.findall(text):
            yield json.loads(value)
        return
    for line in text.splitlines():
        record = json.loads(line)
        if record["target_lang"] == LANGUAGE:
            yield record["source"]


def sample_by_class(strings: dict[str, list[str]], n_sample: int, seed: int) -> list[str]:
    """Return n_sample distinct strings of each class of codes, by drawing.

    strings: the classes of the codes of each string.
    """
    drawn: dict[str, None] = {}
    for name in sorted({name for classes in strings.values() for name in classes}):
        of_class = [text for text, classes in strings.items() if name in classes]
        chosen = random.Random(f"{seed} {name}").sample(of_class, min(n_sample, len(of_class)))
        for text in chosen:
            drawn[text] = None
    return list(drawn)


def is_scored(asset: Any) -> bool:
    """Return whether a code of a catalog may be in the benchmark.

    Of Markdown it has only texts that are the same in all languages, which a catalog does not tell,
    and an address has a host.
    """
    if asset.type == "markdown_inline":
        return bool(asset.raw.startswith("`"))
    return re.fullmatch(r"https?://\W*", asset.raw) is None


def translate(texts: list[str], model: Path, options: list[str]) -> list[str]:
    """Return the translations of texts as translate-file makes them of a JSON file."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.json")
        target = Path(folder, "out.json")
        source.write_text(json.dumps({f"k{k}": text for k, text in enumerate(texts)}))
        command = [sys.executable, "-m", "bytenmt", "translate-file", *options]
        subprocess.run([*command, model, source, target], check=True)
        return list(json.loads(target.read_text(encoding="utf-8")).values())


def print_counts(failures: list[tuple[str, list[str]]], classes: list[list[str]]) -> None:
    """Print the share of translations that pass, of each class of codes and in all.

    failures: each text and the names of the checks that it fails. classes: of each text.
    """
    n_texts = Counter(name for of_text in classes for name in of_text)
    n_failed = Counter(
        name
        for (_, checks), of_text in zip(failures, classes, strict=True)
        if checks
        for name in of_text
    )
    n_texts["all"] = len(classes)
    n_failed["all"] = sum(1 for _, checks in failures if checks)
    for name, n in n_texts.items():
        print(f"{name:20} {n - n_failed[name]:5} of {n:5} {1 - n_failed[name] / n:8.2%}")


def main() -> None:
    """Translate and score."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("build", metavar="BUILD", type=Path, help="folder of the validators")
    parser.add_argument("inputs", metavar="INPUT", type=Path, nargs="+", help="benchmark, catalogs")
    parser.add_argument("--model", type=Path, required=True, help="model into German")
    parser.add_argument("--sample", type=int, default=100, help="strings of a class (%(default)s)")
    parser.add_argument("--seed", type=int, default=63, help="of the sample (%(default)s)")
    parser.add_argument("--out", type=Path, help="write failed translations to this file")
    parser.add_argument("--fast", action="store_true", help="as translate-file --fast")
    arguments = parser.parse_args()
    sys.path.append(str(arguments.build))
    import assets  # type: ignore[import-not-found]
    import validators  # type: ignore[import-not-found]

    strings: dict[str, list[str]] = {}
    is_benchmark = False
    for path in arguments.inputs:
        is_benchmark |= path.suffix == ".jsonl"
        for text in read_strings(path):
            # Strings whose own codes are malformed pass in no translation.
            if text not in strings and validators.score_item(text, text)["pass"]:
                codes = assets.extract_assets(text)
                if codes and (is_benchmark or all(map(is_scored, codes))):
                    strings[text] = assets.asset_class_tags(codes)
    drawn = list(strings)
    if not is_benchmark:
        drawn = sample_by_class(strings, arguments.sample, arguments.seed)
    print(f"{len(strings)} strings with codes, {len(drawn)} of them translated", flush=True)
    options = ["--fast"] if arguments.fast else []
    translations = translate(drawn, arguments.model, options)
    failures: list[tuple[str, list[str]]] = []
    for text, translation in zip(drawn, translations, strict=True):
        checks: dict[str, Any] = validators.score_item(text, translation)
        failures.append((text, [name for name, passed in checks.items() if not passed]))
    print_counts(failures, [strings[text] for text in drawn])
    if arguments.out:
        rows = [
            {"source": text, "translation": translation, "failed": failed}
            for (text, failed), translation in zip(failures, translations, strict=True)
            if failed
        ]
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        arguments.out.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
