"""Empty places behind the boxes of a batch."""

import torch

from tests.train.small_step import small_batch
from yolofast.train.gears.gears import empty_targets, padding_slots_of, smallest_that_holds, with_padding_slots


def test_boxes_stay_and_the_places_behind_them_are_empty():
    batch = small_batch(0)
    more = with_padding_slots(batch, 8)
    assert padding_slots_of(batch) == 3 and padding_slots_of(more) == 8
    assert torch.equal(more.targets.boxes[:, :3], batch.targets.boxes)
    assert torch.equal(more.targets.labels[:, :3], batch.targets.labels)
    assert more.targets.valid[:, :3].all() and not more.targets.valid[:, 3:].any()
    assert more.targets.labels.dtype == torch.int64 and more.targets.valid.dtype == torch.bool
    assert more.images is batch.images


def test_a_batch_that_has_as_many_stays_as_it_is():
    batch = small_batch(0)
    assert with_padding_slots(batch, 3) is batch and with_padding_slots(batch, 2) is batch


def test_empty_targets_are_like_those_of_batches():
    empty, own = empty_targets(2, 3, "cpu"), small_batch(0).targets
    for one, other in ((empty.boxes, own.boxes), (empty.labels, own.labels), (empty.valid, own.valid)):
        assert one.shape == other.shape and one.dtype == other.dtype and one.stride() == other.stride()
    assert not empty.valid.any()


def test_the_smallest_that_holds_them():
    assert smallest_that_holds(17, (16, 32, 64)) == 32
    assert smallest_that_holds(65, (16, 32, 64)) is None
