"""What the commands do with documents."""
