"""The command `train`. Heavy modules are imported inside it, so that --help is quick."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bytenmt.cli import options
from bytenmt.cli.console import detail
from bytenmt.cli.languages import PAIR
from bytenmt.cli.options import ARCHITECTURES, Part, click_option, collect_given, command, plain, record
from bytenmt.cli.progress import Records, told_as
from bytenmt.config.fields import Option, Weight, option, options_of
from bytenmt.config.schema import TrainConfig
from bytenmt.decoding.interface import EngineSpec
from bytenmt.decoding.setting_table import SPEED

MODEL, DATA, TRAINING, START, LOGGING = (
    "Model and configuration",
    "Training data",
    "Training",
    "Start and resume",
    "Logging",
)
Paths = tuple[Path, ...]
ARCH = Option("arch", str | None, None, "Architecture of the model.", metavar="|".join(ARCHITECTURES))


@dataclass(frozen=True)
class Texts:
    """The texts to train on and to validate on."""

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


@dataclass(frozen=True)
class Start:
    """The start of a training, and its logs."""

    init_from: Path | None = option(
        None, "Run folder or weights file from which the new run takes its model and initial weights."
    )
    resume: bool = option(
        False, "Continue the run in -o on the texts it was started with; limits may be raised."
    )
    tensorboard: bool = option(False, "Also write the metrics for TensorBoard.", heading=LOGGING)
    log_format: str = option(
        "text",
        "Format of the log on stderr; json includes a record of the metrics.",
        choices=("text", "json"),
        heading=LOGGING,
    )


CONFIG = Option("config", Path | None, None, "TOML file whose values override the preset's.")
OUTPUT = Option("output", Path, None, "Run folder to create.", ("-o", "--output"))


@command(
    "train",
    plain(OUTPUT, required=True),
    Part(
        [click_option(ARCH, MODEL, shell_complete=options.complete_architecture)],
        lambda values: {"arch": values.pop("arch")},
    ),
    plain(options.PRESET, CONFIG, options.SET, heading=MODEL),
    record("texts", Texts, DATA),
    plain(PAIR, heading=DATA),
    options.ERRORS,
    collect_given("limits", options_of(TrainConfig).values(), TRAINING),
    record("start", Start, START),
    record("machine", EngineSpec, SPEED, leave_out=("engine", "precision", "reverse")),
)
def train(
    output: Path,
    arch: str | None,
    preset: str | None,
    config: Path | None,
    assignments: tuple[str, ...],
    texts: Texts,
    pair: str | None,
    errors: str,
    limits: dict[str, Any],
    start: Start,
    machine: EngineSpec,
) -> None:
    """Train a translation model or a language model.

    A translation model is trained on parallel text: --src and --tgt, --tsv, --tmx, --xliff and --po, which
    may be combined and repeated. A byte language model is trained on --text. Text files may be packed (.gz,
    .xz, .zst). Options of the training are keys of the configuration, whose defaults a preset may change.
    Under torchrun all processes train one model.
    """
    import torch

    from bytenmt.cli import training_pairs
    from bytenmt.distributed import local_device, pick_device, process_group
    from bytenmt.training import arguments
    from bytenmt.training import run as training

    device = local_device(pick_device(machine.device))
    with told_as(start.log_format) as console, process_group(device) as group:
        documents = training_pairs.conversions(
            output, {"tmx": texts.tmx, "xliff": texts.xliff, "po": texts.po}, pair
        )
        tsv = texts.tsv + tuple(one.table for one in documents)
        files, valid = arguments.files_to_train_on(
            output,
            start.resume,
            (texts.src, texts.tgt, tsv, texts.text),
            texts.weights,
            *(texts.valid_src, texts.valid_tgt, texts.valid_tsv, texts.valid_text),
        )
        whole_config = group.on_leader(
            lambda: arguments.configuration(
                output,
                start.resume,
                arch,
                preset,
                config,
                arguments.settings_tree(assignments, limits),
                files[0].has_source,
                start.init_from,
                device.type == "cuda",
            )
        )
        for line in group.on_leader(lambda: [*map(training_pairs.convert, documents)]):
            console.say(line)
        detail(f"training on {device}, PyTorch {torch.__version__}", console.say)

        def watch(metrics: Mapping[str, Any]) -> None:
            if isinstance(console, Records):
                console.tell("metrics", "info", **metrics)

        outcome = training.train(
            output,
            whole_config,
            files=files,
            valid=valid,
            device=device,
            errors=errors,
            resume=start.resume,
            init_from=start.init_from,
            tensorboard=start.tensorboard,
            group=group,
            reporter=console,
            watch=watch,
            threads=machine.threads,
        )
        if outcome.signal:
            sys.exit(128 + outcome.signal)
