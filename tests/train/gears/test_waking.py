"""What is begun before the first step changes nothing, and may fail."""

import importlib
import time
from types import SimpleNamespace

import pytest
import torch

from yolofast.precision import Precision
from yolofast.train.gears import waking

HOST = Precision(torch.device("cpu"), torch.float32)
ON_GPU = Precision(torch.device("cuda"), torch.bfloat16)


def test_the_cpu_needs_nothing():
    assert waking.wake(HOST) == []


def test_failures_are_silent_and_nobody_waits(monkeypatch):
    """Here, without a GPU, the work on it fails."""
    slow = SimpleNamespace(ended=False)

    def name():
        time.sleep(0.2)
        slow.ended = True

    monkeypatch.setattr(waking, "name_kernels", name)
    monkeypatch.setattr(waking, "use_libraries", lambda precision: 1 / 0)
    threads = waking.wake(ON_GPU)
    assert not slow.ended and not any(thread.daemon for thread in threads)
    for thread in threads:
        thread.join()
    assert slow.ended or waking.WHY_NOT_OUR_KERNELS


def test_random_numbers_and_settings_stay():
    before, tuned = torch.get_rng_state(), torch.backends.cudnn.benchmark
    waking.use_libraries(HOST)
    assert torch.equal(torch.get_rng_state(), before) and torch.backends.cudnn.benchmark == tuned


def test_triton_hashes_itself_once():
    cache = pytest.importorskip("triton.runtime.cache")
    if not hasattr(cache, "triton_key"):
        pytest.skip("this Triton has it elsewhere")
    waking._tried(waking.name_kernels)  # without a GPU there is no compiler to name
    before = cache.triton_key.cache_info()
    importlib.import_module("triton.runtime.cache").triton_key()
    after = cache.triton_key.cache_info()
    assert before.currsize == 1 and after.hits == before.hits + 1 and after.misses == before.misses
