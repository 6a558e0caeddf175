"""Devices by name: what cannot be used is said with the reason. Cards without bfloat16, machines without Triton."""

import dataclasses
import subprocess
import sys

import pytest
import torch

from tests.train.small_step import SquaredLevels, small_batch, small_step
from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.precision import Precision, device_of, usable_device
from yolofast.train.step import StepKind, TrainStep

REASON = "Apple's GPUs are not supported, they have no float64, in which counts and means are kept"


def test_apples_gpus_are_refused_with_the_reason(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--data", "shapes", "--device", "mps"]) == 2
    said = capsys.readouterr().err
    assert f"--device is mps: {REASON}" in said and "fix: --device cpu" in said
    assert not list(tmp_path.iterdir())
    for device in ("mps", torch.device("mps")):
        with pytest.raises(UserError, match=f"the device is mps: {REASON}"):
            usable_device(device)


def test_without_a_name_nobody_is_refused(monkeypatch):
    """On a Mac as anywhere: what is not asked for is not told."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("") == device_of("cpu") == torch.device("cpu")


@pytest.mark.parametrize(("supported", "expected"), [(True, torch.bfloat16), (False, torch.float16)])
def test_float16_where_a_gpu_has_no_bfloat16(monkeypatch, supported, expected):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: supported or including_emulation)
    assert Precision.choose("auto", "cuda").dtype is expected


class VerySmall(SquaredLevels):
    """In float32, as losses are; of what is computed in float16 the gradients are near zero."""

    def __call__(self, raw, targets):
        terms = super().__call__([level.float() for level in raw], targets)
        return dataclasses.replace(terms, total=terms.total * 1e-7)


def gradients(dtype, scale=None):
    """Of one step on the CPU, as a GPU of that type computes it."""
    made = small_step(VerySmall())
    step = TrainStep(made.model, made.criterion, made.optimizer, made.ema, Precision(torch.device("cpu"), dtype))
    if scale is not None:
        step.loss_scale.scale.fill_(scale)
    found, move = [], step.optimizer.step

    def moved():
        found.extend(parameter.grad.clone() for parameter in step.model.parameters())
        move()

    step.optimizer.step = moved
    batch = small_batch(0)
    step.run(batch.images, batch.targets, StepKind(sums=False, updates=True))
    return found, step


def test_a_scaled_loss_keeps_gradients_that_float16_would_lose():
    exact, _ = gradients(torch.float32)
    scaled, step = gradients(torch.float16)
    lost, _ = gradients(torch.float16, scale=1.0)
    assert step.loss_scale.active and step.loss_scale.scale == step.loss_scale.START
    weight = exact[0]
    assert (scaled[0] - weight).norm() < 0.02 * weight.norm()
    assert (lost[0] - weight).norm() > 0.2 * weight.norm(), "the scale would not be needed"


def test_a_step_that_overflows_leaves_the_weights():
    found, step = gradients(torch.float16, scale=2.0**24 * 1e7)
    assert not any(gradient.any() for gradient in found)
    before = small_step(VerySmall()).model
    assert all(torch.equal(*pair) for pair in zip(step.model.parameters(), before.parameters(), strict=True))
    assert step.loss_scale.scale < 2.0**24 * 1e7 and step.losses.bad_steps == 0


WITHOUT_TRITON = """
import importlib, pkgutil, sys
sys.modules["triton"] = None
import torch, yolofast
for module in pkgutil.walk_packages(yolofast.__path__, "yolofast."):
    name = module.name.rpartition(".")[2]
    if name != "__main__" and not (name.startswith("_") and name.endswith("_kernel")):
        importlib.import_module(module.name)
from yolofast import precision
class OnGpu(torch.Tensor):
    is_cuda = True
assert not precision.kernels_for(torch.zeros(1).as_subclass(OnGpu))
print(precision.WHY_NOT_OUR_KERNELS)
"""


@pytest.mark.slow
def test_without_triton_everything_is_there_but_the_kernels():
    ended = subprocess.run([sys.executable, "-c", WITHOUT_TRITON], stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 0 and ended.stdout.splitlines()[-1] == "ours need Triton: pip install triton"
