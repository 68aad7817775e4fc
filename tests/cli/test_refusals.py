"""Commands refuse wrong input: one line says why, nothing on stdout, nothing written."""

from pathlib import Path

import pytest
import torch
from command_line import EVALUATE, RESUME, TEXT, TRAIN, TRANSLATE, invoke, refused

from bytenmt.checkpoints.weights import BEST, PUBLISHED

SCORE = f"{EVALUATE} --log-probabilities"
DOCUMENT = "translate-file run a.po"
MEMORY = "adapt run a.tmx -o new"
BAD: list[tuple[str, str]] = [
    (MEMORY, "a.tmx: a memory may have several languages: name two, --pair"),
    (f"{MEMORY} --pair en", "'en' is not a language pair: expected one such as en-de"),
    (f"{MEMORY} --pair fr:ko", "a.tmx contains no translated texts"),
    ("train -o new --arch luong --tsv table --text tgt", "--text trains a language model"),
    (f"{EVALUATE} --src three --ref tgt", "three has 3 lines and tgt has 4"),
    (f"{EVALUATE} --src empty --ref empty", "empty is empty"),
    (f"{EVALUATE} --ref tgt", "is a translation model: give the source text by --src"),
    ("evaluate -m no_source --ref tgt", "is a language model: evaluate it with `bytenmt predict`"),
    (f"{TRANSLATE} -i none", "none cannot be read: No such file"),
    (f"{TRANSLATE} -i cut.gz", "cut.gz cannot be read: Compressed file ended"),
    (f"{TRANSLATE} -i src -o src", "src is also the input"),
    (f"{TRANSLATE} -i src -o run", "run is a directory"),
    (f"{TRANSLATE} -i src -o src/out", "bytenmt: src: File exists"),
    (f"{TRANSLATE} -i src --n-best 2 -b 1", "--n-best 2 of --beam-size 1: give --beam-size 2"),
    ("translate plain -i src --alignment --format jsonl", "--alignment needs a model with"),
    (f"{TRANSLATE} -i src --engine numba --device cuda", "--engine numba runs on the CPU"),
    (f"{TRANSLATE} -i src --engine cuda-graph --device cpu", "--engine cuda-graph runs on a GPU"),
    (f"{TRANSLATE} -i src --engine torch --precision int8", "--engine torch has no int8"),
    ("translate -m run -m no_source -i src", "translation model and no_source is a language model"),
    ("translate -m no_source -i src", "is a language model and cannot translate"),
    ("translate -m none -i src", "none does not exist: give a run folder"),
    ("translate -m src -i src", "src holds no weights: give a run folder"),
    (f"{TRAIN} --src src", "validation text: give --valid-src and --valid-tgt, or"),
    (f"{TRAIN} --src src --valid-src src --valid-tsv table", "table, line 2 has no tab"),
    (f"{TRAIN} --src src --valid-src src --valid-text src", "or --valid-tsv; each may be repeated"),
    (f"{TRAIN} --valid-src src", "0 --src and 1 --tgt"),
    ("train -o new --arch luong --text tgt --valid-tgt tgt", "give one --valid-text"),
    (f"{TRAIN} --tgt tgt --src src --src none --valid-src src", "none cannot be read: No such"),
    (f"{TRAIN} --src src --valid-src src --tsv table", "table, line 2 has no tab"),
    (f"{TRAIN} --src src --valid-src src --weight 1 --weight 2", "2 --weight for 1 corpora"),
    ("train -o new --arch luong --valid-tgt tgt", "no training text"),
    (f"{TEXT} --set lr=1", "configuration lr: unknown key; bytenmt info ARCH prints all"),
    ("info bahdanau --set model.score=dot", "configuration model.score: unknown key"),
    (f"{TEXT} --config wrong.toml", "wrong.toml is not TOML"),
    (f"{TEXT} --config none", "--config none cannot be read"),
    ("train -o new --text tgt --valid-text tgt", "no architecture: give --arch"),
    ("train -o run --arch luong --text tgt --valid-text tgt", "run already holds a run"),
    (f"{TEXT} -o src --set train.window=4", "cannot write into src: File exists"),
    ("convert none -o new.safetensors", "none does not exist"),
    ("convert run -o new", "give a name that ends in .safetensors"),
    ("convert run -o src/new.safetensors --precision int8", "bytenmt: src: File exists"),
    (f"convert run/{BEST} -o run/{BEST} --precision int8", "is an input too"),
    (f"convert run -o run/{PUBLISHED}", "a run is in that folder: give another name"),
    (f"convert plain -o run/{BEST}", "a run is in that folder: give another name"),
    ("adapt run a.tmx -o run", "run already exists: give another folder by -o"),
    (f"{TEXT} -o published", "published already holds model.safe"),
    ("convert run -o new.safetensors --valid-src src", "--valid-src and --valid-tgt: give both"),
    ("info none.safetensors", "none.safetensors is missing"),
    (f"info run/{BEST} --preset tiny", "--preset would be ignored"),
    ("info run --set model.source=false", "--set would be ignored"),
    (RESUME.replace("-o run", "-o no_source"), "has a source"),
    (f"{RESUME} --arch seq2seq", "model.arch"),
    (f"{RESUME} --set model.d_hidden=13", "model.d_hidden is 13, but run was trained with 12"),
    (f"{RESUME} --set train.precision=bf16", "train.precision"),
    ("evaluate run --src src --ref tgt --curves src", "src is also the input"),
    ("evaluate run --curves c.pdf", "c.pdf: give a name that ends in .png"),
    ("predict no_source none", "none: No such file"),
    ("adapt run tgt -o new", "tgt: no format has the suffix '': name a table .tsv; there are"),
    (f"{SCORE} -m no_source --src src --ref tgt", "no_source is a language model"),
    ("evaluate run", "nothing to score: give --src and --ref, or --curves"),
    ("plot bytenet --line a", "bytenet has no attention, or no source"),
    ("plot no_source --line a", "no_source has no attention, or no source"),
    ("plot run --line a -o a.pdf", "give a name that ends in .png"),
    (f"plot run --line {'a' * 301}", "301 characters: expected 1 to 300"),
    ("predict no_source run --no-reference", "run cannot be read: Is a directory"),
    ("predict -m no_source -m run tgt", "an ensemble needs models of one kind"),
    ("predict run tgt", "run is a translation model: use `bytenmt evaluate --log-prob"),
    ("generate run", "run is a translation model: use `bytenmt translate`"),
    (f"{TRANSLATE} -i src --keep dates", "'dates' is not a class of spans: expected tags, "),
    (f"{TRANSLATE} -i src --glossary none", "none cannot be read"),
    (f"{DOCUMENT} a.po", "a.po is also the input: give another file"),
    ("translate-file run none.po b.po", "none.po cannot be read: No such file"),
    ("translate-file run . b.po", "no format has the suffix ''"),
    ("translate-file run - b.txt", "standard input: no format has the suffix '': give --format"),
    (f"{DOCUMENT} b.po --memory none.tmx --pair en-de", "none.tmx: No such file"),
    (f"{DOCUMENT} b.po --format json", "a.po: not json: Expecting value: line 1 column 1"),
    (f"{DOCUMENT} b.po --format tmx --pair ende", "'ende' is not a language pair"),
]
if not torch.cuda.is_available():
    BAD += [
        (f"{command} --device cuda", "no GPU is available")
        for command in (f"{TRANSLATE} -i src", TRAIN)
    ]
# Usage errors, exit code 2.
MISUSED: list[tuple[str | list[str], str]] = [
    ("evaluate --src src --ref tgt", "No model given: name MODEL, or --hyp"),
    ("evaluate --hyp src --ref tgt --log-probabilities", "--hyp without --log-probabilities."),
    ("plot run bytenet --line a", "2 models: expected MODEL"),
    ("translate", "0 models: expected MODEL..."),
    ("generate -m run run", "2 models: expected MODEL"),
    ("predict", "0 models: expected MODEL [FILE]"),
    ("predict run tgt src", "2 files after the model: expected MODEL [FILE]"),
    ("adapt run -o new", "0 files after the model: expected MODEL MEMORY..."),
    ("translate-file run src", "1 files after the model: expected MODEL IN OUT"),
    ("info run plain", "2 models: expected MODEL|ARCH"),
    (f"{TRANSLATE} -i src --preset tiny", "No such option"),
    (f"{TRANSLATE} -i src --format xml", "'xml' is not one of"),
    (f"{DOCUMENT} b.po --prefix x", "No such option"),
    (f"{DOCUMENT} b.po --flag-above nan", "'nan': expected a number >= 0.0"),
    ([*TRANSLATE.split(), "--prefix", "a\udcff"], "'--prefix': 'a\\udcff' is not UTF-8"),
    ([*TRANSLATE.split(), "--keep-pattern", "\udced\udca0\udc80"], "is not UTF-8"),
]


@pytest.mark.slow
@pytest.mark.usefixtures("shared_place")
@pytest.mark.parametrize(("command", "message"), BAD)
def test_bad_input_is_one_line(command: str, message: str) -> None:
    assert message in refused(command)


@pytest.mark.usefixtures("shared_place")
@pytest.mark.parametrize(("command", "message"), MISUSED)
def test_a_wrong_use_is_told_behind_the_usage(command: str | list[str], message: str) -> None:
    result = invoke(*([command] if isinstance(command, str) else command))
    assert result.exit_code == 2 and message in result.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", [f"{TRANSLATE} -i src", f"{SCORE} --src src --ref tgt"])
def test_bad_checkpoints_are_one_line(place: Path, command: str) -> None:
    best = place / "run" / BEST
    best.write_bytes(best.read_bytes()[:-100])
    assert "damaged" in refused(command)
    for path in (place / "run").glob("*.safetensors"):
        path.unlink()
    assert "holds no weights" in refused(command)
