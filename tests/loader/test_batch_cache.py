"""Batches that are made once more and then kept; what is seen is the same as if they were made every time."""

import dataclasses

import numpy as np
import pytest
import torch

from tests.loader.small_set import made_up_index, packed, random_sizes
from yolofast.image_index import fitted_size
from yolofast.loader import validation_batches as module
from yolofast.loader.validation_batches import validation_batches


class CountedImages:
    """Says how often images were asked for."""

    def __init__(self, images):
        self._images, self.sizes, self.reads = images, images.sizes, 0

    def image(self, index):
        self.reads += 1
        return self._images.image(index)


@pytest.fixture
def data():
    index = made_up_index(random_sizes(20))
    return index, CountedImages(packed(fitted_size(index.sizes, 64, 64)))


def passes(batches, images, times):
    """What each pass gave, and how many images it had to read."""
    result = []
    for _ in range(times):
        before = images.reads
        result.append((list(batches), images.reads - before))
    return result


def assert_equal(one, other):
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a.images, b.images) and torch.equal(a.targets.boxes, b.targets.boxes)
        assert np.array_equal(a.sources, b.sources) and np.array_equal(a.pad, b.pad) and np.array_equal(a.gain, b.gain)


@pytest.mark.parametrize("rect", [False, True])
def test_the_second_pass_keeps_and_the_third_reads_nothing(data, rect):
    index, images = data
    seen = passes(validation_batches(index, images, 3, 64, 32, rect=rect), images, 4)
    assert [reads for _, reads in seen] == [20, 20, 0, 0]
    for batches, _ in seen[1:]:
        assert_equal(batches, seen[0][0])
    assert seen[0][0][0].images.data_ptr() != seen[1][0][0].images.data_ptr(), "a single pass leaves nothing behind"
    assert seen[1][0][0].images.data_ptr() == seen[2][0][0].images.data_ptr()


def test_who_does_not_want_it_gets_fresh_ones(data):
    index, images = data
    seen = passes(validation_batches(index, images, 3, 64, 32, keep=False), images, 3)
    assert [reads for _, reads in seen] == [20, 20, 20]


def test_what_finds_no_room_is_made_every_time(data, monkeypatch):
    index, images = data
    two_batches = 2 * 3 * 3 * 64 * 64
    monkeypatch.setattr(module, "ram_free", lambda: (two_batches + 5) / module.HOST_SHARE)
    seen = passes(validation_batches(index, images, 3, 64, 32), images, 4)
    assert [reads for _, reads in seen] == [20, 20, 14, 14], "two batches of three fit"
    assert_equal(seen[3][0], seen[0][0])


def test_ranks_share_one_machine(data, monkeypatch):
    index, images = data
    monkeypatch.setattr(module, "ram_free", lambda: 4 * 3 * 3 * 64 * 64 / module.HOST_SHARE)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert [reads for _, reads in passes(validation_batches(index, images, 3, 64, 32), images, 3)] == [
        20,
        20,
        17,
    ]


def test_a_part_of_the_batches_is_kept_across_the_parts_made_for_each_epoch(data):
    """As ranks take theirs, anew every time."""
    index, images = data
    whole = validation_batches(index, images, 3, 64, 32, rect=True)
    reads = []
    for _ in range(3):
        part = dataclasses.replace(whole, parts=whole.parts[1::2], shapes=whole.shapes[1::2])
        ((batches, count),) = passes(part, images, 1)
        reads.append(count)
    own = sum(map(len, whole.parts[1::2]))
    assert reads == [own, own, 0]
    ((all_batches, count),) = passes(whole, images, 1)
    assert count == 20 - own
    assert_equal(all_batches[1::2], batches)


def test_a_look_at_the_first_batch_counts_for_that_one_alone(data):
    index, images = data
    batches = validation_batches(index, images, 3, 64, 32)
    for _ in range(2):
        next(iter(batches))
    before = images.reads
    list(batches)
    assert images.reads - before == 17
