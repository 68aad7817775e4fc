"""Translate much text: data sets on Ray or Spark, and lines with several processes of one machine."""

from bytenmt.datasets.translate import Translate as Translate
