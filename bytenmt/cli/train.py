"""The command `train`. Heavy modules are imported inside it, so that --help is quick."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any, ClassVar

from bytenmt.cli.console import detail
from bytenmt.cli.languages import LanguageOptions
from bytenmt.cli.options import ARCHITECTURES, MACHINE, InputOptions, PresetOptions, collect_given, command
from bytenmt.cli.progress import Console
from bytenmt.config.fields import Weight, option, options_of
from bytenmt.config.schema import TrainConfig
from bytenmt.decoding.interface import EngineSpec

Paths = tuple[Path, ...]


@dataclass(frozen=True, kw_only=True)
class Start(PresetOptions):
    """The options on the run, its configuration and its start."""

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
    tensorboard: bool = option(False, "Also write the metrics for TensorBoard.")


@dataclass(frozen=True, kw_only=True)
class Texts(InputOptions, LanguageOptions):
    """The texts to train on and to validate on."""

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
    from bytenmt.cli import training_pairs
    from bytenmt.distributed import local_device, pick_device, process_group

    device, console = local_device(pick_device(machine.device)), Console()
    documents = {"tmx": texts.tmx, "xliff": texts.xliff, "po": texts.po}
    named = {key: value for key, value in vars(texts).items() if key not in (*documents, "pair")}
    with process_group(device) as group:
        tables = training_pairs.conversions(start.output, documents, texts.pair)
        named["tsv"] += tuple(one.table for one in tables)

        def convert() -> None:
            for line in group.on_leader(lambda: [*map(training_pairs.convert, tables)]):
                console.say(line)

        detail(f"training on {device}, PyTorch {torch.__version__}", console.say)
        runs.train(
            start.output,
            **named,
            arch=start.arch,
            preset=start.preset,
            config=start.config,
            settings=start.assignments,
            init_from=start.init_from,
            resume=start.resume,
            tensorboard=start.tensorboard,
            device=machine.device,
            threads=machine.threads,
            reporter=console,
            group=group,
            prepare=convert,
            **limits,
        )
