"""Count the draft table of a run, from its training text or from another text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bytenmt.checkpoints.manifest import read_pointer
from bytenmt.checkpoints.weights import is_weights_file, read_config
from bytenmt.config.facts import CorpusFact, Facts
from bytenmt.config.schema import Config
from bytenmt.data.corpus import PairFiles, ParallelCorpus
from bytenmt.data.text_file import read_bytes, restored_path
from bytenmt.data.training_text import Bytes, training_text
from bytenmt.decoding.drafts.counting import MOST_BYTES, count_drafts, split_stream
from bytenmt.decoding.drafts.table import DraftTable, check_supports_drafts, write_table
from bytenmt.errors import BytenmtError, CheckpointError, DataError

HINT = "give it by --src and --tgt, or --tsv"


def build_draft_table(run: Path, files: Sequence[PairFiles], errors: str) -> list[str]:
    """Build the n-gram table from which a run drafts bytes, write it to the run folder, and return a report.

    files: texts to count; if empty, those that the run was trained on, where they still lie. Raises
    BytenmtError.
    """
    if is_weights_file(run):
        raise CheckpointError(f"{run} is a weights file: give the run folder, which stores the draft table")
    config, facts = read_config(run), read_pointer(run).last_facts()
    check_supports_drafts(config.model, f"{run}")
    if files and files[0].has_source != config.model.source:
        expected = (
            "with a source: give --src and --tgt" if config.model.source else "without a source: give --text"
        )
        raise BytenmtError(f"{run} was trained {expected}")
    if config.model.source:
        table = count_corpus(_corpus(run, config, facts, files, errors))
    else:
        paths = [pair.tgt for pair in files if pair.tgt is not None]
        table = count_streams([read_bytes(path) for path in paths] if paths else training_text(facts.texts))
    return [describe_table(write_table(run, table, config, facts), table)]


def describe_table(path: Path, table: DraftTable) -> str:
    """Describe a table in a line of text: its size, and the share of its drafts that is right."""
    n_owned, n_bytes = int((table.tag > 0).sum()), path.stat().st_size
    accepted = ", ".join(f"{100 * share:.0f}" for share in table.accepted)
    return f"{path}: {n_bytes:,} bytes, {n_owned:,} contexts; right to byte 1, 2, …, held out: {accepted} %"


def count_corpus(corpus: ParallelCorpus) -> DraftTable:
    """Count the draft table of pairs."""
    chosen = _evenly(corpus)
    sources = [corpus.source(k) for k in chosen] if corpus.has_source else None
    return count_drafts([corpus.target(k) for k in chosen], sources)


def count_streams(texts: Sequence[Bytes]) -> DraftTable:
    """Count the draft table of texts without a source."""
    return count_drafts([piece for text in texts for piece in split_stream(text)], ended=False)


def _evenly(corpus: ParallelCorpus) -> range:
    """Return indices spread evenly over a corpus, of about twice as many bytes as are counted."""
    n_bytes = int(corpus.target_lengths.sum(dtype="int64"))
    return range(0, len(corpus), max(1, n_bytes // (2 * MOST_BYTES)))


def _corpus(
    run: Path, config: Config, facts: Facts, chosen: Sequence[PairFiles], errors: str
) -> ParallelCorpus:
    """Open the pairs to count. Raises DataError if the training text is unknown or has changed."""
    files = list(chosen) or [_pair_files(corpus) for corpus in facts.corpora]
    if not files:
        raise DataError(f"{run} does not record its training text: {HINT}")
    limits = config.data.max_source_bytes, config.data.max_target_bytes
    corpus = ParallelCorpus.open_all(files, errors, *limits, cache=run / "cache")
    corpus.require_pairs()
    n_bytes = int(corpus.target_lengths.sum(dtype="int64"))
    if not chosen and (len(corpus), n_bytes) != (facts.pairs, facts.target_bytes):
        names = " and ".join(part.name for part in corpus.parts)
        raise DataError(f"the training text {names} has changed: {HINT}")
    return corpus


def _pair_files(fact: CorpusFact) -> PairFiles:
    """Return the files of a corpus that a run's facts name."""
    src, tgt, tsv = (None if name is None else restored_path(name) for name in (fact.src, fact.tgt, fact.tsv))
    return PairFiles(src, tgt, tsv)
