"""How many mosaics and mixups a batch holds travels with it, whichever way it is made."""

import pytest

from tests.loader.small_set import in_workers, made_up_index, made_up_loader, made_up_maker, packed, random_sizes
from yolofast.augment.planner import Planner
from yolofast.image_index import fitted_size
from yolofast.loader.device_loader import DeviceLoader
from yolofast.loader.device_pixels import device_pixels
from yolofast.loader.order import EpochOrder
from yolofast.structures import BatchMix


def expected(epoch):
    """By what the plans show: several tiles, or a weight below 1 for the first view."""
    mixes = []
    for part in EpochOrder(20, seed=5, shuffle=True, batch_size=8).batches(epoch):
        plan = made_up_maker().planner.plan(part.images, part.positions, epoch).plan
        mosaics = [(tiles >= 0).sum() > 1 for tiles in plan.source_BVT[:, 0]]
        mixes.append(BatchMix(sum(mosaics) / len(plan), float((plan.blend_B < 1).mean())))
    return mixes


@pytest.mark.parametrize(
    "options", [{}, in_workers(workers=2), in_workers(workers=1, worker_tensor=True)], ids=["here", "workers", "ring"]
)
def test_made_by_processes(options):
    with made_up_loader(**options) as loader:
        assert [batch.mix for batch in loader.epoch(1)] == expected(1)
    assert 0 < expected(1)[0].mosaic < 1


def test_made_on_the_device():
    index = made_up_index(random_sizes(20))
    stored = fitted_size(index.sizes, 64, 64)
    planner = Planner(index, stored, made_up_maker().planner.recipe, 64, 64, seed=5)
    order = EpochOrder(20, seed=5, shuffle=True, batch_size=8)
    loader = DeviceLoader(planner, device_pixels(packed(stored), "cpu", 1), order, "cpu")
    assert [batch.mix for batch in loader.epoch(1)] == expected(1)


def test_none_when_mosaic_is_closed():
    loader = made_up_loader(close_mosaic_from=1)
    assert {batch.mix for batch in loader.epoch(1)} == {BatchMix(0.0, 0.0)}
