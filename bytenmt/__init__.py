"""bytenmt: character-level translation on raw UTF-8 bytes.

>>> import bytenmt
>>> bytenmt.Translator.load("runs/mine").translate(["오후 3시 40분"])  # doctest: +SKIP
['3:40 p.m.']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bytenmt.decoding.translator import Translator as Translator

__version__ = "0.1.0"
__all__ = ["Translator", "__version__"]


def __getattr__(name: str) -> Any:
    """Translator, imported when it is asked for: `import bytenmt` imports nothing else."""
    if name == "Translator":
        return import_module("bytenmt.decoding.translator").Translator
    raise AttributeError(f"module 'bytenmt' has no attribute {name!r}")
