"""Networks as parameters of tests."""

import pytest


def large_ones_slow(names):
    """Only the tiny ones are built and run within a second."""
    return [name if "tiny" in name else pytest.param(name, marks=pytest.mark.slow) for name in names]
