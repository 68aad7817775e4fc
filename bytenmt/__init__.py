"""bytenmt: character-level translation on raw UTF-8 bytes.

>>> import bytenmt
>>> bytenmt.Translator.load("runs/mine").translate("오후 3시 40분")  # doctest: +SKIP
'3:40 p.m.'

Translator asks a model, Run is a run folder or a weights file, train makes one: docs/python-api.md.

What goes wrong in a user's hands is a BytenmtError; its children tell what it was: ConfigError,
SettingError (a ConfigError of what was given to a Translator), DataError, CheckpointError,
DeviceError.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bytenmt.api.runs import Evaluation as Evaluation
    from bytenmt.api.runs import Run as Run
    from bytenmt.api.runs import train as train
    from bytenmt.decoding.interface import Hypothesis as Hypothesis
    from bytenmt.errors import BytenmtError as BytenmtError
    from bytenmt.errors import CheckpointError as CheckpointError
    from bytenmt.errors import ConfigError as ConfigError
    from bytenmt.errors import DataError as DataError
    from bytenmt.errors import DeviceError as DeviceError
    from bytenmt.errors import SettingError as SettingError
    from bytenmt.translation.translator import Translator as Translator

__version__ = "0.2.0.dev0"
_ERRORS = (
    "BytenmtError",
    "CheckpointError",
    "ConfigError",
    "DataError",
    "DeviceError",
    "SettingError",
)
_HOME = {
    **dict.fromkeys(_ERRORS, "bytenmt.errors"),
    "Hypothesis": "bytenmt.decoding.interface",
    "Translator": "bytenmt.translation.translator",
    **dict.fromkeys(("Evaluation", "Run", "train"), "bytenmt.api.runs"),
}
__all__ = ["__version__", *_HOME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import bytenmt` stays quick."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'bytenmt' has no attribute {name!r}")
