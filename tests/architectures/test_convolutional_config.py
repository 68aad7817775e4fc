"""Options of the convolutional architectures that do not go together: one line that names them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from bytenmt.cli.main import main
from bytenmt.config.schema import load_config, parse_config
from bytenmt.errors import ConfigError

ALONE = ["source=false", "encoder_layers=[]"]

CONVS2S = [
    (["encoder=pooling"], 'encoder_layers would be ignored with encoder = "pooling": set it to []'),
    (["encoder=conv"], 'value_layers is empty: encoder = "conv" needs a layer or more'),
    (["encoder_layers=[]", "encoder=conv", "value_layers=[[8,3]]"], "encoder_layers is empty"),
    (["value_layers=[[8,3]]"], 'value_layers would be ignored with encoder = "gated"'),
    (["pooling_width=3"], 'pooling_width would be ignored with encoder = "gated"'),
    (["encoder=pooling", "encoder_layers=[]", "encoder_dilations=[2]"], "encoder_dilations would be ignored"),
    (["decoder_dilations=[1,2]"], "decoder_dilations has 2 numbers for 4 decoder_layers"),
    (["encoder_dilations=[1]"], "encoder_dilations has 1 numbers for 4 encoder_layers"),
    (["attention_layers=[3,10]"], "attention_layers has 10, but decoder_layers are 1 to 4"),
    (["attention_layers=[0]"], "Expected `int` >= 1"),
    (["attention_layers=[3,1]"], "attention_layers: expected each layer once, the lowest first"),
    (["attention_layers=[1,1]"], "attention_layers: expected each layer once, the lowest first"),
    (["positions=sinusoidal", "n_positions=0"], 'n_positions = 0 leaves no row for positions = "sinusoidal"'),
    (["positions=sinusoidal", "n_positions=1000000"], "n_positions times d_embedding is over"),
    (["decoder_dilations=[4096,1,1,1]"], "the receptive field is 24,595 bytes"),
    (["encoder_dilations=[4096,1,1,1]"], "the receptive field is 24,595 bytes"),
    ([*ALONE, "attention_layers=[1]"], "attention_layers would be ignored without a source"),
    ([*ALONE, "attention_scaling=none"], "attention_scaling would be ignored without a source"),
    ([*ALONE, "encoder=pooling"], "encoder would be ignored without a source"),
    ([*ALONE, "value_layers=[[8,3]]"], "value_layers would be ignored without a source"),
    ([*ALONE, "pooling_width=9"], "pooling_width would be ignored without a source"),
    ([*ALONE, "encoder_dilations=[9]"], "encoder_dilations would be ignored without a source"),
]


RECURRENT = ["recurrent=both", "dilations=[]", "kernel_width=3"]
BYTENET = [
    (["recurrent=both"], 'dilations would be ignored with recurrent = "both": set it to []'),
    ([*RECURRENT, "kernel_width=5"], 'kernel_width would be ignored with recurrent = "both": set it to 3'),
    ([*RECURRENT, "block=multiplicative"], 'block would be ignored with recurrent = "both"'),
    ([*RECURRENT, "encoder_dilations=[1]"], 'encoder_dilations would be ignored with recurrent = "both"'),
    (["recurrent=decoder", "dilations=[]"], "dilations is empty: give one or more"),
    (["source=false", "recurrent=both"], 'recurrent = "both" needs an encoder'),
    (
        ["source=false", "recurrent=decoder"],
        'dilations would be ignored with recurrent = "decoder" and without a source: set it to []',
    ),
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


def test_the_command_ends_with_one_line() -> None:
    """And exit status 1."""
    options = ["-o", "nowhere", "--arch", "convs2s", "--tsv", "x", "--valid-tsv", "x"]
    done = CliRunner().invoke(main, ["train", *options, "--set", "model.encoder=pooling"])
    assert done.exit_code == 1 and done.stderr.count("\n") == 1
    assert "encoder_layers would be ignored" in done.stderr


def test_no_positions_are_none() -> None:
    """n_positions = 0 means off where they are learned, as before there was a name for it."""
    for settings in (["n_positions=0"], ["positions=off"]):
        config = load_config("convs2s", "small", "", [f"model.{setting}" for setting in settings])
        assert config.model.position_kind == "off"  # type: ignore[union-attr]
    parse_config({"model": {"arch": "convs2s", "d_embedding": 5, "decoder_layers": [[4, 3]],
                            "encoder_layers": [[4, 3]], "n_positions": 0}})  # fmt: skip
