"""Building blocks of the models, which take plain numbers and tensors."""
