"""Translate much text: data sets on Ray or Spark, and lines with all cores of one machine."""

from bytenmt.datasets.translate import Translate as Translate
