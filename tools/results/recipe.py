"""Recipes of result tables: the training text, training command and test text of each row."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bytenmt.errors import BytenmtError

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "tools/recipes"
TRANSLATOR = "bytenmt"
RIVAL = "rival"


Files = str | tuple[str, ...]  # one file of the corpora, or one of each corpus that is mixed


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """A row of a table.

    options: training options, in addition to the table's; program: the training program; ensemble:
    rows that translate together (nothing is trained); distil: rows, or runs of the repository
    (names with a slash), whose translations of the table's training sources replace the targets;
    init_from: the row whose weights training starts from; texts: files that differ from the
    table's; minutes: budget, converted to the updates that the row makes in so many minutes when it
    trains alone, see reproduce.py --time; seeds: instead of the table's; not_run: the reason, if it
    was decided not to run the row.
    """

    name: str
    title: str = ""
    options: tuple[str, ...] = ()
    program: str = TRANSLATOR
    ensemble: tuple[str, ...] = ()
    distil: tuple[str, ...] = ()
    init_from: str = ""
    texts: dict[str, Files] = {}
    minutes: float = 0.0
    seeds: tuple[int, ...] = ()
    not_run: str = ""

    @property
    def dependencies(self) -> tuple[str, ...]:
        """Names of the rows that must be run before this one."""
        teachers = (name for name in self.distil if "/" not in name)
        return (*self.ensemble, *teachers, *([self.init_from] if self.init_from else []))


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The recipe of a table.

    texts: files of the corpora by the options of `train` that take them, several where corpora are
    mixed; weights: of each corpus, see --weight of `train`; test: "src" and "ref", or "text" for
    byte language models; options: of all trainings of bytenmt; decode: options of `translate`;
    beam: beam size of all rows; noise: whether rows are also measured in int8 on one thread, for
    speed, and on disturbed sources; tokenize: sacreBLEU's tokenizer; seeds: every row is trained
    with each of them, as a row NAME@SEED of its own.
    """

    name: str = ""
    title: str
    texts: dict[str, Files]
    weights: tuple[float, ...] = ()
    test: dict[str, str]
    options: tuple[str, ...] = ()
    decode: tuple[str, ...] = ()
    beam: int = 1
    seeds: tuple[int, ...] = ()
    noise: bool = False
    tokenize: str = "13a"
    row: tuple[Row, ...]

    @staticmethod
    def from_file(path: Path) -> Recipe:
        """Read the recipe of a table from its TOML file. Raises BytenmtError."""
        try:
            tree = tomllib.loads(path.read_text(encoding="utf-8")) | {"name": path.stem}
            found = msgspec.convert(tree, Recipe)
        except (OSError, ValueError, msgspec.ValidationError) as error:
            raise BytenmtError(f"{path}: {error}") from None
        if found.seeds:
            pairs = [(row, seed) for row in found.row for seed in row.seeds or found.seeds]
            found = msgspec.structs.replace(found, row=tuple(_seeded(*pair) for pair in pairs))
        known: set[str] = set()
        for row in found.row:
            if missing := [name for name in row.dependencies if name not in known]:
                raise BytenmtError(
                    f"{path}: row {row.name} needs {missing[0]}, which does not stand above it"
                )
            known.add(row.name)
        return found

    @property
    def rows(self) -> Mapping[str, Row]:
        """The rows by name, in the table's order."""
        return {row.name: row for row in self.row}

    def select_rows(self, names: Sequence[str]) -> list[str]:
        """Return the rows with some names, or all to be run; NAME selects NAME@SEED of every seed.

        Raises BytenmtError for an unknown name.
        """
        if not names:
            return [row.name for row in self.row if not row.not_run]
        rows = []
        for name in names:
            matching = [row for row in self.rows if name in (row, row.partition("@")[0])]
            if not matching:
                known = dict.fromkeys(row.partition("@")[0] for row in self.rows)
                raise BytenmtError(
                    f"--row {name}: expected one of {', '.join(known)}, or one seed as NAME@1"
                )
            rows += matching
        return rows

    @property
    def is_language_model(self) -> bool:
        """True if the table is about byte language models."""
        return "text" in self.test

    def training_arguments(self, row: str, corpora: Path, folder: Path) -> list[str]:
        """Return the arguments of a row's training.

        folder: of all rows of the table.
        """
        one = self.rows[row]
        words = [*self._training(row, corpora, folder, folder / row / "run")]
        if one.minutes:
            rate = self.timed_rate(row, folder)
            words += ["--max-updates", "UPDATES" if rate is None else f"{one.minutes * rate:.0f}"]
        return words

    def timing_arguments(self, row: str, corpora: Path, folder: Path, minutes: float) -> list[str]:
        """Return the arguments of a short training that measures a row's updates per minute."""
        words = self._training(row, corpora, folder, self.timing_folder(row, folder))
        quick = ["--set", "train.valid_lines=0"] if self.rows[row].program == TRANSLATOR else []
        return [*words, *quick, "--max-updates", "0", "--max-minutes", f"{minutes:g}"]

    def _training(self, row: str, corpora: Path, folder: Path, run: Path) -> list[str]:
        one = self.rows[row]
        texts = self.texts | one.texts
        if one.distil:
            texts = {key: file for key, file in texts.items() if key not in ("src", "tgt")}
        words = ["-o", str(run)]
        for key, files in texts.items():
            words += _option(key, (corpora / file for file in each_file(files)))
        if one.distil:
            words += _option("tsv", self.distilled_files(row, folder))
        words += _option("weight", (f"{weight:g}" for weight in self.weights))
        words += ["--init-from", str(folder / one.init_from / "run")] if one.init_from else []
        return [*words, *(self.options if one.program == TRANSLATOR else ()), *one.options]

    def timing_folder(self, row: str, folder: Path) -> Path:
        """Return the folder of the run that times a row; all seeds share it."""
        return folder / "timing" / row.partition("@")[0]

    def timed_rate(self, row: str, folder: Path) -> float | None:
        """Return a row's updates per minute, or None where it was not timed."""
        file = self.timing_folder(row, folder).with_suffix(".json")
        if not file.is_file():
            return None
        return float(json.loads(file.read_text("utf-8"))["updates_per_minute"])

    def runs(self, row: str, folder: Path) -> list[Path]:
        """Return the runs that a row translates with: its own, or the members of the ensemble."""
        return [folder / name / "run" for name in self.rows[row].ensemble or (row,)]

    def teachers(self, row: str, folder: Path) -> list[Path]:
        """Return the runs whose translations a row is trained on."""
        distil = self.rows[row].distil
        return [REPOSITORY / name if "/" in name else folder / name / "run" for name in distil]

    def sources(self, row: str) -> tuple[str, ...]:
        """Return the source files of a row's training text."""
        return each_file((self.texts | self.rows[row].texts)["src"])

    def distilled_files(self, row: str, folder: Path) -> list[Path]:
        """Return the files of distilled pairs, one per source file.

        Rows with equal teachers share them.
        """
        name = f"distilled-{'+'.join(Path(name).name for name in self.rows[row].distil)}"
        n = len(self.sources(row))
        return [folder / (f"{name}.tsv" if n == 1 else f"{name}-{i + 1}.tsv") for i in range(n)]

    def with_dependencies(self, rows: Sequence[str]) -> Iterator[str]:
        """Return these rows and the rows they depend on, in the table's order."""
        needed_rows = set(rows)
        for row in reversed(self.row):
            needed_rows.update(row.dependencies if row.name in needed_rows else ())
        return (row.name for row in self.row if row.name in needed_rows)


def each_file(files: Files) -> tuple[str, ...]:
    """Return the files."""
    return (files,) if isinstance(files, str) else files


def _option(name: str, values: Iterable[object]) -> list[str]:
    """Return an option once for each value."""
    return [word for value in values for word in (f"--{name}", str(value))]


def _seeded(row: Row, seed: int) -> Row:
    """Return a copy of a row that is trained with another seed."""

    def own(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name if "/" in name else f"{name}@{seed}" for name in names)

    return msgspec.structs.replace(
        row,
        name=own([row.name])[0],
        title=f"{row.title or row.name}, seed {seed}",
        options=(*row.options, "--seed", str(seed)) if row.options else (),
        ensemble=own(row.ensemble),
        distil=own(row.distil),
        init_from=own([row.init_from])[0] if row.init_from else "",
    )


def command(program: str, words: Sequence[Any]) -> str:
    """Return a training command as typed in a shell."""
    name = "bytenmt train" if program == TRANSLATOR else "python tools/rival/train.py"
    return " ".join([name, *map(str, words)])
