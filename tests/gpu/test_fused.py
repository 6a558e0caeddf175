"""The kernels of `yolofast/fused`, OTA and loss on a GPU, in bfloat16 too, and a step made of them."""

from contextlib import nullcontext

import pytest
import torch

from tests.fused import comparisons, joint_comparisons
from tests.loss import fused_comparisons
from tests.optim import update_comparisons
from yolofast import build_model
from yolofast.precision import without_kernels


def test_the_blocks_compute_what_plain_torch_computes():
    comparisons.compare_all("cuda")


@pytest.mark.parametrize("shape", [(64, 32, 160, 160), (16, 512, 10, 10), (3, 255, 7, 9), (1, 24, 5, 5)])
def test_normalisation_in_bfloat16(shape):
    comparisons.compare_norm_act("cuda", torch.bfloat16, 1e-2, [shape])


def test_the_first_convolution_in_bfloat16():
    comparisons.compare_stem("cuda", torch.bfloat16, 1e-2)


def test_ota_and_its_loss_are_those_as_written():
    fused_comparisons.compare_all("cuda", [(faithful, seed) for faithful in (True, False) for seed in range(12)])


def test_an_update_in_one_kernel_is_that_of_the_operations_one_by_one():
    update_comparisons.compare_all("cuda")


def test_joint_maps_forks_and_siblings(monkeypatch):
    for backend in (torch.backends.cudnn, torch.backends.cuda.matmul):
        monkeypatch.setattr(backend, "allow_tf32", False)
    joint_comparisons.compare_all("cuda")


@pytest.mark.parametrize("cfg", ["yolov7-tiny", "yolov7", "yolox-s"])
def test_a_network_in_bfloat16_rounds_as_much_as_plain_torch(cfg, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    joint_comparisons.compare_rounding("cuda", cfg, 128, batch=16)


@pytest.mark.parametrize("cfg", ["yolov7-tiny", "yolov7", "yolox-s"])
def test_a_step_in_place_needs_no_more_memory(cfg):
    """A tenth more at most, next to torch's own, which keeps joined maps and their parts."""
    peaks = []
    model = build_model(cfg).train().cuda().to(memory_format=torch.channels_last)
    images = torch.rand(16, 3, 320, 320, device="cuda").contiguous(memory_format=torch.channels_last)
    for kernels in (nullcontext, without_kernels):
        model.zero_grad()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with kernels(), torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            sum(one.float().square().sum() for one in model(images)).backward()
        peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[0] < 1.1 * peaks[1], peaks
