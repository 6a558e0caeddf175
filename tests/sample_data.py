"""Real images and weights, for tests that need them: the folder named by YOLOFAST_TEST_DATA, skipped without it."""

import os
from pathlib import Path

import pytest


def sample(path):
    """A file or folder of the sample data, or skip the test."""
    root = os.environ.get("YOLOFAST_TEST_DATA")
    if root is None or not (Path(root) / path).exists():
        pytest.skip(f"needs {path} in the folder named by YOLOFAST_TEST_DATA")
    return Path(root) / path
