"""The kernels of `yolofast/fused`, OTA and loss on a GPU, in bfloat16 too, and a step made of them."""

import pytest
import torch

from tests.fused import comparisons
from tests.loss import fused_comparisons
from tests.optim import update_comparisons


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
