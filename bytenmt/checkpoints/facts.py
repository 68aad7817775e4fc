"""Facts about a training that a checkpoint keeps beside weights and configuration.

It stands as JSON in every weights file. What an older file lacks is None or empty here, and what it
has besides is dropped. Opens no files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from bytenmt.config.fields import MAX_THREADS, Beam, LengthPenalty
from bytenmt.config.fields import Count as Whole
from bytenmt.data.pair_files import PairFiles

Count = Annotated[int, Meta(ge=0, lt=1 << 62)]


class Progress(Struct):
    """The progress of a training run: with the tensors of its checkpoint, all that a resume needs.

    What is random in an update is drawn from (seed, update, process), so that no random state need
    be kept.
    """

    update: Count = 0  # the number of the last update
    epoch: Count = 0  # from 0
    batch: Count = 0  # the next batch of the epoch's plan
    epoch_batches: Count = 0  # batches of that plan; 0: not known
    seconds: float = 0.0  # of training in all, validation included
    best: float | None = None  # the best value of train.metric at a validation
    best_update: Count = 0  # the update of that validation
    waited: Count = 0  # validations since the best one
    # CPU threads of each process, kept when the run is resumed; 0: not known
    threads: Annotated[int, Meta(ge=0, le=MAX_THREADS)] = 0
    standstills: Count = 0  # validations of the whole run that brought no new best one
    # the update of the last validation, 0 before the first; None: not known, as in older files
    validated: Count | None = None


class TextFact(Struct, frozen=True):
    """A training text of a language model."""

    path: str  # absolute, or a name alone after Facts.without_folders
    bytes: Count  # its size


class SearchDefaults(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Search settings tuned for a model, which translation uses where the user gives none."""

    # Exponent A: a score is log-probability / (bytes + 1)**A; None: not tuned.
    length_penalty: LengthPenalty | None = None
    no_repeat_ngram_size: Whole = 0  # characters of n-grams that may not occur twice; 0: all may
    beam: Beam | None = None  # the beam size with which they were found
    # The folder of a model of the opposite direction, beside the folder of this one.
    reverse: Annotated[str, Meta(pattern=r"^[^./\\:][^/\\:]*$")] | None = None


Amount = Annotated[float, Meta(ge=0.0, le=1e6)]

# Searches that thresholds differ for.
GREEDY_SEARCH = "greedy"
BEAM_SEARCH = "beam"
RERANKED_SEARCH = "reranked"  # a beam whose hypotheses a model of the opposite direction ranks


class DoubtThresholds(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The doubts above which a translation is flagged as unsure or wrong.

    Doubt is what a translation costs the model in bits, divided by the square root of its bytes;
    translation.confidence.doubt_of computes it.
    """

    unsure: Amount  # a translation with more doubt is flagged as unsure
    wrong: Amount | None = None  # with more than this, as wrong; None: no doubt is proof enough


class FlagThresholds(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Thresholds, measured on validation text, beyond which a translation is flagged."""

    n_lines: Count  # lines of the validation text
    length_ratio: Amount  # mean number of target bytes per source byte
    # variance of the number of target bytes, per source byte (Gale and Church 1993)
    length_variance: Amount
    # An unsure translation is flagged as invented if its source saves fewer bits than this: its
    # total cost with an empty source, less its cost with the source. None for a model that was not
    # trained with empty sources.
    source_bits: Annotated[float, Meta(ge=-1e6, le=1e6)] | None = None
    # Thresholds by kind of search: "greedy", "beam" or "reranked" (a beam whose hypotheses a model
    # of the opposite direction ranks); empty in files of older versions.
    searches: dict[str, DoubtThresholds] = {}


class WordFilter(Struct, frozen=True, kw_only=True):
    """A set of words as a Bloom filter, a bit array; translation.source_words.contains reads it."""

    bits: Annotated[bytes, Meta(min_length=1, max_length=1 << 24)]  # 8 a byte, lowest bit first
    n_words: Count  # words that were added


class SourceWords(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The words that occur at least min_count times in the sources of a model's training text."""

    language: str = ""  # code of the source language, such as "de"; empty: not known
    min_count: Count  # occurrences from which on a word is known
    known: WordFilter
    ordinary: WordFilter  # words seen as something other than a name that stays untranslated


class Facts(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Facts about a model and its training, stored in its weights file; None or empty: unknown."""

    update: Count | None = None  # the update of the training after which the weights were saved
    progress: Progress | None = None  # of the training, from which it can be resumed
    pairs: Count | None = None  # number of training pairs
    source_bytes: Count | None = None  # of all training pairs
    target_bytes: Count | None = None
    corpora: tuple[PairFiles, ...] = ()  # files of the training pairs
    # share of the training pairs with several sentences
    multi_sentence_share: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None
    texts: tuple[TextFact, ...] = ()  # training texts of a language model
    valid: PairFiles | None = None  # the validation files; of a language model tgt alone
    more_valid: tuple[PairFiles, ...] = ()  # further validation files
    search: SearchDefaults | None = None  # None where they were not tuned
    flags: FlagThresholds | None = None  # None where they were not calibrated
    words: SourceWords | None = None  # None where they were not counted
    # version of the patterns that find the spans which the model learnt to copy
    patterns: Count | None = None

    def without_folders(self) -> Facts:
        """Return a copy to publish: training files without folders, and no validation files."""
        corpora = tuple(files.without_folders() for files in self.corpora)
        texts = tuple(replace(text, path=Path(text.path).name) for text in self.texts)
        return replace(self, corpora=corpora, texts=texts, valid=None, more_valid=())

    def for_other_weights(self) -> Facts:
        """Return a copy for weights that are derived from these, such as a mean of several models.

        It has no update, progress, folders or validation files.
        """
        return replace(self.without_folders(), update=None, progress=None)


def parse_facts(tree: Any) -> Facts:
    """Build Facts from a nested dictionary, as json.loads returns it; unknown keys are dropped.

    Raises ValueError, with a message of one line, where a value has a wrong type.
    """
    try:
        return msgspec.convert(tree, Facts, dec_hook=lambda kind, value: kind(value))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
