"""The architectures by name: where each has its configuration, its module and its program.

To add an architecture to the package, add its folder and its line in ARCHITECTURES, and sizes in
presets.py. A program that uses the package adds its own by `register`. Importing this module
imports neither PyTorch nor NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from bytenmt.architectures.presets import PRESETS
from bytenmt.architectures.section import ModelSection, architecture

if TYPE_CHECKING:  # they import PyTorch and NumPy
    from bytenmt.architectures.base import Model
    from bytenmt.architectures.model_program import ModelProgram, ModelWriter

ProgramWriter = Callable[[Any, "ModelWriter"], "ModelProgram"]


@dataclass(eq=False)
class Architecture:
    """An entry of the registry: an architecture's configuration class, module and program writer.

    An architecture of the package is a folder of its name with config.py, model.py and, for the CPU
    engine, program.py, which are imported when they are first used.
    """

    name: str  # of the folder
    config_class: str  # in config.py
    model_class: str  # in model.py
    has_program: bool = True  # whether the folder has program.py

    def _import(self, module: str, name: str) -> Any:
        return getattr(import_module(f"{__package__}.{self.name}.{module}"), name)

    @cached_property
    def section(self) -> type[ModelSection]:
        """The configuration class, a subclass of ModelSection."""
        return cast(type[ModelSection], self._import("config", self.config_class))

    @cached_property
    def build(self) -> Callable[[Any], Model[Any, Any]]:
        """The class that builds the PyTorch model from a configuration. Imports PyTorch."""
        return cast("Callable[[Any], Model[Any, Any]]", self._import("model", self.model_class))

    @cached_property
    def write_program(self) -> ProgramWriter | None:
        """The function (config, ModelWriter) -> ModelProgram, the CPU engine's instructions for a
        model; None: the CPU engine cannot run the architecture, and PyTorch decodes."""
        if not self.has_program:
            return None
        return cast(ProgramWriter, self._import("program", "write_program"))


ARCHITECTURES = {
    entry.name: entry
    for entry in (
        Architecture("seq2seq", "Seq2SeqConfig", "Seq2Seq"),
        Architecture("bahdanau", "BahdanauConfig", "Bahdanau"),
        Architecture("luong", "LuongConfig", "Luong"),
        Architecture("bytenet", "ByteNetConfig", "ByteNet"),
        Architecture("convs2s", "ConvS2SConfig", "ConvS2S"),
        Architecture("transformer", "TransformerConfig", "Transformer", has_program=False),
    )
}
# The union of these is a type of the configuration's schema; one registered later is validated on
# its own.
BUILT_IN = tuple(ARCHITECTURES)


def register(
    section: type[ModelSection],
    model: Callable[[Any], Model[Any, Any]],
    presets: Mapping[str, Mapping[str, Any]],
    write_program: ProgramWriter | None = None,
) -> None:
    """Add an architecture of a plugin, which configurations, training and decoding then take.

    section: its configuration class, a frozen subclass of ModelSection whose tag is the
    architecture's name. model: builds the module from a configuration. presets: for "small", and
    for any other preset, the values of the sections "model" and "train". write_program: returns a
    model's instructions for the CPU engine; None: PyTorch decodes. Raises ValueError for a name
    that is registered already, an unknown preset, or no "small".
    """
    name = str(section.__struct_config__.tag)
    new = Architecture(name, section.__name__, "")
    new.section = section
    new.build = model
    new.write_program = write_program
    if "small" not in presets or not presets.keys() <= PRESETS.keys():
        raise ValueError(
            f"presets {', '.join(presets)}: small is required, others of {', '.join(PRESETS)}"
        )
    if name in ARCHITECTURES:
        raise ValueError(f"there is an architecture {name!r} already")
    ARCHITECTURES[name] = new
    for preset, sections in presets.items():
        PRESETS[preset][name] = {part: dict(sections.get(part, {})) for part in ("model", "train")}


def of_config(config: ModelSection) -> Architecture:
    """Return the registry's entry for the architecture of a model configuration."""
    return ARCHITECTURES[architecture(config)]


def has_program(config: ModelSection) -> bool:
    """Return whether the CPU engine can run a model: its architecture has a write_program."""
    return of_config(config).write_program is not None


def build_model(config: ModelSection) -> Model[Any, Any]:
    """Build a freshly initialised model of the configured architecture. Imports PyTorch."""
    return of_config(config).build(config)
