"""Sizes of the presets, and the rules of the configuration."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch

from bytenmt.architectures.base import Model
from bytenmt.architectures.bytenet.config import ByteNetConfig
from bytenmt.architectures.convs2s.config import ConvS2SConfig
from bytenmt.architectures.costs import receptive_field
from bytenmt.architectures.luong.config import LuongConfig
from bytenmt.architectures.parameters import parameter_shapes
from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.registry import ARCHITECTURES, build_model
from bytenmt.architectures.seq2seq.config import Seq2SeqConfig
from bytenmt.config.schema import Config, config_toml, fingerprint, load_config, parse_config
from bytenmt.config.tree import (
    preset_tree,
)
from bytenmt.decoding.program_check import check_program
from bytenmt.errors import ConfigError

NOMINAL = {"tiny": 0.6e6, "small": 3e6, "base": 10e6, "fast": 3.3e6, "large": 25e6}  # decoder weights


def on_meta(arch: str, preset: str, *settings: str) -> Model[Any, Any]:
    """A preset's model without its numbers."""
    with torch.device("meta"):
        return build_model(load_config(arch, preset, "", settings).model)


def test_presets_and_models_have_the_same_names() -> None:
    assert set(PRESETS) == {*NOMINAL, "paper"}
    assert all(set(PRESETS[name]) == set(ARCHITECTURES) for name in PRESETS)


@pytest.mark.slow
@pytest.mark.parametrize("preset", NOMINAL)
def test_decoder_weights(preset: str) -> None:
    """All within 20 % of each other and of the preset's nominal size; tiny never above a million."""
    weights = {arch: on_meta(arch, preset).decoder_weights() for arch in ARCHITECTURES}
    assert max(weights.values()) <= 1.2 * min(weights.values())
    for arch, count in weights.items():
        assert count == pytest.approx(NOMINAL[preset], rel=0.2), arch
        assert preset != "tiny" or count <= 1e6, arch


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_fast_has_the_encoder_of_base(arch: str) -> None:
    """The encoder has as many weights as that of base, within 20 %, and the decoder a third."""
    fast, base = (
        sum(p.numel() for name, p in on_meta(arch, preset).named_parameters() if name.startswith("encoder"))
        for preset in ("fast", "base")
    )
    assert fast == pytest.approx(base, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("preset", NOMINAL)
def test_decoder_weights_without_a_source(preset: str) -> None:
    """The number of decoder weights is within 20 % of the preset's size; base has at most 11 million weights
    in all.
    """
    for arch in ARCHITECTURES:
        model = on_meta(arch, preset, "model.source=false")
        assert model.decoder_weights() == pytest.approx(NOMINAL[preset], rel=0.2), arch
        assert preset != "base" or sum(p.numel() for p in model.parameters()) <= 11e6
        assert model.embedding.weight.shape == on_meta(arch, preset).embedding.weight.shape


@pytest.mark.parametrize(
    ("arch", "settings"),
    [
        ("luong", "source=false input_feeding=true attention=local-m"),
        ("luong", "source=false attention=local-p gaussian=inside score=location n_locations=9"),
        ("luong", "source=false n_encoder_layers=2 score=concat"),
        ("luong", "attention=off score=location n_locations=9 location_softmax=twice reverse_source=true"),
        ("luong", "attention=local-m n_locations=3 attention_window=4"),
        ("luong", "location_softmax=twice gaussian=inside attention_window=3"),
        ("seq2seq", "source=false encoder_reset=after n_encoder_layers=2"),
        ("seq2seq", "cell=lstm gru_reset=after"),
        ("bahdanau", "source=false n_encoder_layers=3"),
        ("bytenet", "source=false n_encoder_sets=2 encoder_dilations=[2] stacking=add encoder_scale=3"),
        ("convs2s", "source=false encoder_layers=[[8,3]] attention_layers=[1] encoder=conv"),
        ("convs2s", "encoder=pooling encoder_dilations=[1,1,1,1] value_layers=[[8,3]]"),
        ("convs2s", "pooling_width=3 value_layers=[[8,3]]"),
        ("convs2s", "ngram_rows=8"),
    ],
)
def test_options_without_effect_have_none(arch: str, settings: str) -> None:
    """Module and program leave out what another option has switched off, and agree."""
    config = load_config(arch, "tiny", "", [f"model.{setting}" for setting in settings.split()])
    check_program(build_model(config.model), config.model)
    assert parameter_shapes(config.model) == {
        name: tuple(part.shape) for name, part in build_model(config.model).named_parameters()
    }


@pytest.mark.parametrize(
    ("arch", "settings", "message"),
    [
        ("luong", "score=location", ["location", "n_locations"]),
        ("luong", "attention=local", ["attention", "global, local-m, local-p, off"]),
        ("luong", "attention=local-m attention_window=-1", ["attention_window"]),
        ("seq2seq", "source=false context=every_step", ["every step"]),
    ],
)
def test_what_does_not_go_together(arch: str, settings: str, message: list[str]) -> None:
    """One line that names both options."""
    with pytest.raises(ConfigError) as error:
        load_config(arch, "tiny", "", [f"model.{setting}" for setting in settings.split()])
    assert all(part in str(error.value) for part in message), str(error.value)
    assert "\n" not in str(error.value)


def test_the_window_of_luong() -> None:
    """D, where there is one; 50 bytes where attention is local and no number is given."""
    for settings, window, bell in (
        ([], 0, "none"),
        (["attention=local-m"], 50, "none"),
        (["attention=local-p"], 50, "after"),
        (["attention=local-m", "gaussian=inside", "attention_window=7"], 7, "inside"),
    ):
        config = load_config("luong", "tiny", "", [f"model.{setting}" for setting in settings])
        assert isinstance(config.model, LuongConfig)
        assert (config.model.window, config.model.bell) == (window, bell)
        round_trip(config)


@pytest.mark.parametrize(
    ("settings", "encoder", "decoder"),
    [
        (["n_sets=3"], [1, 2, 4, 8] * 3, [1, 2, 4, 8] * 3),
        (["n_encoder_sets=3"], [1, 2, 4, 8] * 3, [1, 2, 4, 8] * 2),
        (["n_sets=1", "n_decoder_sets=4"], [1, 2, 4, 8], [1, 2, 4, 8] * 4),
        (["dilations=[1,5]"], [1, 5] * 2, [1, 5] * 2),
        (["dilations=[1,5]", "n_encoder_sets=1", "encoder_dilations=[2]"], [2], [1, 5] * 2),
        (["n_encoder_sets=3", "n_encoder_sets=0"], [1, 2, 4, 8] * 2, [1, 2, 4, 8] * 2),
    ],
)
def test_bytenet_has_a_depth_for_each_side(
    settings: list[str], encoder: list[int], decoder: list[int]
) -> None:
    """n_sets and dilations are of both, where a side has none of its own."""
    settings = ["n_sets=2", "dilations=[1,2,4,8]", "kernel_width=3", *settings]
    config = load_config("bytenet", "tiny", "", [f"model.{setting}" for setting in settings])
    assert isinstance(config.model, ByteNetConfig)
    assert config.model.encoder_schedule == tuple(encoder)
    assert config.model.decoder_schedule == tuple(decoder)
    round_trip(config)
    model = on_meta("bytenet", "tiny", *(f"model.{setting}" for setting in settings))
    assert receptive_field(model.config) == 1 + 2 * sum(decoder)


@pytest.mark.parametrize("arch", ["seq2seq", "luong"])
def test_recurrent_layers_of_each_side(arch: str) -> None:
    """n_layers is of both, where a side has no number of its own."""
    for settings, encoder, decoder in (
        (["n_layers=3"], 3, 3),
        (["n_layers=3", "n_encoder_layers=5"], 5, 3),
        (["n_layers=3", "n_decoder_layers=1"], 3, 1),
    ):
        config = load_config(arch, "tiny", "", [f"model.{setting}" for setting in settings])
        assert isinstance(config.model, Seq2SeqConfig | LuongConfig)
        assert (config.model.encoder_depth, config.model.decoder_depth) == (encoder, decoder)
        round_trip(config)
    alone = load_config(arch, "tiny", "", ["model.source=false", "model.n_layers=2"])
    assert isinstance(alone.model, Seq2SeqConfig | LuongConfig)
    assert (alone.model.encoder_depth, alone.model.decoder_depth) == (0, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["reset_context=true"], 'reset_context = true resets what context = "every_step" shows'),
        (["reset_context=true", "context=every_step"], 'reset_context.*decoder_reset = "after"'),
        (
            ["reset_context=true", "context=every_step", "gru_reset=after", "decoder_reset=before"],
            'reset_context.*decoder_reset = "after"',
        ),
        (["reset_context=true", "context=every_step", "cell=lstm"], 'reset_context.*cell = "gru"'),
        (["d_hidden=1", "read_out_kind=maxout"], "d_hidden = 1 leaves nothing to read out"),
        (["encoder_reset=never"], "'never' is none of shared, before, after"),
        (["read_out_kind=softmax"], "'softmax' is none of auto, linear, maxout"),
        (["cell=rnn"], "'rnn' is none of gru, lstm"),
    ],
)
def test_recurrent_options_that_do_not_go_together(settings: list[str], message: str) -> None:
    """One line that names both."""
    with pytest.raises(ConfigError, match=message) as error:
        load_config("seq2seq", "tiny", "", [f"model.{setting}" for setting in settings])
    assert "\n" not in str(error.value)


def test_convs2s_needs_an_encoder_with_a_source() -> None:
    with pytest.raises(ConfigError, match="encoder_layers is empty"):
        load_config("convs2s", "tiny", "", ["model.encoder_layers=[]"])


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_one_embedding_width(preset: str) -> None:
    """A preset's byte embedding fits all architectures, and can be tied with the output."""
    shapes = {tuple(on_meta(arch, preset).embedding.weight.shape) for arch in PRESETS[preset]}
    assert len(shapes) == 1
    for arch in PRESETS[preset]:
        model = on_meta(arch, preset, "model.tie_embedding=true")
        assert model.decoder.output.weight is model.embedding.weight  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("preset", NOMINAL)
@pytest.mark.parametrize("arch", ["convs2s", "bytenet"])
def test_receptive_field_is_wide_enough_for_bytes(arch: str, preset: str) -> None:
    """At least 60 bytes; of tiny's ConvS2S, which attends and whose few layers are wide, 25."""
    field = receptive_field(on_meta(arch, preset).config)
    assert field is not None and field >= (25 if (arch, preset) == ("convs2s", "tiny") else 60)


@pytest.mark.slow
def test_papers_receptive_fields() -> None:
    """ByteNet's formula 1 + sum (k-1) r over 6 sets of 1..16; ConvS2S' 13 layers of kernel 3."""
    assert receptive_field(on_meta("bytenet", "paper").config) == 373
    assert receptive_field(on_meta("convs2s", "paper").config) == 27
    assert receptive_field(on_meta("luong", "paper").config) is None


def test_published_widths() -> None:
    """The paper presets are the papers' sizes."""
    sizes = PRESETS["paper"]
    assert sizes["bytenet"]["model"]["d_channels"] == 800
    assert sizes["bahdanau"]["model"]["d_hidden"] == 1000
    assert sizes["bahdanau"]["model"]["d_maxout"] == 500
    assert sizes["luong"]["model"]["n_layers"] == 4
    assert [len(sizes["convs2s"]["model"]["decoder_layers"])] == [15]


@pytest.mark.parametrize(("arch", "preset"), [(arch, name) for name in PRESETS for arch in PRESETS[name]])
def test_toml_round_trip(arch: str, preset: str) -> None:
    """A resolved configuration, written out and read back, is the same."""
    for settings in (["train.seed=7"], ["train.seed=7", "model.source=false"]):
        round_trip(load_config(arch, preset, "", settings))
    assert fingerprint(load_config(arch, preset, "", [])) != fingerprint(
        load_config(arch, preset, "", ["train.seed=8"])
    )


def test_dilations_of_a_preset_go_with_its_layers() -> None:
    """Other layers are not dilated, unless their dilations are given too."""
    layers = "model.decoder_layers=[[8,3],[8,3]]"
    for settings, expected in (
        ([], (1, 2, 4, 8)),
        ([layers], ()),
        ([layers, "model.decoder_dilations=[1,3]"], (1, 3)),
    ):
        model = load_config("convs2s", "tiny", "", settings).model
        assert isinstance(model, ConvS2SConfig) and model.decoder_dilations == expected


def test_shares_of_letter_case_are_of_all_pairs() -> None:
    settings = ["data.upper_case=0.5", "data.title_case=0.3", "data.lower_case=0.2"]
    assert load_config("luong", "tiny", "", settings).data.augmentations == (
        "upper_case",
        "title_case",
        "lower_case",
    )
    with pytest.raises(ConfigError, match="sum must be at most 1"):
        load_config("luong", "tiny", "", [*settings, "data.lower_case=0.21"])
    for value in ("-0.1", "1.1", "nan"):
        with pytest.raises(ConfigError, match="data.empty_source"):
            load_config("luong", "tiny", "", [f"data.empty_source={value}"])


def round_trip(config: Config) -> None:
    text = config_toml(config)
    again = load_config(None, None, text, [])
    assert again == config
    assert fingerprint(again) == fingerprint(config)


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("train.lerning_rate=1", "train"),
        ("nonsense.lr=1", "nonsense"),
        ("model.d_hiden=3", "model"),
        ("train.lr=fast", "train.lr"),
        ("train.lr=0", "train.lr"),
        ("train.lr=-1.0", "train.lr"),
        ("train.max_tokens=0", "train.max_tokens"),
        ("train.max_tokens=1.5", "train.max_tokens"),
        ("train.seed=true", "train.seed"),
        ("train.teacher_forcing=1.5", "train.teacher_forcing"),
        ("train.schedule=triangular", "train.schedule"),
        ("model.dropout=1.0", "model.dropout"),
        ("model.d_hidden=0", "model.d_hidden"),
        ("model.context=end", "model.context"),
        ("model=3", "model"),
        ("train=3", "train"),
        ("model.source=1", "model.source"),
    ],
)
def test_what_does_not_fit_is_named(setting: str, path: str) -> None:
    """An unknown key, a wrong type and a value out of range each name their path, in one line."""
    with pytest.raises(ConfigError) as error:
        load_config("seq2seq", "tiny", "", [setting])
    assert path in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("model.dilations=[]", "dilations is empty, but the decoder is convolutional: give one or more"),
        ("model.dilations=[1, 0]", "model.dilations"),
        ("model.unfolding_factor=0.0", "model.unfolding_factor"),
        ("model.unfolding_offset=-1", "model.unfolding_offset"),
        ("model.n_encoder_sets=-1", "model.n_encoder_sets"),
        ("model.encoder_scale=0", "model.encoder_scale"),
        ("model.stacking=sum", "concat, add"),
    ],
)
def test_what_does_not_fit_in_bytenet(setting: str, path: str) -> None:
    """Lists of ByteNet that contradict each other are refused."""
    with pytest.raises(ConfigError, match=path.replace(".", r"\.")):
        load_config("bytenet", "tiny", "", [setting])


@pytest.mark.parametrize("setting", ["train.lr", "=3", "train..lr=1", "train.lr.x=1", ""])
def test_a_malformed_setting_is_an_error(setting: str) -> None:
    """--set takes key=value."""
    with pytest.raises(ConfigError):
        load_config("seq2seq", "tiny", "[train]\nlr = 0.1", [setting])


def test_settings_are_toml_or_plain_words() -> None:
    """Numbers, truth values, lists and words."""
    settings = [
        "train.lr=1e-4",
        "train.schedule=constant",
        'train.precision="fp32"',
        "data.max_source_bytes=9",
        "model.encoder_layers=[[8, 3], [8, 5]]",
        " train.seed = 9 ",
    ]
    config = load_config("convs2s", "tiny", "", settings)
    assert config.train.lr == 1e-4
    assert config.train.schedule == "constant"
    assert config.train.precision == "fp32"
    assert config.data.max_source_bytes == 9
    assert msgspec.to_builtins(config.model)["encoder_layers"] in (
        [[8, 3], [8, 5]],
        ((8, 3), (8, 5)),
    )
    assert config.train.seed == 9


def test_preset_under_file_under_settings() -> None:
    """A file overrides the preset, --set overrides the file, what neither names stays."""
    text = "[train]\nlr = 0.5\nwarmup_updates = 3\n[model]\ndropout = 0.25\n"
    config = load_config("luong", "tiny", text, ["train.lr=0.75"])
    assert (config.train.lr, config.train.warmup_updates) == (0.75, 3)
    assert config.train.max_tokens == PRESETS["tiny"]["luong"]["train"]["max_tokens"]
    assert config.model.dropout == 0.25
    assert config.model.d_embedding == 64


def test_the_architecture_may_stand_in_the_file() -> None:
    """Either place will do, both if they agree."""
    text = '[model]\narch = "bytenet"\n'
    assert load_config(None, "tiny", text, []) == load_config("bytenet", "tiny", "", [])
    assert load_config("bytenet", "tiny", text, []) == load_config("bytenet", "tiny", "", [])
    with pytest.raises(ConfigError, match="--arch"):
        load_config("luong", "tiny", text, [])


@pytest.mark.parametrize(
    ("arch", "preset", "toml", "message"),
    [
        ("perceptron", "tiny", "", "perceptron"),
        ("luong", "huge", "", "huge"),
        (None, None, "", "--arch"),
        ("luong", "tiny", "[train\n", "TOML"),
        ("luong", "tiny", "model = 3", "model"),
        (None, "tiny", "[model]\narch = 3\n", "3"),
    ],
)
def test_bad_names_and_files(arch: str | None, preset: str | None, toml: str, message: str) -> None:
    """One line that says what was got."""
    with pytest.raises(ConfigError, match=message):
        load_config(arch, preset, toml, [])


def test_configuration_is_frozen() -> None:
    """Nobody changes a configuration under way."""
    config = parse_config(preset_tree("luong", "tiny"))
    with pytest.raises(AttributeError):
        config.train.lr = 1.0  # type: ignore[misc]


def test_presets_are_not_shared() -> None:
    """Resolving one configuration changes no preset."""
    before = repr(PRESETS)
    load_config("convs2s", "tiny", "[train]\nlr = 0.5", ["model.dropout=0.9"])
    assert repr(PRESETS) == before
