"""What becomes of the pairs of a training batch: noise on the source, other things to copy."""
