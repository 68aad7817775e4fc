"""What a trained model is like, for those who get it: measurements, and the card that tells of them."""
