"""Building blocks that take plain numbers and tensors and know no model."""
