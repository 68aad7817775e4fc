"""Much text: data sets on a distributed engine that is there already, and the cores of one machine."""

from bytenmt.scale.translate import Translate as Translate
