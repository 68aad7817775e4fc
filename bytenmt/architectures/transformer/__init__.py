"""A byte Transformer: pre-norm, rotary positions and a sliding window of self-attention."""
