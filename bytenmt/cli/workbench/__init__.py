"""The commands of a translator's workbench."""
