"""Dilated convolutions stacked on the encoder: ByteNet, Kalchbrenner et al. 2016."""
