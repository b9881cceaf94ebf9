"""Pytest plugin: metrics as assertions in a test run."""

import pytest

__all__ = ["pytest_configure"]


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that sets a metric and its threshold for a test."""
    config.addinivalue_line("markers", "metric(metric, threshold=None): a metric the case of this test must meet")
