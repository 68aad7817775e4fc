"""What can go wrong in a user's hands: every such error is one line that says what to do."""


class BytenmtError(Exception):
    """An error for the user: what was got, what was expected, what to do. The command exits with 1."""


class ConfigError(BytenmtError):
    """A configuration key, type or value that does not fit; the message names its path."""


class DataError(BytenmtError):
    """A text file that cannot be used."""


class CheckpointError(BytenmtError):
    """A run folder or a checkpoint that cannot be used."""


class DeviceError(BytenmtError):
    """A device that is not there."""
