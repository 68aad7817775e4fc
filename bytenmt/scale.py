"""The former name of bytenmt.datasets, for programs that import it."""

import warnings

from bytenmt.datasets import Translate as Translate

warnings.warn("bytenmt.scale is now bytenmt.datasets", DeprecationWarning, stacklevel=2)
