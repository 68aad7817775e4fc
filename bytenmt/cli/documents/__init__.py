"""Commands and options for documents."""
