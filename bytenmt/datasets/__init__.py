"""Translate much text: data sets on Ray or Spark, and lines with several processes of one machine.

Takes Arrow batches, files or lines and gives the same rows, in order, with translations
(tests/datasets/test_ray.py). Imports translation; Ray and pyarrow where they are used.
"""

from bytenmt.datasets.translate import Translate as Translate
