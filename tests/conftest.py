import os
import signal

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests.quick_gate import QuickGate

# Test workers share the machine's cores: one thread each keeps them from fighting over them.
torch.set_num_threads(max(1, (os.cpu_count() or 2) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))

# Random examples find faults while developing; in CI the same examples run every time: red means a change did it.
# Neither has a clock: busy machines are slow, not wrong.
TIMELESS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, **TIMELESS)
settings.register_profile("dev", **TIMELESS)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# A shell makes what it runs in the background deaf to Ctrl+C, and the programs that tests start and interrupt with it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    config.pluginmanager.register(QuickGate())


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)


@pytest.fixture
def one_thread():
    """For tests of time: two threads on a busy machine wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
