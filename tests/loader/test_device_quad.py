"""Four images joined on the device are the four the CPU path joins."""

import numpy as np
import pytest
import torch

from tests.augment.made_up import RECIPES, planner_for, random_set
from yolofast.loader.batch_maker import BatchMaker
from yolofast.loader.device_loader import DeviceLoader, InputFormat
from yolofast.loader.device_pixels import ResidentPixels
from yolofast.loader.order import EpochOrder
from yolofast.loader.quad import QuadOnDevice
from yolofast.loader.workers import WorkerLoader


@pytest.fixture(scope="module")
def both():
    index, images = random_set(1, 30)
    planner = planner_for(RECIPES["nothing"], index, images, seed=5)
    order = EpochOrder(30, seed=3, shuffle=True, batch_size=8, multiple=4)
    device = QuadOnDevice(DeviceLoader(planner, ResidentPixels(images), order, "cpu", InputFormat(gain=1)))
    return device, WorkerLoader(BatchMaker(planner, images, quad=True), order)


@pytest.mark.slow
def test_the_same_as_by_workers(both):
    device, workers = both
    assert len(device) == len(workers) == 4
    for epoch in (0, 1):
        pairs = list(zip(device.epoch(epoch), workers.epoch(epoch), strict=True))
        assert len(pairs) == 4
        for ours, theirs in pairs:
            assert np.array_equal(ours.sources, theirs.sources)
            assert ours.images.shape == theirs.images.shape
            # Enlarged levels are rounded by OpenCV and not here.
            assert (ours.images - theirs.images.float()).abs().max() <= 1
            for b in range(len(ours.images)):
                own, other = ours.targets.valid[b], theirs.targets.valid[b]
                assert torch.equal(ours.targets.labels[b][own], theirs.targets.labels[b][other])
                torch.testing.assert_close(ours.targets.boxes[b][own], theirs.targets.boxes[b][other])


def test_an_epoch_can_start_at_any_batch(both):
    whole = [batch.images.clone() for batch in both[0].epoch(3)]
    rest = [batch.images.clone() for batch in both[0].epoch(3, 2)]
    assert all(torch.equal(a, b) for a, b in zip(whole[2:], rest, strict=True))
