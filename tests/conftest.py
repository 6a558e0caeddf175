import os

import pytest
import torch

# Test workers share the machine's cores: one thread each keeps them from fighting over them.
torch.set_num_threads(max(1, (os.cpu_count() or 2) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)
