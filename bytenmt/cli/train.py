"""The command `train`. Heavy modules are imported inside it, so that --help is quick."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from bytenmt.atomic_file import replace_atomically
from bytenmt.cli.console import detail
from bytenmt.cli.languages import LanguageOptions, language_pair
from bytenmt.cli.options import ARCHITECTURES, MACHINE, InputOptions, PresetOptions, collect_given, command
from bytenmt.cli.progress import Console
from bytenmt.config.fields import Weight, option, options_of
from bytenmt.config.schema import TrainConfig
from bytenmt.decoding.interface import EngineSpec
from bytenmt.errors import BytenmtError, DataError

Paths = tuple[Path, ...]
CACHE = "cache"  # folder of a run, for tables of pairs


@dataclass(frozen=True, kw_only=True)
class Start(PresetOptions):
    """The options of `bytenmt train` on the run folder, the model, and its initial weights."""

    heading: ClassVar[str] = "Run and model"

    output: Path = option(MISSING, "Run folder to create.", "-o", "--output")
    arch: str | None = option(None, "Architecture of the model.", metavar="|".join(ARCHITECTURES))
    config: Path | None = option(None, "TOML file whose values override the preset's.")
    init_from: Path | None = option(
        None, "Run folder or weights file from which the new run takes its model and initial weights."
    )
    resume: bool = option(
        False, "Continue the run in -o on the texts it was started with; limits may be raised."
    )


@dataclass(frozen=True, kw_only=True)
class Texts(InputOptions, LanguageOptions):
    """The options of `bytenmt train` on the texts to train on and to validate on."""

    heading: ClassVar[str] = "Training data"

    src: Paths = option((), "Source text of the training pairs, one sentence per line; may be repeated.")
    tgt: Paths = option((), "Target text of the training pairs, parallel to --src; may be repeated.")
    tsv: Paths = option((), "Training pairs as lines `source TAB target`; may be repeated.")
    text: Paths = option((), "Monolingual training text of a language model, any bytes; may be repeated.")
    tmx: Paths = option((), "Translation memory (TMX) of training pairs; needs --pair. May be repeated.")
    xliff: Paths = option((), "XLIFF file whose translated units are training pairs; may be repeated.")
    po: Paths = option((), "PO file whose translated, not fuzzy entries are training pairs.")
    weights: tuple[Weight, ...] = option(
        (),
        "How often the pairs of a corpus occur per epoch (default: 1). Give one weight per corpus, in the"
        " order --tgt, --tsv, --tmx, --xliff, --po.",
        "--weight",
    )
    valid_src: Path | None = option(None, "Source text for validation.")
    valid_tgt: Path | None = option(None, "Target text for validation, parallel to --valid-src.")
    valid_tsv: Path | None = option(None, "Validation pairs as lines `source TAB target`.")
    valid_text: Path | None = option(None, "Monolingual validation text of a language model.")


@command("train", collect_given("limits", options_of(TrainConfig).values(), "Training"), MACHINE)
def train(start: Start, texts: Texts, limits: dict[str, Any], machine: EngineSpec) -> None:
    """Train a translation model or a language model.

    A translation model is trained on parallel text: --src and --tgt, --tsv, --tmx, --xliff and --po, which
    may be combined and repeated. A byte language model is trained on --text. Text files may be packed (.gz,
    .xz, .zst). Options of the training are keys of the configuration, whose defaults a preset may change.
    Under torchrun all processes train one model.
    """
    import torch

    from bytenmt.api import runs
    from bytenmt.distributed import local_device, pick_device, process_group

    device, console = local_device(pick_device(machine.device)), Console()
    options = {**vars(start), **vars(texts), **limits}
    output, settings, pair = (options.pop(name) for name in ("output", "assignments", "pair"))
    documents = {name: options.pop(name) for name in ("tmx", "xliff", "po")}
    with process_group(device) as group:
        tables = conversions(output, documents, pair)
        options["tsv"] += tuple(one.table for one in tables)

        def convert() -> None:
            for line in group.on_leader(lambda: [*map(convert_document, tables)]):
                console.say(line)

        detail(f"training on {device}, PyTorch {torch.__version__}", console.say)
        runs.train(
            output,
            **options,
            settings=settings,
            device=machine.device,
            threads=machine.threads,
            reporter=console,
            group=group,
            prepare=convert,
        )


class Conversion(NamedTuple):
    """A document (TMX, XLIFF or PO) to convert to a TSV file in the run folder, on which the run is trained.

    path, format: of the document. pair: its languages, for TMX. table: the TSV file to write, by whose digest
    --resume finds out whether the text is still the same.
    """

    path: Path
    format: str
    pair: tuple[str, str] | None
    table: Path


def conversions(run: Path, documents: Mapping[str, Sequence[Path]], pair: str | None) -> list[Conversion]:
    """Return a Conversion for each document; writes nothing. Raises BytenmtError for TMX without a pair.

    documents: paths by format. pair: the value of --pair.
    """
    if documents["tmx"] and pair is None:
        raise BytenmtError("--tmx needs the languages to read: give --pair, such as --pair en-de")
    languages, found = language_pair(pair), []
    for name, paths in documents.items():
        for path in paths:
            key = hashlib.sha256(f"{path.resolve()} {pair}".encode(errors="surrogateescape")).hexdigest()[:12]
            table = run / CACHE / f"{path.name[:80]}.{key}.tsv"
            found.append(Conversion(path, name, languages if name == "tmx" else None, table))
    return found


def convert_document(document: Conversion) -> str:
    """Write document.table and return a line with its number of pairs. Raises DataError if there are none."""
    lines = _lines(document)
    first = next(lines, None)  # before anything is written: raises if the file cannot be read
    if first is None:
        languages = "" if document.pair is None else f" {document.pair[0]} and {document.pair[1]}"
        raise DataError(f"{document.path} has no translated pair of texts{languages}")
    document.table.parent.mkdir(parents=True, exist_ok=True)
    n_pairs = 0
    with replace_atomically(document.table) as file:
        for line in chain([first], lines):
            file.write(line)
            n_pairs += 1
    return f"{document.path}: {n_pairs:,} pairs"


def _lines(document: Conversion) -> Iterator[bytes]:
    """Yield the lines of the table of a document."""
    from bytenmt.documents.formats import unit_pairs
    from bytenmt.documents.unit import to_markup

    for parts in unit_pairs(document.path, document.format, document.pair):
        source, target = (" ".join(to_markup(some).split()) for some in parts[:2])
        if source and target:
            yield f"{source}\t{target}\n".encode()
