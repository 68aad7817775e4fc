"""What the instructions of a program do to rows of numbers."""
