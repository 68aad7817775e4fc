"""Exceptions for the user, each with a message of one line that says what to do.

Also `printable`, which shows foreign text, such as a file name, in a line for a terminal.
"""


def printable(text: object) -> str:
    r"""Return str(text) as one line without control characters, which a terminal would obey.

    Characters that Python's repr would escape are escaped; \xff is a byte of a file name that is
    not UTF-8.
    """
    whole = str(text)
    if whole.isprintable():
        return whole
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in whole)


def _escaped(letter: str) -> str:
    if "\udc80" <= letter <= "\udcff":  # Python's surrogate escapes for such bytes
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return ascii(letter)[1:-1]


class BytenmtError(Exception):
    """An error whose message tells the user what is wrong and what to do. Commands exit with 1."""

    def __str__(self) -> str:
        return printable(super().__str__())


class ConfigError(BytenmtError):
    """An unknown configuration key, or a value of a wrong type or range, with the key's path."""


class SettingError(ConfigError, ValueError):
    """An unknown or invalid setting of the Python interface or of a command, such as beam=0."""


class DataError(BytenmtError):
    """A text file that cannot be read or used."""


class CheckpointError(BytenmtError):
    """A run folder or a checkpoint that cannot be read or used."""


class DeviceError(BytenmtError):
    """A device that is not available."""


EXTRAS = {  # optional packages by the name that is imported, and the pip extras that install them
    **{"matplotlib": "plots", "pyarrow": "ray", "ray": "ray", "zstandard": "zst"},
    **dict.fromkeys(("torch", "sacrebleu"), "train"),
    **dict.fromkeys(("llvmlite", "numba"), "jit"),
    **dict.fromkeys(
        ("iniparse", "lxml", "markdown_it", "moz", "polib", "ruamel", "srt", "webvtt"), "documents"
    ),
    **dict.fromkeys(("anyio", "prometheus_client", "py3langid", "starlette", "uvicorn"), "serve"),
}


def missing_package(error: ModuleNotFoundError) -> str:
    """Return a message that says which pip extra of bytenmt installs a package.

    error: of the import that failed; it is raised again if no extra contains the package.
    """
    extra = extra_of(error)
    if extra is None:
        raise error
    return f"this needs {_package_of(error)}: pip install 'bytenmt[{extra}]'"


def extra_of(error: ModuleNotFoundError) -> str | None:
    """Return the pip extra that installs the package whose import failed; None if none does."""
    return EXTRAS.get(_package_of(error))


def _package_of(error: ModuleNotFoundError) -> str:
    return (error.name or "").partition(".")[0]
