import pytest
import torch


def pytest_collection_modifyitems(items):
    """Everything here is slow and needs CUDA; without it the tests are skipped, not passed."""
    for item in items:
        if "tests/gpu/" in item.nodeid:
            item.add_marker("slow")
            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
