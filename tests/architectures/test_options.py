"""Options of architectures: what does not go together is one line, what has no effect has none.

Tests architectures/*/config.py (the classes' __post_init__) and architectures/cells.py (CELLS).
"""

import re
from typing import Literal, get_args, get_origin

import msgspec
import pytest
from source_tree import PACKAGE
from torch import Tensor
from variants import OPTIONS

from bytenmt.architectures.cells import CELLS, DEFAULT_OPTIONS, CellName
from bytenmt.architectures.parameters import parameter_shapes
from bytenmt.architectures.registry import ARCHITECTURES, BUILT_IN, build_model
from bytenmt.architectures.section import ModelSection
from bytenmt.config.schema import load_config, parse_config
from bytenmt.decoding.program_check import check_program
from bytenmt.errors import ConfigError

CHO = "reset_context=true context=every_step"
REFUSED = [
    ("echo", "", "--plugin"),
    ("luong", "score=location", "set n_locations to the bytes of the longest source"),
    ("luong", "attention=local", "expected one of global, local-m, local-p, off"),
    ("seq2seq", "source=false context=every_step", '"every_step" shows a source at every step'),
    ("seq2seq", "reset_context=true", '= true resets what context = "every_step" shows'),
    ("seq2seq", CHO, 'set decoder_reset = "after" with it'),
    ("seq2seq", f"{CHO} gru_reset=after decoder_reset=before", 'set decoder_reset = "after"'),
    ("seq2seq", f"{CHO} cell=lstm", 'set cell = "gru" with it'),
    ("seq2seq", "d_hidden=1 context=every_step", "d_hidden = 1 leaves nothing to read out"),
    ("seq2seq", "decoder_reset=never", "'never', expected one of shared, before, after"),
    ("bytenet", "dilations=[]", "dilations is empty, but the decoder is convolutional: give one"),
    ("bytenet", "recurrent=decoder dilations=[]", "dilations and encoder_dilations are empty"),
    ("bytenet", "dilations=[1,0]", "model.dilations"),
    ("bytenet", "unfolding_factor=0.0", "model.unfolding_factor"),
    ("convs2s", "encoder_layers=[]", "encoder_layers is empty"),
    ("convs2s", "encoder=conv", 'value_layers is empty: encoder = "conv" needs a layer or more'),
    ("convs2s", "encoder_layers=[] encoder=conv value_layers=[[8,3]]", "encoder_layers is empty"),
    ("convs2s", "decoder_dilations=[1,2]", "decoder_dilations has 2 numbers for 4 decoder_layers"),
    ("convs2s", "encoder_dilations=[1]", "encoder_dilations has 1 numbers for 4 encoder_layers"),
    ("convs2s", "attention_layers=[3,10]", "layers from 1 to 4, each once, the lowest first"),
    ("convs2s", "attention_layers=[0]", "attention_layers[0]: expected a whole number >= 1"),
    ("convs2s", "attention_layers=[3,1]", "attention_layers: expected layers from 1 to 4"),
    ("convs2s", "positions=sinusoidal n_positions=0", "n_positions = 0 leaves no row"),
    ("convs2s", "decoder_dilations=[4096,1,1,1]", "the receptive field is 24,595 bytes"),
    ("bytenet", "dilations=[4096,4096,4096]", "the receptive field is "),
    ("transformer", "window=8000", "the receptive field is 23,998 bytes"),
]


@pytest.mark.parametrize(("arch", "settings", "message"), REFUSED)
def test_what_does_not_go_together(arch: str, settings: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(arch, "tiny", [f"model.{setting}" for setting in settings.split()])
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arch", "settings"),
    [
        ("luong", "source=false input_feeding=true attention=local-m"),
        ("luong", "source=false attention=local-p gaussian=inside score=location n_locations=9"),
        ("luong", "source=false n_encoder_layers=2 score=concat"),
        ("luong", "attention=off score=location n_locations=9 location_softmax=twice"),
        ("luong", "attention=off reverse_source=true"),
        ("luong", "attention=local-m n_locations=3 attention_window=4"),
        ("luong", "location_softmax=twice gaussian=inside attention_window=3"),
        ("seq2seq", "source=false n_encoder_layers=2"),
        ("seq2seq", "cell=lstm gru_reset=after"),
        ("bahdanau", "source=false n_encoder_layers=3"),
        ("bytenet", "source=false n_encoder_sets=2 encoder_dilations=[2] stacking=add"),
        ("bytenet", "source=false encoder_scale=3"),
        ("convs2s", "source=false encoder_layers=[[8,3]] attention_layers=[1] encoder=conv"),
        ("convs2s", "encoder=pooling encoder_dilations=[1,1,1,1] value_layers=[[8,3]]"),
        ("convs2s", "pooling_width=3 value_layers=[[8,3]]"),
        ("convs2s", "ngram_rows=8"),
    ],
)
def test_options_without_effect_have_none(arch: str, settings: str) -> None:
    """Module and program leave out what another option has switched off, and agree."""
    config = load_config(arch, "tiny", [f"model.{setting}" for setting in settings.split()])
    check_program(build_model(config.model), config.model)
    assert parameter_shapes(config.model) == {
        name: tuple(part.shape) for name, part in build_model(config.model).named_parameters()
    }


def choices() -> list[tuple[str, str, str]]:
    """Architecture, key and value of each option that is a choice of names."""
    return [
        (arch, field.name, value)
        for arch in BUILT_IN
        for field in msgspec.structs.fields(ARCHITECTURES[arch].section)
        if get_origin(field.type) is Literal
        for value in get_args(field.type)
    ]


def test_every_value_of_an_option_has_a_variant() -> None:
    """A new value, such as another cell, is in tests/helpers/variants.py, and so in all tests."""
    shared = {field.name for field in msgspec.structs.fields(ModelSection)} | {"init"}
    configs = [parse_config({"model": options}).model for options in OPTIONS.values()]
    used = {
        (str(type(config).__struct_config__.tag), key, getattr(config, key, None))
        for config in configs
        for _, key, _ in choices()
    }
    missing = {choice for choice in choices() if choice[1] not in shared} - used
    assert not missing


def test_every_value_of_an_option_is_described() -> None:
    """The row of a key in docs/configuration.md names its values."""
    rows = (PACKAGE / "docs/configuration.md").read_text(encoding="utf-8").splitlines()
    missing = set()
    for _, key, value in choices():
        described = [row for row in rows if f"`model.{key}`" in row]
        if not any(re.search(rf"`{value}`", row) for row in described):
            missing.add((key, value))
    assert not missing, "name these values in the row of the key in bytenmt/docs/configuration.md"


def test_every_cell_has_its_record() -> None:
    assert set(CELLS) == set(get_args(CellName))


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_says_how_many_maps_each_weight_has(name: CellName) -> None:
    """Muon makes each map orthogonal by itself: STACKED has each matrix of several maps."""
    d_hidden = 4
    layer = CELLS[name].build_layer(6, d_hidden, DEFAULT_OPTIONS)
    for part, module in layer.named_children():
        weight = module.weight
        assert isinstance(weight, Tensor)
        n_maps = layer.STACKED.get(part, 1)
        cure = f"declare in STACKED of {type(layer).__name__} how many maps {part} has"
        assert weight.shape[0] == n_maps * d_hidden, cure
