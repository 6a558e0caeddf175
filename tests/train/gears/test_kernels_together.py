"""Kernels are compiled for a GPU that is not there: all of them, in threads. None is launched, and nothing learnt."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from tests.programs import ROOT
from tests.train.small_run import NETWORK
from tests.train.small_step import small_step
from yolofast import build_loss, build_model
from yolofast.fused import norm_act
from yolofast.optim.optimizer import ModelEma, parameter_groups
from yolofast.optim.sgd import Sgd
from yolofast.precision import Precision
from yolofast.train.gears import kernels_together
from yolofast.train.gears.kernels_together import compile_kernels_together, launching_nothing
from yolofast.train.step import TrainStep

triton = pytest.importorskip("triton")
pytest.importorskip("triton.runtime._async_compile")
language = triton.language
ALONE = Path(__file__).with_name("whole_network_together.py")


class Driver:
    """Of a GPU as far as compiling needs one."""

    def get_current_target(self):
        return triton.backends.compiler.GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    driver = triton.runtime.driver
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(type(driver), "active", property(lambda config: Driver()))


@triton.jit
def doubled(x, n, BLOCK: language.constexpr):
    at = language.arange(0, BLOCK)
    language.store(x + at, language.load(x + at, at < n) * 2, at < n)


@pytest.mark.slow
def test_all_are_compiled_and_none_is_launched(gpu):
    x = torch.ones(64)
    run = type(doubled).run
    with launching_nothing():
        for block in (32, 64, 64, 32):
            doubled[(1,)](x, 64, BLOCK=block)
        assert type(doubled).run is not run
    assert (x == 1).all()
    kept = doubled.device_caches[0][0]
    assert len(kept) == 2 and all(hasattr(kernel, "asm") for kernel in kept.values())
    assert type(doubled).run is run


def test_threads_with_work_of_their_own_launch_their_kernels(gpu, monkeypatch):
    launched = []
    monkeypatch.setattr(type(doubled), "run", lambda kernel, *given, warmup, **named: launched.append(warmup))
    with launching_nothing():
        doubled[(1,)](torch.ones(64), 64, BLOCK=32)
        thread = threading.Thread(target=lambda: doubled[(1,)](torch.ones(64), 64, BLOCK=32))
        thread.start()
        thread.join()
    assert launched == [True, False]


def test_a_kernel_that_is_tuned_by_trying_ends_it(gpu):
    tuned = triton.autotune(configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])(doubled)
    run = triton.runtime.autotuner.Autotuner.run
    with pytest.raises(NotImplementedError), launching_nothing():
        tuned[(1,)](torch.ones(64), 64)
    assert triton.runtime.autotuner.Autotuner.run is run


def test_steps_that_use_no_kernels_need_nothing(monkeypatch):
    monkeypatch.setattr(kernels_together, "launching_nothing", pytest.fail)
    compile_kernels_together(small_step(), torch.zeros(2, 3, 32, 32), tuned=True)


def images(height):
    return torch.zeros(2, 3, height, 64).contiguous(memory_format=torch.channels_last)


def step_with_kernels(monkeypatch):
    """The host's memory stands for that of a GPU; kernels get it, and are not launched."""
    torch.manual_seed(0)
    model = build_model(str(NETWORK), nc=2).to(memory_format=torch.channels_last).train()
    hyp = {"box": 0.05, "obj": 1.0, "cls": 0.5}
    criterion = build_loss(model, hyp, 64, "anchor")
    precision = Precision(torch.device("cpu"), torch.float32)
    step = TrainStep(model, criterion, Sgd(parameter_groups(model, 0.0)), ModelEma(model), precision)
    monkeypatch.setattr(TrainStep, "uses_kernels", True)
    step._low = step.model
    monkeypatch.setattr(norm_act, "_programs", lambda device: 528)
    for module in [one for name, one in sys.modules.items() if name.startswith("yolofast.") and one is not None]:
        if hasattr(module, "kernels_for"):
            monkeypatch.setattr(module, "kernels_for", lambda tensor: True)
    return step


@pytest.mark.slow
def test_a_network_learns_nothing_and_it_is_done_once():
    """In a process of its own: what other tests have compiled or patched is not there."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", str(ALONE)]
    done = subprocess.run(command, cwd=ROOT, env=alone, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout


def test_what_fails_is_silent_and_tried_again(monkeypatch, gpu, tmp_path):
    step = step_with_kernels(monkeypatch)
    monkeypatch.setattr(kernels_together, "forward_and_backward", lambda *given: 1 / 0)
    compile_kernels_together(step, images(64), tuned=True)
    assert not (tmp_path / "cache").exists()
