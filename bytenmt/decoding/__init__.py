"""Requests in, hypotheses out."""
