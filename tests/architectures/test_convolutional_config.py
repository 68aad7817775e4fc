"""Options of the convolutional architectures that do not go together: one line that names them."""

from __future__ import annotations

import pytest

from bytenmt.architectures.registry import build_model
from bytenmt.config.schema import load_config, parse_config
from bytenmt.decoding.program_check import check_program
from bytenmt.errors import ConfigError

CONVS2S = [
    (["encoder=conv"], 'value_layers is empty: encoder = "conv" needs a layer or more'),
    (["encoder_layers=[]", "encoder=conv", "value_layers=[[8,3]]"], "encoder_layers is empty"),
    (["decoder_dilations=[1,2]"], "decoder_dilations has 2 numbers for 4 decoder_layers"),
    (["encoder_dilations=[1]"], "encoder_dilations has 1 numbers for 4 encoder_layers"),
    (["attention_layers=[3,10]"], "attention_layers has 10, but decoder_layers are 1 to 4"),
    (["attention_layers=[0]"], "expected int >= 1"),
    (["attention_layers=[3,1]"], "attention_layers: expected each layer once, the lowest first"),
    (["attention_layers=[1,1]"], "attention_layers: expected each layer once, the lowest first"),
    (["positions=sinusoidal", "n_positions=0"], 'n_positions = 0 leaves no row for positions = "sinusoidal"'),
    (["positions=sinusoidal", "n_positions=1000000"], "n_positions times d_embedding is over"),
    (["decoder_dilations=[4096,1,1,1]"], "the receptive field is 24,595 bytes"),
    (["encoder_dilations=[4096,1,1,1]"], "the receptive field is 24,595 bytes"),
]


BYTENET = [
    (["dilations=[]"], "dilations is empty, but the decoder is convolutional: give one or more"),
    (["recurrent=decoder", "dilations=[]"], "dilations and encoder_dilations are empty, but the encoder is"),
]


@pytest.mark.parametrize(("settings", "message"), BYTENET)
def test_options_of_bytenet_that_do_not_go_together(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config("bytenet", "tiny", "", [f"model.{setting}" for setting in settings])
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("settings", "message"), CONVS2S)
def test_options_of_convs2s_that_do_not_go_together(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config("convs2s", "tiny", "", [f"model.{setting}" for setting in settings])
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "encoder", "decoder"),
    [
        (["recurrent=decoder", "dilations=[]", "encoder_dilations=[3]"], (3,), ()),
        (["recurrent=decoder", "dilations=[3]"], (3,), ()),
        (["recurrent=both"], (), ()),
        (["recurrent=both", "source=false"], (), ()),
        (["source=false", "n_sets=1", "dilations=[3]", "encoder_dilations=[5]", "stacking=add"], (), (3,)),
    ],
)
def test_bytenet_takes_the_dilations_that_it_needs(
    settings: list[str], encoder: tuple[int, ...], decoder: tuple[int, ...]
) -> None:
    config = load_config("bytenet", "tiny", "", [f"model.{setting}" for setting in settings])
    assert (config.model.encoder_schedule, config.model.decoder_schedule) == (encoder, decoder)  # type: ignore
    check_program(build_model(config.model), config.model)


def test_no_positions_are_none() -> None:
    """n_positions = 0 means off where they are learned, as before there was a name for it."""
    for settings in (["n_positions=0"], ["positions=off"]):
        config = load_config("convs2s", "small", "", [f"model.{setting}" for setting in settings])
        assert config.model.position_kind == "off"  # type: ignore[union-attr]
    parse_config({"model": {"arch": "convs2s", "d_embedding": 5, "decoder_layers": [[4, 3]],
                            "encoder_layers": [[4, 3]], "n_positions": 0}})  # fmt: skip
