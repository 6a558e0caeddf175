"""A test that `test_kernels_together` runs in a process of its own."""

import pytest
import torch

from tests.train.gears.test_kernels_together import gpu, images, step_with_kernels  # noqa: F401 - a fixture
from yolofast.train.gears import kernels_together
from yolofast.train.gears.kernels_together import compile_kernels_together


@pytest.mark.slow
def test_a_network_learns_nothing_and_it_is_done_once(gpu, monkeypatch, tmp_path):  # noqa: F811
    step, made = step_with_kernels(monkeypatch), []
    before = [tensor.clone() for tensor in step.tensors()]
    compile_kernels_together(step, images(64), tuned=True)
    assert list((tmp_path / "triton").rglob("norm_act_back_kernel.ptx"))
    monkeypatch.setattr(kernels_together, "forward_and_backward", lambda *given: made.append(1))
    for height, times in ((64, 0), (96, 1), (96, 1)):
        compile_kernels_together(step, images(height), tuned=True)
        assert len(made) == times
    assert len(list((tmp_path / "cache" / "compiled").iterdir())) == 2
    assert all(torch.equal(own, old) for own, old in zip(step.tensors(), before, strict=True))
    assert all(parameter.grad is None for parameter in step.model.parameters())
