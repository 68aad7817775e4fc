"""Fetch the corpora of the results, each file at a fixed commit and checked by its SHA-256.

    python tools/get_data.py multi30k tinyshakespeare war-and-peace -o corpora
    python tools/get_data.py tatoeba-eng-deu --from FOLDER -o corpora
    python tools/get_data.py --pack shipped-en-de shipped-en-ko --from corpora -o packed

Corpora without an address in tools/corpora.toml are copied --from a folder, which holds the corpus'
own folder or its files, gzipped or not; the phrases come from data/phrases. Existing files are
checked and kept. tinyshakespeare is split as in nanoGPT: the first 90 % of its bytes are train.txt,
the last 10 % valid.txt. The training text of a corpus of several sources is also written in the
parts that tools/corpora.toml names. valid-eng-deu and valid-eng-kor are made of the first lines of
other corpora, which must be there.

--pack writes the training and validation text of recipes (tools/recipes) xz-compressed, which
training reads as it is, so that it can travel to a machine without a network: 60 MB at most.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import lzma
import sys
import tomllib
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
CORPORA = Path(__file__).with_name("corpora.toml")
RECIPES = Path(__file__).with_name("recipes")
GZIP = b"\x1f\x8b"
MAX_PACKED_BYTES = 60_000_000


def fetch(name: str, corpus: Mapping[str, Any], output: Path, source: Path | None) -> Path:
    """Write a corpus as a folder of plain text files below output, and return its path.

    Raises OSError where a file cannot be fetched, ValueError where its digest is wrong.
    """
    folder = output / name
    folder.mkdir(parents=True, exist_ok=True)
    if "first_lines" in corpus:
        for file in corpus["files"]:
            join_first_lines(folder / file, corpus["first_lines"], output)
        return folder
    for file, about in corpus["files"].items():
        path = folder / file
        if not (path.is_file() and digest(path.read_bytes()) == about["sha256"]):
            data = _unpacked(_read(name, corpus, file, about, source))
            if (found := digest(data)) != about["sha256"]:
                raise ValueError(f"{name}/{file} is not the file of tools/corpora.toml: {found}")
            path.write_bytes(data)
    if name == "tinyshakespeare":
        text = (folder / "input.txt").read_bytes()
        n_train = len(text) * 9 // 10
        (folder / "train.txt").write_bytes(text[:n_train])
        (folder / "valid.txt").write_bytes(text[n_train:])
    if "parts" in corpus:
        write_parts(folder, **corpus["parts"])
    return folder


def write_parts(folder: Path, stem: str, rest: str, sources: Mapping[str, Sequence[str]]) -> None:
    """Write the lines of STEM.LANGUAGE as train.PART.LANGUAGE, by their sources in STEM.source.

    sources: those of each part; the lines of all other sources are the part `rest`.
    """
    part_of = {source: part for part, names in sources.items() for source in names}
    source_file = folder / f"{stem}.source"
    parts = [part_of.get(name, rest) for name in source_file.read_text("utf-8").splitlines()]
    for path in sorted(folder.glob(f"{stem}.??")):
        lines = path.read_text("utf-8").split("\n")
        for part in (*sources, rest):
            chosen = [f"{line}\n" for line, own in zip(lines, parts, strict=False) if own == part]
            (folder / f"train.{part}{path.suffix}").write_text("".join(chosen), "utf-8")


def join_first_lines(path: Path, n_lines: Mapping[str, int], corpora: Path) -> None:
    """Write the first lines of the files of the same name of several corpora to one file.

    n_lines: how many of each corpus. Raises OSError where a corpus was not fetched.
    """
    joined = b""
    for corpus, n in n_lines.items():
        lines = (corpora / corpus / path.name).read_bytes().splitlines(keepends=True)
        joined += b"".join(lines[:n])
    path.write_bytes(joined)


def pack(recipes: Sequence[str], corpora: Path, output: Path) -> int:
    """Write the texts of recipes below output as FILE.xz; return their bytes. Raises OSError,
    ValueError."""
    files: set[str] = set()
    for name in recipes:
        for texts in tomllib.loads((RECIPES / f"{name}.toml").read_text("utf-8"))["texts"].values():
            files.update([texts] if isinstance(texts, str) else texts)
    n_bytes = 0
    for file in sorted(files):
        data = lzma.compress((corpora / file).read_bytes())
        n_bytes += len(data)
        path = output / f"{file}.xz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    if n_bytes > MAX_PACKED_BYTES:
        raise ValueError(
            f"{output} has {n_bytes} bytes, expected at most {MAX_PACKED_BYTES}: name fewer recipes"
        )
    return n_bytes


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(
    name: str, corpus: Mapping[str, Any], file: str, about: Mapping[str, Any], source: Path | None
) -> bytes:
    """Return the bytes of a file as stored, possibly gzipped."""
    if "folder" in corpus:
        source = REPOSITORY / corpus["folder"]
    if source is not None:
        for path in (source / name / file, source / file):
            for there in (path, path.with_name(path.name + ".gz")):
                if there.is_file():
                    return there.read_bytes()
        raise FileNotFoundError(f"no {file} or {file}.gz in {source} or {source / name}")
    if "address" not in corpus:
        raise FileNotFoundError(f"{name} has no address: give the folder that holds it by --from")
    with urllib.request.urlopen(corpus["address"].format(about["there"]), timeout=60) as response:
        return bytes(response.read())


def _unpacked(data: bytes) -> bytes:
    return gzip.decompress(data) if data.startswith(GZIP) else data


def main() -> None:
    corpora = tomllib.loads(CORPORA.read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(corpora))
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of all corpora")
    parser.add_argument("--from", dest="source", type=Path, help="take the files from a folder")
    parser.add_argument("--pack", nargs="+", default=[], metavar="RECIPE", help="pack their text")
    args = parser.parse_args()
    if unknown := set(args.names) - corpora.keys():
        parser.error(f"{', '.join(unknown)}: expected {', '.join(corpora)}")
    try:
        for name in args.names:
            folder = fetch(name, corpora[name], args.output, args.source)
            print(f"{folder}: {corpora[name]['licence']}")
        if args.pack:
            n_bytes = pack(args.pack, args.source or Path("corpora"), args.output)
            print(f"{args.output}: {n_bytes / 1e6:.1f} MB")
    except (OSError, ValueError) as error:
        sys.exit(f"get_data: {error}")


if __name__ == "__main__":
    main()
