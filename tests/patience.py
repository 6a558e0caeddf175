"""Waiting for what must come. On a busy machine that takes long: only a test that fails waits as long as this."""

import time

PATIENCE = 600.0  # seconds


def wait_until(condition, process=None):
    """Until it holds; a `process` that ends before, or too long a wait, is a failure."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process is None or process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)
