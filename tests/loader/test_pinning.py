"""Pinned memory needs a GPU to be pinned for."""

import pytest
import torch

from tests.loader.small_set import made_up_loader

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"workers": 2, "fast": True}], ids=["here", "plain", "fast"])
def test_batches_are_pinned_and_arrive_on_the_gpu(options):
    torch.zeros(1, device="cuda")  # workers are forked from a process that uses CUDA
    expected = [batch.images.clone() for batch in made_up_loader(pin_memory=False).epoch(1)]
    with made_up_loader(**options) as loader:
        for epoch in (0, 1):
            arrived = []
            for batch in loader.epoch(epoch):
                assert batch.images.is_pinned()
                arrived.append(batch.images.to("cuda", non_blocking=True))
                torch.cuda.synchronize()
    assert len(arrived) == len(expected)
    assert all(torch.equal(there.cpu(), here) for there, here in zip(arrived, expected, strict=True))


@pytest.mark.slow
def test_memory_can_be_pinned_again_and_again():
    for _ in range(3):
        with made_up_loader(workers=1, fast=True) as loader:
            assert next(loader.epoch(0)).images.is_pinned()
