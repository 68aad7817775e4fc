"""Gated convolutions with attention in the decoder: ConvS2S, Gehring et al. 2017."""
