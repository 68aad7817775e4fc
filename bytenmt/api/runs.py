"""Train a model, evaluate it and score texts with it; sample texts from a language model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, AnyStr, NamedTuple

import numpy as np
import numpy.typing as npt

from bytenmt.checkpoints.weights import read_config, read_run
from bytenmt.config.schema import Config
from bytenmt.data.corpus import ParallelCorpus
from bytenmt.data.text_file import TextFile
from bytenmt.decoding.interface import AUTO, ENGINE_SETTINGS, EngineSpec
from bytenmt.decoding.loading import Runtime, load_runs
from bytenmt.errors import CheckpointError, SettingError
from bytenmt.evaluation.comparison import read_metrics
from bytenmt.evaluation.likelihood import bits_per_byte, log_probabilities
from bytenmt.evaluation.scores import TranslationScores, text_scores
from bytenmt.language.generate import generate
from bytenmt.language.surprisal import Surprisal, stream_surprisal
from bytenmt.reporter import SILENT, Reporter
from bytenmt.translation.settings import encode_line
from bytenmt.translation.translator import Translator
from bytenmt.utf8 import EOS

if TYPE_CHECKING:  # they import PyTorch
    from bytenmt.architectures.base import Model
    from bytenmt.distributed import Group

Name = str | Path
Names = Name | Sequence[Name]
FP32 = {"precision": "fp32"}  # in which given texts are scored
NO_BYTES = Surprisal(np.zeros(0, np.uint8), np.zeros(0), np.zeros(0, np.int64))
Texts = Name | Iterable[str]  # a file's name, or the lines themselves


class Evaluation(NamedTuple):
    """The translations of a text and their scores, which Run.evaluate returns."""

    scores: TranslationScores  # chrF, BLEU and exact match of the translations
    bits_per_byte: float  # of the references given their sources, EOS included
    texts: list[str]  # the translations, one a source line


@dataclass(frozen=True)
class Run:
    """A trained model on disk: a run folder or a weights file.

    path: of it; raises CheckpointError if it does not exist. The weights are read at the first use
    and kept.

    >>> run = Run("runs/mine")
    >>> result = run.evaluate(["오후 3시"], ["3 p.m."], beam=4)
    >>> result.texts == Translator.load("runs/mine", beam=4).translate(["오후 3시"])
    True
    >>> model = Run("runs/text")  # a language model
    >>> costs = model.surprisal("a cat")
    >>> len(costs.bits), bool((costs.bits > 0).all())
    (5, True)
    >>> text = model.generate("a c", 9, seed=1)
    >>> text.startswith("a c"), text == model.generate("a c", 9, seed=1)
    (True, True)
    """

    path: Path
    _runtimes: dict[EngineSpec, Runtime] = field(init=False, repr=False, compare=False)

    def __init__(self, path: Name) -> None:
        object.__setattr__(self, "path", Path(path))
        object.__setattr__(self, "_runtimes", {})
        if not self.path.exists():
            raise CheckpointError(f"{path} does not exist: give a run folder or a weights file")

    @property
    def config(self) -> Config:
        """The configuration that the run was trained with. Raises CheckpointError."""
        return read_config(self.path)

    def metrics(self) -> list[Mapping[str, Any]]:
        """Return the records that training has logged, oldest first.

        Each has the number of its update, the seconds so far, and measurements of that moment:
        train_bits_per_byte, valid_bits_per_byte, valid_chrf and others. Raises CheckpointError if
        there are none.
        """
        records = read_metrics(self.path)
        if not records:
            raise CheckpointError(
                f"{self.path} has no metrics.jsonl: only a folder of a training has it"
            )
        return records

    def log_probabilities(self, sources: Texts, targets: Texts, **engine: Any) -> list[float]:
        """Return the natural log-probability of each target given its source, EOS included.

        sources, targets: lines, or the name of a file of lines (a str is a name); engine: the
        keyword arguments engine, device and threads of Translator.load.
        """
        scorer = self._runtime(FP32 | engine).make_scorer()
        values: list[float] = log_probabilities(scorer, _corpus(sources, targets)).tolist()
        return values

    def byte_log_probabilities(
        self, source: str | bytes, target: str | bytes, **engine: Any
    ) -> npt.NDArray[np.float64]:
        """Return the natural log-probability of each byte of a target, and last that of EOS.

        Each byte is given the source and the bytes before it. The result has shape (bytes of the
        target + 1,). engine: how to compute it, such as engine="torch" (or "numba"), device="cuda",
        threads=4; by default what suits the machine.
        """
        source_line = encode_line(source, "the source")
        target_line = encode_line(target, "the target") + bytes([EOS])
        scorer = self._runtime(FP32 | engine).make_scorer()
        (scored,) = scorer.score_texts([source_line], [target_line])
        return scored.log_p

    def attention(
        self, source: str | bytes, target: str | bytes, **engine: Any
    ) -> dict[int, npt.NDArray[np.float32]]:
        """Return the attention weights between a source and a given target.

        The keys are the numbers, from 1, of the decoder layers that attend to the source. The
        values are (bytes of the target, bytes of the source + 1): how much the prediction of each
        byte attends to each source byte and to EOS. engine: the arguments engine, device and
        threads of Translator.load. Raises SettingError for a model without attention or an empty
        target.
        """
        scorers = self._runtime(FP32 | engine).make_attention_scorers()
        pair = encode_line(source, "the source"), encode_line(target, "the target")
        if not scorers or not pair[1]:
            raise SettingError(
                f"{self.path} has no attention, or the target is empty: there are no weights"
            )
        return scorers[0].attention_weights([pair])[0]

    def model(self, device: str = "cpu") -> Model[Any, Any]:
        """Load the run as a PyTorch module with its weights, in evaluation mode on `device`."""
        from bytenmt.checkpoints.checkpoint import build_from_weights

        file, stored = read_run(self.path)
        return build_from_weights(stored, file).to(device).eval()

    def evaluate(
        self, sources: Texts, references: Texts, *, tokenize: str = "13a", **options: Any
    ) -> Evaluation:
        """Translate lines and score the translations against references.

        sources, references: lines, or the name of a file of lines, equally many; tokenize:
        sacreBLEU's name of BLEU's tokenizer; options: keyword arguments of Translator.load, such as
        beam or device.
        """
        corpus = _corpus(sources, references)
        if corpus.src is None or not len(corpus):
            raise SettingError(
                "there are no lines to evaluate: give at least one source and reference"
            )
        engine, search = _split(options, ENGINE_SETTINGS)
        runtime = self._runtime(engine)
        translator = Translator.from_runtime(runtime, **search)
        texts = [text.decode() for text in translator.translate(list(corpus.src))]
        truth = [line.decode() for line in corpus.tgt]
        log_p = log_probabilities(runtime.make_scorer(), corpus)
        bits = bits_per_byte(log_p, corpus.target_lengths)
        return Evaluation(text_scores(texts, truth, tokenize), bits, texts)

    def surprisal(self, text: str | bytes, **engine: Any) -> Surprisal:
        """Return -log2 p of each byte of a text, by a language model, given all bytes before it.

        The result has three arrays (n,): `data`, the bytes; `bits`, their -log2 p; and `rank`,
        their ranks among the 256 possible bytes, 0 for the likeliest. engine: the keyword arguments
        engine, device, precision and threads of Translator.load.
        """
        data = text.encode() if isinstance(text, str) else text
        scorer = self._runtime(engine, has_source=False).make_scorer()
        return Surprisal.concatenate([NO_BYTES, *stream_surprisal(scorer, [data])])

    def generate(self, prompt: AnyStr, n_bytes: int = 1000, **options: Any) -> AnyStr:
        """Sample from a language model: return the prompt and at most n_bytes of further text.

        The text ends with a whole UTF-8 character. options: temperature, top_k, top_p and seed of
        the sampling, and engine, device, precision and threads, as for Translator.load. A prompt of
        str gives a str, one of bytes gives bytes.
        """
        engine, sampling = _split(options, ENGINE_SETTINGS)
        data = prompt.encode() if isinstance(prompt, str) else prompt
        runtime = self._runtime(engine, has_source=False)
        drawn = b"".join(generate(runtime, data, n_bytes, **sampling))
        return drawn.decode() if isinstance(prompt, str) else drawn

    def _runtime(self, engine: Mapping[str, Any], has_source: bool = True) -> Runtime:
        """Load the model, once for each engine. Raises SettingError for one of the other kind."""
        if wrong := engine.keys() - ENGINE_SETTINGS.keys():
            raise SettingError(f"{min(wrong)} is unknown: expected {', '.join(ENGINE_SETTINGS)}")
        spec = EngineSpec(**engine)
        if spec not in self._runtimes:
            self._runtimes[spec] = load_runs([self.path], spec)
        runtime = self._runtimes[spec]
        if runtime.has_source and not has_source:
            raise SettingError(f"{self.path} is a translation model: use Translator")
        if has_source and not runtime.has_source:
            raise SettingError(f"{self.path} is a language model: use surprisal")
        return runtime


@dataclass(frozen=True, kw_only=True)
class TrainingArguments:
    """The keyword arguments of `train`, besides keys of the configuration section `train`."""

    src: Names = ()  # files; line i of one is translated by line i of the tgt
    tgt: Names = ()
    tsv: Names = ()  # files with both, separated by a tab
    text: Names = ()  # files for a byte language model, which has no source
    # The validation texts; train.metric is the mean over several.
    valid_src: Names | None = None
    valid_tgt: Names | None = None
    valid_tsv: Names | None = None
    valid_text: Name | None = None
    weights: Sequence[float] = ()  # how often each training corpus is read in an epoch; empty: once
    arch: str | None = None  # name of an architecture, such as "bahdanau"
    preset: str | None = None  # size of the model and training settings, such as "small"
    config: Name | None = None  # a TOML file of configuration keys
    settings: Mapping[str, Any] | Iterable[str] = ()  # keys and values, or texts `key=value`
    init_from: Name | None = None  # a run or weights file whose weights a new run begins with
    resume: bool = False  # continue the run from its checkpoint, by default with its own texts
    device: str = AUTO  # "cpu" or "cuda"; AUTO: the GPU if there is one
    threads: int | None = None  # CPU threads; None: chosen by the number of cores
    # Called with each record of metrics.jsonl.
    on_metrics: Callable[[Mapping[str, float | str]], None] | None = None
    reporter: Reporter = SILENT  # shows messages and progress
    group: Group | None = None  # the processes that train together


def train(run: Name, **options: Any) -> Run:
    """Train a model into the folder `run`, as `bytenmt train` does, and return it.

    >>> run = bytenmt.train("runs/new", arch="bahdanau", preset="tiny", src="src", tgt="tgt",
    ...     valid_src="src", valid_tgt="tgt", settings={"model.d_hidden": 8}, max_updates=2,
    ...     threads=1)
    >>> run.metrics()[-1]["update"]
    2

    options: the fields of TrainingArguments, and keys of the section `train` by their own names,
    such as max_minutes=60 or lr=2e-3. Of the file `config`, `settings` and these keys later ones
    win; a value of None is left out. A signal such as Ctrl-C saves and raises KeyboardInterrupt
    with its number. Raises BytenmtError for unusable options or texts.
    """
    from bytenmt.distributed import SINGLE_PROCESS, pick_device
    from bytenmt.training import arguments
    from bytenmt.training import run as training

    own, train_keys = _split(options, [field.name for field in fields(TrainingArguments)])
    how = TrainingArguments(**own)
    group = how.group or SINGLE_PROCESS
    device = pick_device(EngineSpec(device=how.device, threads=how.threads).device)
    folder = Path(run)
    start = _path(how.init_from)
    texts = [_paths(names) for names in (how.src, how.tgt, how.tsv, how.text)]
    valid_names = (how.valid_src, how.valid_tgt, how.valid_tsv, how.valid_text)
    valid = [_paths(names or ()) for names in valid_names]
    files, valid_files = arguments.files_to_train_on(folder, how.resume, texts, how.weights, valid)
    tree = arguments.settings_tree(how.settings, train_keys)
    file = _path(how.config)
    source = files[0].has_source
    on_gpu = device.type == "cuda"
    config = group.on_leader(
        lambda: arguments.configuration(
            folder, how.resume, how.arch, how.preset, file, tree, source, start, on_gpu
        )
    )
    number = training.train(
        folder,
        config,
        files=files,
        valid=valid_files[0],
        more_valid=valid_files[1:],
        device=device,
        resume=how.resume,
        init_from=start,
        group=group,
        reporter=how.reporter,
        watch=how.on_metrics,
        threads=how.threads,
    )
    if number:
        raise KeyboardInterrupt(number)
    return Run(folder)


def _split(options: Mapping[str, Any], names: Collection[str]) -> tuple[dict[str, Any], ...]:
    """Return the options that have one of the names, then all others."""
    own = {name: value for name, value in options.items() if name in names}
    return own, {name: value for name, value in options.items() if name not in names}


def _path(name: Name | None) -> Path | None:
    return None if name is None else Path(name)


def _paths(names: Names) -> list[Path]:
    if isinstance(names, str | Path):
        return [Path(names)]
    return [Path(name) for name in names]


def _corpus(sources: Texts, targets: Texts) -> ParallelCorpus:
    """Return all lines of two texts, line by line together. Raises DataError."""
    texts = _text(sources, "sources"), _text(targets, "targets")
    return ParallelCorpus.from_texts(*texts, keep_empty=True)


def _text(text: Texts, name: str) -> TextFile:
    if isinstance(text, str | Path):
        return TextFile.open(Path(text))
    lines = (encode_line(line, f"line {n} of the {name}") for n, line in enumerate(text, 1))
    return TextFile.from_bytes(b"".join(line + b"\n" for line in lines), name)
