"""Translate lines: their order is kept, and many are decoded side by side.

A Translator has a LineBatch make requests of lines, sorts these by length, and has an engine decode
as many at once as a byte budget allows. Imports no PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, AnyStr, overload

from bytenmt.data.sentences import UNKNOWN_LANGUAGE, languages_of_files
from bytenmt.decoding.interface import AUTO, EngineSpec, Hypothesis, Request, SearchOptions
from bytenmt.decoding.loading import Runtime, load_runs
from bytenmt.decoding.scheduler import decode
from bytenmt.errors import SettingError
from bytenmt.reporter import SILENT, Reporter
from bytenmt.translation.kept_spans import SourceLine
from bytenmt.translation.line_batch import LineBatch, TranslationResult
from bytenmt.translation.reranking import Reranker
from bytenmt.translation.settings import ALWAYS, Settings, encode_line

if TYPE_CHECKING:  # it imports Numba
    from bytenmt.decoding.engine import Engine

SENTINEL_BEAM = 4  # the default beam size of models that were trained with sentinels
TUNED_OPTIONS = frozenset(("length_penalty", "no_repeat_ngram_size"))  # stored by runs
MAX_SENTENCES = 1024  # side by side, however short
MAX_HISTORY_BYTES = 1 << 30  # of the chosen bytes of sentences side by side, if they are several
MAX_MULTI_SENTENCE_SHARE = 0.05  # of training lines, up to which "auto" splits lines
BYTES_PER_STEP = 8  # of history for a byte of a hypothesis: 3, twice while room is made for more


@dataclass(frozen=True, eq=False)
class Translator:
    """Translates lines with one trained model (a run), or with several as an ensemble.

    >>> translator = Translator.load("runs/mine", beam=4, n_best=2)
    >>> texts = translator.translate(["오후 3시 40분", "2026년 11월 21일"])
    >>> best, second = translator.n_best(["오후 3시 40분"])[0]
    >>> (best.text == texts[0] == translator.translate("오후 3시 40분"), best.score >= second.score)
    (True, True)

    Usually made by `load` or `from_runtime`.
    """

    # Returns an engine that decodes up to the given number of sentences side by side, with the
    # search options of `settings`; with a reranker the engine returns the whole beam.
    make_engine: Callable[[int], Engine]
    settings: Settings = field(default_factory=Settings)  # with the defaults of the runs
    # Engines that are not in use, by the number of sentences that they decode.
    _engines: dict[int, Engine] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def load(
        cls,
        *runs: str | Path,
        engine: str = AUTO,
        device: str = AUTO,
        precision: str = AUTO,
        threads: int | None = None,
        reverse: str | Path | None = None,
        reporter: Reporter = SILENT,
        **settings: Any,
    ) -> Translator:
        """Return a Translator of a run folder or weights file.

        Several runs form an ensemble, whose probabilities are averaged.
        engine: "torch", "cuda-graph" or "numba" (CPU kernels). device: "cpu" or "cuda".
        precision: "fp32", "bf16" or "int8". Each may be "auto". threads: CPU threads; None: auto.
        reverse: a run of the opposite direction, whose model reranks the hypotheses of a beam
            search.
        reporter: gets messages that a user may not expect, such as that kernels are being compiled.
        settings: fields of settings.LineSettings (prefix, max_len_a, …), SearchOptions (beam,
            n_best, sample, …) and KeepSettings (keep, keep_pattern, glossary).
        Raises BytenmtError for a missing or unsuitable file, an unavailable device or engine, or a
        wrong setting.
        """
        opposite = None if reverse is None else Path(reverse)
        checked = Settings.from_dict(settings)
        spec = EngineSpec(engine, device, precision, threads, opposite)
        return cls.from_runtime(load_runs(runs, spec, reporter), checked)

    @classmethod
    def from_runtime(
        cls, runtime: Runtime, settings: Settings | None = None, **named: Any
    ) -> Translator:
        """Return a Translator of runs that loading.load_runs has loaded.

        settings: values that the user did not set are replaced by the defaults that the runs store.
        named: settings by keyword, read only if `settings` is None. Raises SettingError for a
        language model, and for settings that the models do not support.
        """
        if not runtime.has_source:
            name = runtime.runs[0].file if runtime.runs else "the model"
            raise SettingError(
                f"{name} is a language model and cannot translate: give a translation model"
            )
        if settings is None:
            settings = Settings.from_dict(named)
        if settings.needs_sentinels and not runtime.has_sentinels:
            raise SettingError(
                "keep and glossary need a model that was trained with sentinels (data.sentinels):"
                " this one was not"
            )
        search = engine_search = _with_run_defaults(settings, runtime)
        reranker = None
        if runtime.reranks(search):
            assert runtime.reverse is not None
            reranker = Reranker(runtime.reverse, search.length_penalty)
            engine_search = replace(search, n_best=search.beam)
        max_source_bytes = settings.max_source_bytes
        if "max_source_bytes" in settings.left_to_runs:
            max_source_bytes = runtime.max_source_bytes
        keep = None  # names are kept by the words that the runs know
        if runtime.has_sentinels and settings.keep is not None:
            keep = replace(settings.keep, words=runtime.source_words)
        settings = replace(
            settings,
            search=search,
            max_source_bytes=max_source_bytes,
            keep=keep,
            languages=sentence_languages(runtime, settings.split_sentences),
            reranker=reranker,
            target_language=_target_language(runtime),
        )
        return cls(partial(runtime.make_engine, engine_search), settings)

    def __repr__(self) -> str:
        max_bytes = self.settings.max_source_bytes
        return f"<Translator, beam {self.options.beam}, lines up to {max_bytes} bytes>"

    @property
    def options(self) -> SearchOptions:
        """The options of the search in use; defaults of the runs stand where the user set none."""
        return self.settings.search

    @overload
    def translate(self, lines: AnyStr) -> AnyStr: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, lines: Iterable[AnyStr]) -> list[AnyStr]: ...
    def translate(self, lines: Any) -> Any:
        """Return the best translation of a line, or a list of those of several lines, in order.

        A str is translated to a str, bytes to bytes. A line has no line ends, and bytes are valid
        UTF-8. Raises DataError for other lines.
        """
        if isinstance(lines, str | bytes):
            best: Any = self.n_best(lines)
            return best[0].text
        return [hypotheses[0].text for hypotheses in self.n_best(lines)]

    @overload
    def n_best(  # type: ignore[overload-overlap]
        self, lines: AnyStr
    ) -> list[Hypothesis[AnyStr]]: ...
    @overload
    def n_best(self, lines: Iterable[AnyStr]) -> list[list[Hypothesis[AnyStr]]]: ...
    def n_best(self, lines: Any) -> Any:
        """Return the n_best hypotheses of a line, best first, or a list of them for each line.

        lines: a str or bytes, or several of them, as for `translate`.
        """
        if isinstance(lines, str | bytes):
            (result,) = self.translate_lines([encode_line(lines, "the line")])
            return _hypotheses_of_type(lines, result)
        lines = list(lines)
        data = [encode_line(line, f"line {number}") for number, line in enumerate(lines, 1)]
        return list(map(_hypotheses_of_type, lines, self.translate_lines(data)))

    def translate_lines(
        self, lines: Sequence[SourceLine], first: int = 0
    ) -> list[TranslationResult]:
        """Translate lines; return a result for each, in their order.

        lines: valid UTF-8 without line ends; or, for a line of a document, its texts and inline
        codes (sentinels.Code), which are then in TranslationResult.parts. first: the number of the
        first line, on which the random numbers of sampling depend. Lines of URLs and e-mail
        addresses alone are copied. Equal lines are translated once, except in sampling.
        """
        batch = self.batch(lines, first)
        for capacity, requests in self._by_capacity(batch.requests):
            with self._engine(capacity) as engine:
                for index, hypotheses in decode(engine, requests):
                    batch.add(requests[index], hypotheses)
        return batch.results()

    def batch(self, lines: Sequence[SourceLine], first: int = 0) -> LineBatch:
        """Prepare lines for decoding, without decoding them: return a batch with their requests.

        lines, first: lines and the number of the first one, as in translate_lines.
        """
        return LineBatch(lines, self.settings, first)

    def _by_capacity(self, requests: Sequence[Request]) -> Iterator[tuple[int, list[Request]]]:
        """Yield the capacity of an engine, a power of two so that there are few, and its requests.

        Longest first, so that short ones fill the slots that become free.
        """

        def n_bytes(request: Request) -> int:
            return len(request.source or b"")

        longest_first = sorted(requests, key=n_bytes, reverse=True)
        for capacity, group in groupby(longest_first, lambda one: self.capacity(n_bytes(one))):
            group_requests = list(group)
            enough = 1 << (len(group_requests) - 1).bit_length()  # for all of them
            yield min(capacity, enough), group_requests

    def capacity(self, n_bytes: int) -> int:
        """Return how many sentences of up to n_bytes source bytes each are decoded side by side.

        A power of two, limited by settings.max_tokens and by the memory that their outputs take.
        """
        settings = self.settings
        beam = settings.search.beam
        history_bytes = beam * (settings.max_target_bytes(n_bytes) + 1) * BYTES_PER_STEP
        n_sentences = min(
            settings.max_tokens // (beam * (n_bytes + 1)),
            MAX_SENTENCES,
            MAX_HISTORY_BYTES // history_bytes,
        )
        return 1 << max(1, n_sentences).bit_length() - 1

    @contextmanager
    def _engine(self, capacity: int) -> Iterator[Engine]:
        """Yield an engine that nobody else uses; after an error it is not used again."""
        engine = self._engines.pop(capacity, None) or self.make_engine(capacity)
        yield engine
        self._engines[capacity] = engine


def _target_language(runtime: Runtime) -> str:
    """Return the code of the target language of runs; empty if their files do not tell it."""
    corpora = [corpus for run in runtime.runs for corpus in run.facts.corpora]
    languages = languages_of_files(corpus.tgt for corpus in corpora if corpus.tgt)
    return languages[0] if len(languages) == 1 else ""


def _with_run_defaults(settings: Settings, runtime: Runtime) -> SearchOptions:
    """Return the search options, with those of the runs where the user gave none."""
    defaults: dict[str, Any] = {}
    if runtime.search_defaults is not None:
        for name in settings.left_to_runs & TUNED_OPTIONS:
            if (value := getattr(runtime.search_defaults, name)) is not None:
                defaults[name] = value
    if runtime.has_sentinels and "beam" in settings.left_to_runs:
        defaults["beam"] = max(SENTINEL_BEAM, settings.search.n_best)
    return replace(settings.search, **defaults)


def sentence_languages(runtime: Runtime, split_sentences: str) -> Sequence[str]:
    """Return the languages by whose rules source lines are split into sentences; () for none.

    runtime: the loaded models. split_sentences: "always", "never" or "auto", which splits if the
    models were trained on single sentences.
    """
    facts = [run.facts for run in runtime.runs]
    is_split = split_sentences == ALWAYS
    if split_sentences == AUTO and facts:
        shares = [fact.multi_sentence_share for fact in facts]
        is_split = all(share is not None and share <= MAX_MULTI_SENTENCE_SHARE for share in shares)
    if not is_split:
        return ()
    if not facts:
        return UNKNOWN_LANGUAGE
    return languages_of_files(corpus.src or "" for corpus in facts[0].corpora)


def _hypotheses_of_type(line: str | bytes, result: TranslationResult) -> list[Hypothesis[Any]]:
    """Return the hypotheses of a result, with texts as str where the line is a str."""
    if isinstance(line, bytes):
        return list(result.hypotheses)
    return [Hypothesis(found.text.decode(), *found[1:]) for found in result.hypotheses]
