"""What can go wrong in a user's hands: every such error is one line that says what to do.

And how a foreign text, a file's name say, is shown in a line for a terminal.
"""


def printable(text: object) -> str:
    """A text on one line in which nothing is a command for a terminal: what Python's repr would not show as
    it is stands as an escape sequence, \\xff a byte of a file's name that is not UTF-8."""
    whole = str(text)
    if whole.isprintable():
        return whole
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in whole)


def _escaped(letter: str) -> str:
    if "\udc80" <= letter <= "\udcff":  # how Python holds such a byte
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return ascii(letter)[1:-1]


class BytenmtError(Exception):
    """An error for the user: what was got, what was expected, what to do. The command exits with 1."""

    def __str__(self) -> str:
        return printable(super().__str__())


class ConfigError(BytenmtError):
    """A configuration key, type or value that does not fit; the message names its path."""


class SettingError(ConfigError, ValueError):
    """A setting of a translation that does not exist, or a value that it cannot have; also a ValueError."""


class DataError(BytenmtError):
    """A text file that cannot be used."""


class CheckpointError(BytenmtError):
    """A run folder or a checkpoint that cannot be used."""


class DeviceError(BytenmtError):
    """A device that is not there."""


EXTRAS = {"torch": "train", "sacrebleu": "train"}  # packages, and the extras of this one that bring them


def missing_package(error: ModuleNotFoundError) -> str:
    """What to install; raises the error again where it is no package of an extra."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        raise error
    return f"this needs {package}: pip install 'bytenmt[{EXTRAS[package]}]'"
