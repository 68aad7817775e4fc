"""Steppers: ways to run a model's decode step. The search drives one and knows no model."""
