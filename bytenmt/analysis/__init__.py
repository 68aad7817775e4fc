"""Measure, compare and draw trained models, and write their cards."""
