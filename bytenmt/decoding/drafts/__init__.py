"""Draft tables: counted from a run's training text, stored, looked up."""
