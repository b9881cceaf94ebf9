"""Metrics, judges, rules, workers and alerts."""
