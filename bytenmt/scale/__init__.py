"""Translate much text: data sets on Ray or Spark, and lines with all cores of one machine."""

from bytenmt.scale.translate import Translate as Translate
