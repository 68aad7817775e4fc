"""The GRU or LSTM encoder-decoder of Cho et al. 2014 and Sutskever et al. 2014."""
