"""Metrics over the tool calls of a run: order, choice, arguments, limits of repetition."""
