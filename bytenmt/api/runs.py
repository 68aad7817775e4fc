"""Run folders for programs: train a model, evaluate it, and load it for translation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.api.language_model import LanguageModel
from bytenmt.api.python_names import python_names
from bytenmt.api.training_arguments import configuration, files_to_train_on
from bytenmt.checkpoints.manifest import METRICS
from bytenmt.checkpoints.weights import read_config, read_run
from bytenmt.config.schema import Config
from bytenmt.config.tree import assign_value
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.text_file import TextFile
from bytenmt.decoding.interface import AUTO, EngineSpec
from bytenmt.decoding.loading import load_runs
from bytenmt.decoding.settings import Settings, encode_line
from bytenmt.decoding.translator import Translator
from bytenmt.errors import CheckpointError, ConfigError, SettingError
from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
from bytenmt.evaluation.scores import TextScores, text_scores
from bytenmt.reporter import SILENT, Reporter
from bytenmt.utf8 import EOS as EOS_ID

if TYPE_CHECKING:  # they import PyTorch
    from bytenmt.architectures.base import Model
    from bytenmt.training.callbacks import Callback

EOS = bytes([EOS_ID])
Name = str | Path
Names = Name | Sequence[Name]
Texts = Name | Iterable[str]  # a file's name, or the lines themselves


class Evaluation(NamedTuple):
    """The result of Run.evaluate.

    scores: chrF, BLEU and exact match; bits_per_byte: of the references; texts: the translations.

    >>> result = Run("runs/mine").evaluate(["a"], ["b"], max_len_a=0, max_len_b=4)
    >>> len(result.texts), result.bits_per_byte > 0, 0 <= result.scores.chrf <= 100
    (1, True, True)
    """

    scores: TextScores
    bits_per_byte: float
    texts: list[str]


@dataclass(frozen=True)
class Run:
    """A trained model on disk: a run folder or a weights file.

    >>> run = Run("runs/mine")
    >>> run.config.model.d_embedding
    8
    >>> result = run.evaluate(["오후 3시"], ["3 p.m."], beam=4)
    >>> result.texts == run.translator(beam=4).translate(["오후 3시"])
    True
    """

    path: Path

    def __init__(self, path: Name) -> None:
        object.__setattr__(self, "path", Path(path))

    @property
    def config(self) -> Config:
        """Return the configuration that it was trained with. Raises CheckpointError.

        >>> Run("runs/mine").config.data.max_source_bytes
        1000
        """
        return read_config(self.path)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the records that training has logged, oldest first.

        Each has its update and seconds, and the measurements of that moment: train_bits_per_byte,
        valid_bits_per_byte, valid_chrf and others.

        >>> run = bytenmt.train("runs/logged", arch="bahdanau", preset="tiny", src="src", tgt="tgt",
        ...     valid_src="src", valid_tgt="tgt", settings={"model.d_hidden": 8}, max_updates=1, threads=1)
        >>> [record["update"] for record in run.metrics() if "valid_bits_per_byte" in record]
        [1]
        """
        try:
            lines = (self.path / METRICS).read_text(encoding="utf-8").splitlines()
        except OSError:
            raise CheckpointError(
                f"{self.path} has no {METRICS}: only a folder of a training has it"
            ) from None
        return [json.loads(line) for line in lines]

    def translator(self, **options: Any) -> Translator:
        """Load the run for translation. options: of Translator.load.

        Raises SettingError for a language model.

        >>> type(Run("runs/mine").translator(beam=2, max_len_b=4).translate("one"))
        <class 'str'>
        """
        translator = Translator.load(self.path, **options)
        self._require_source(translator.has_source)
        return translator

    def language_model(self, **options: Any) -> LanguageModel:
        """Load a run that was trained without a source. options: of LanguageModel.load.

        >>> len(Run("runs/text").language_model().surprisal("ab").bits)
        2
        """
        return LanguageModel.load(self.path, **options)

    def log_probabilities(
        self, sources: Texts, targets: Texts, *, device: str = AUTO, threads: int | None = None
    ) -> list[float]:
        """Return the natural log-probability of each target given its source, EOS included.

        sources, targets: lines, or the name of a file of lines.

        >>> one, two = Run("runs/mine").log_probabilities(["a", "a"], ["b", "b c"])
        >>> one < 0, two < 0
        (True, True)
        """
        runtime = load_runs([self.path], EngineSpec(AUTO, device, "fp32", threads))
        self._require_source(runtime.has_source)
        corpus = _corpus(sources, targets)
        return [float(log_p) for log_p in log_probabilities(runtime.reader(), corpus)]

    def byte_log_probabilities(
        self, source: str | bytes, target: str | bytes, *, device: str = AUTO, threads: int | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the natural log-probability of each byte of a target given its source, and last that of EOS.

        >>> Run("runs/mine").byte_log_probabilities("a", "é").shape
        (3,)
        """
        runtime = load_runs([self.path], EngineSpec(AUTO, device, "fp32", threads))
        self._require_source(runtime.has_source)
        [read] = runtime.reader().texts(
            [encode_line(source, "the source")], [encode_line(target, "the target") + EOS]
        )
        return read.log_p

    def attention(
        self, source: str | bytes, target: str | bytes, *, device: str = AUTO, threads: int | None = None
    ) -> dict[int, npt.NDArray[np.float32]]:
        """Return the attention weights of each layer that attends, by its number from 1.

        They are (bytes of the target, bytes of the source + 1): how much the prediction of each byte attends
        to each source byte and to EOS.

        >>> [weights.shape for weights in Run("runs/mine").attention("abc", "de").values()]
        [(2, 4)]
        """
        runtime = load_runs([self.path], EngineSpec(AUTO, device, "fp32", threads))
        pair = encode_line(source, "the source"), encode_line(target, "the target")
        readers = runtime.attention() if runtime.has_source else []
        if not readers or not pair[1]:
            what = "the target is empty" if readers else f"{self.path} has no attention"
            raise SettingError(f"{what}: there are no weights")
        return readers[0].layers([pair])[0]

    def _require_source(self, has_source: bool) -> None:
        """Raise SettingError for a language model."""
        if not has_source:
            raise SettingError(f"{self.path} is a language model: use the methods of language_model()")

    def model(self, device: str = "cpu") -> Model[Any, Any]:
        """Return the PyTorch module with its weights, in evaluation mode.

        >>> model = Run("runs/mine").model()
        >>> sum(p.numel() for p in model.parameters()) > 1000
        True
        """
        from bytenmt.checkpoints.checkpoint import build

        file, stored = read_run(self.path)
        return build(stored, file).to(device).eval()

    def evaluate(
        self,
        sources: Texts,
        references: Texts,
        *,
        tokenize: str = "13a",
        engine: str = AUTO,
        device: str = AUTO,
        precision: str = AUTO,
        threads: int | None = None,
        **settings: Any,
    ) -> Evaluation:
        """Translate lines and score the translations against references.

        sources, references: lines, or the name of a file of lines; tokenize: sacreBLEU's name of BLEU's
        tokenizer; settings: of the search, as keywords of Translator.load.

        >>> result = Run("runs/mine").evaluate("src", "tgt", beam=2, max_len_b=4)
        >>> len(result.texts)
        4
        """
        corpus = _corpus(sources, references)
        runtime = load_runs([self.path], EngineSpec(engine, device, precision, threads))
        self._require_source(runtime.has_source)
        if corpus.src is None or not len(corpus):
            raise SettingError("there are no lines to evaluate: give at least one source and reference")
        translator = Translator.from_runtime(runtime, Settings.from_dict(settings))
        texts = [text.decode() for text in translator.translate(list(corpus.src))]
        truth = [line.decode() for line in corpus.tgt]
        bits = bits_per_byte(log_probabilities(runtime.reader(), corpus), corpus.target_lengths)
        return Evaluation(text_scores(texts, truth, tokenize), bits, texts)


@python_names
def train(
    run: Name,
    *,
    src: Names = (),
    tgt: Names = (),
    tsv: Names = (),
    text: Names = (),
    valid_src: Name | None = None,
    valid_tgt: Name | None = None,
    valid_tsv: Name | None = None,
    valid_text: Name | None = None,
    weights: Sequence[float] = (),
    arch: str | None = None,
    preset: str | None = None,
    config: Name | None = None,
    settings: Mapping[str, Any] | None = None,
    init_from: Name | None = None,
    init_embedding: Name | None = None,
    resume: bool = False,
    device: str = AUTO,
    threads: int | None = None,
    errors: str = "replace",
    on_metrics: Callable[[Mapping[str, float | str]], None] | None = None,
    callbacks: Sequence[Callback] = (),
    tensorboard: bool = False,
    reporter: Reporter = SILENT,
    **train: Any,
) -> Run:
    """Train a model into the folder `run`, as `bytenmt train` does, and return it.

    >>> run = bytenmt.train("runs/new", arch="bahdanau", preset="tiny", src="src", tgt="tgt", valid_src="src",
    ...     valid_tgt="tgt", settings={"model.d_hidden": 8}, max_updates=2, threads=1)
    >>> run.metrics()[-1]["update"]
    2

    src, tgt: files of which line i of one translates line i of the other; tsv: both in one, by tabs; text:
    without a source, a byte language model. settings: configuration keys and their values; config: a TOML
    file of them; train: those of the section `train` by their own names, as max_minutes=60 or lr=2e-3.
    A run that goes on (resume=True) without texts takes its own. on_metrics: is given every record of the
    metrics; callbacks: are called after every update and validation; tensorboard: write the metrics for
    TensorBoard too; reporter: is told what goes on, a line at a time.
    Ctrl-C saves and raises KeyboardInterrupt. Raises BytenmtError for what a command would refuse.
    """
    from bytenmt.data.device import pick_device
    from bytenmt.training.run import train as begin

    # None is an option that is left out, as in a call that passes on what it was given.
    options = {f"train.{name}": value for name, value in train.items() if value is not None}
    given = {**(settings or {}), **options}
    for key, value in given.items():
        if value is None:
            raise ConfigError(f"settings[{key!r}] is None: leave it out, or give a value")
    tree: dict[str, Any] = {}
    for key, value in given.items():
        assign_value(tree, key, value)
    texts = [_paths(src), _paths(tgt), _paths(tsv), _paths(text)]
    paths = [None if name is None else Path(name) for name in (valid_src, valid_tgt, valid_tsv, valid_text)]
    files, valid = files_to_train_on(Path(run), resume, texts, weights, *paths)
    other = None if init_from is None else Path(init_from)
    wanted = configuration(
        Path(run),
        resume,
        arch,
        preset,
        None if config is None else Path(config),
        tree,
        files[0].has_source,
        other,
    )
    on = pick_device(device)
    outcome = begin(
        Path(run),
        wanted,
        files=files,
        valid=valid,
        device=on,
        errors=errors,
        resume=resume,
        init_embedding=None if init_embedding is None else Path(init_embedding),
        init_from=other,
        reporter=reporter,
        watch=on_metrics or (lambda record: None),
        threads=threads,
        tensorboard=tensorboard,
        callbacks=callbacks,
    )
    if outcome.signal:
        raise KeyboardInterrupt
    return Run(run)


def _paths(names: Names) -> list[Path]:
    return [Path(name) for name in ([names] if isinstance(names, str | Path) else names)]


def _corpus(sources: Texts, targets: Texts) -> ParallelCorpus:
    """All lines of two texts, line by line together. Raises DataError."""
    return ParallelCorpus.from_texts(_text(sources, "sources"), _text(targets, "targets"), keep_empty=True)


def _text(text: Texts, name: str) -> TextFile:
    if isinstance(text, str | Path):
        return TextFile.open(Path(text))
    lines = (encode_line(line, f"line {number} of the {name}") for number, line in enumerate(text, 1))
    return TextFile.from_bytes(b"".join(line + b"\n" for line in lines), name)
