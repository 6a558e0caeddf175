"""Looking at the losses of a running epoch, and keeping its batches for pictures, never waits for the GPU."""

import numpy as np
import pytest
import torch

from yolofast.structures import Batch, LossTerms, Targets
from yolofast.train.display import LateLosses
from yolofast.train.run_pictures import copy_of_first
from yolofast.train.step import RunningLosses


@pytest.fixture
def no_waiting():
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def test_losses_arrive_without_waiting(no_waiting):
    running = RunningLosses(torch.device("cuda"), ("box", "obj", "cls"))
    late = LateLosses(running)
    part = torch.ones((), device="cuda")
    running.add(LossTerms(part * 8, {"box": part, "obj": part * 2, "cls": part * 3}, times_images=True), 8)
    torch.cuda._sleep(200_000_000)  # the GPU is busy: the copy waits in its queue
    assert late.look() == {} and late.look() == {}
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    assert late.look() == {"box": 1, "obj": 2, "cls": 3, "total": 1}


def test_batches_are_kept_without_waiting(no_waiting):
    images = torch.full((4, 3, 8, 8), 0.5, device="cuda", dtype=torch.bfloat16)
    places = torch.zeros(4, 16, device="cuda")
    batch = Batch(images, Targets(places[..., None].expand(-1, -1, 4), places.long(), places.bool()), np.arange(4))
    copy = copy_of_first(batch, 2)
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    assert copy.images.device.type == "cpu" and torch.equal(copy.images, images[:2].cpu())
