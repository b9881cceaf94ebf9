"""Metrics over the text an agent answered."""
