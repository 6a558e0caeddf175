"""Sizes that change from batch to batch."""

from itertools import groupby, pairwise

import pytest

from yolofast.train.families.multi_scale import yolov7_range, yolov7_size, yolox_range, yolox_size


@pytest.mark.slow
@pytest.mark.parametrize(("size", "stride"), [(320, 32), (640, 32), (640, 64), (100, 32)])
def test_yolov7_takes_every_multiple_of_the_stride_from_half_to_one_and_a_half(size, stride):
    sizes = [yolov7_size(size, stride, 0, 1, iteration) for iteration in range(2000)]
    first = int(0.5 * size) // stride * stride
    last = (int(1.5 * size) + stride - 1) // stride * stride
    assert set(sizes) == set(range(max(first, stride), last + 1, stride))
    assert sum(a != b for a, b in pairwise(sizes)) > 500, "a new size for every batch"
    assert yolov7_range(size, stride) == (min(sizes), max(sizes))


@pytest.mark.slow
def test_yolov7_sizes_are_equally_likely():
    sizes = [yolov7_size(640, 32, 3, 0, iteration) for iteration in range(4200)]
    for size in range(320, 992, 32):
        assert 130 < sizes.count(size) < 280, size


@pytest.mark.slow
def test_yolox_changes_every_ten_iterations():
    sizes = [yolox_size(640, 640, 0, 2, iteration) for iteration in range(4000)]
    assert all(length % 10 == 0 for length in (len(list(run)) for _, run in groupby(sizes)))
    heights = {height for height, _ in sizes}
    assert heights == {32 * step for step in range(15, 26)}
    assert all(height == width for height, width in sizes)


def test_yolox_width_follows_the_shape_and_steps_can_be_given():
    sizes = {yolox_size(800, 1440, 0, 0, 10 * i, steps=(14, 20)) for i in range(300)}
    assert sizes == {(32 * step, 32 * int(step * 1440 / 800)) for step in range(14, 21)}
    assert yolox_range(800, 1440, (14, 20)) == (min(sizes), max(sizes))
    assert yolox_range(640, 640) == ((480, 480), (800, 800))


def test_small_inputs_never_vanish():
    assert all(min(yolox_size(96, 64, 0, 0, 10 * i)) >= 32 for i in range(50))


def test_the_same_on_every_rank_and_after_a_resume():
    """Nothing but seed, epoch and iteration goes in, and asking for others in between changes nothing."""
    first = [yolov7_size(640, 32, 5, 7, i) for i in range(20)]
    assert [yolov7_size(640, 32, 5, 7, i) for i in reversed(range(20))] == first[::-1]
    assert [yolov7_size(640, 32, 5, 8, i) for i in range(20)] != first
    assert [yolov7_size(640, 32, 6, 7, i) for i in range(20)] != first
