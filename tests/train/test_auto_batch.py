"""The batch that is found fits what is measured, wherever the limit lies."""

import pytest
import torch

from yolofast.train.fitting_batch import largest_batch

MB = 2**20


class Device:
    """A machine whose steps take `model` bytes, and `image` for every image; it remembers what it was asked."""

    def __init__(self, total, model=1000 * MB, image=100 * MB, bump=0):
        self.total, self.model, self.image, self.bump, self.tried = total, model, image, bump, []

    def memory_of(self, batch):
        self.tried.append(batch)
        taken = self.model + self.image * batch + (self.bump if batch > 32 else 0)
        if taken > self.total:
            raise torch.OutOfMemoryError
        return taken


def test_a_multiple_of_8_just_below_the_limit():
    device = Device(total=20_000 * MB)
    # 85 % are 17,000 MB: 160 images.
    assert largest_batch(device.memory_of, device.total) == 160
    assert len(device.tried) < 10


def test_what_other_programs_hold_is_not_available():
    device = Device(total=20_000 * MB)
    assert largest_batch(device.memory_of, 10_000 * MB) == 72


def test_a_line_that_is_not_straight_is_found_out():
    """The batch itself is measured: a jump in memory above 32 images makes it smaller, not wrong."""
    device = Device(total=8_000 * MB, bump=3_000 * MB)
    found = largest_batch(device.memory_of, device.total)
    assert found % 8 == 0 and device.memory_of(found) <= 0.85 * device.total


@pytest.mark.parametrize(("total", "expected"), [(2_000, 7), (1_600, 3), (1_320, 1), (1_200, None), (500, None)])
def test_below_8_any_number_will_do(total, expected):
    device = Device(total=total * MB)
    assert largest_batch(device.memory_of, device.total) == expected


@pytest.mark.parametrize(("multiple", "total", "expected"), [(4, 2_000, 4), (12, 20_000, 144), (4, 1_500, None)])
def test_multiples_the_run_needs(multiple, total, expected):
    """`--quad` joins four images, each of several GPUs takes its part."""
    device = Device(total=total * MB)
    assert largest_batch(device.memory_of, device.total, multiple=multiple) == expected


def test_no_more_images_than_there_are():
    device = Device(total=20_000 * MB)
    assert largest_batch(device.memory_of, device.total, most=50) == 48
    assert largest_batch(device.memory_of, device.total, most=3) == 3
    assert max(device.tried) <= 50


def test_after_a_batch_that_failed_a_smaller_one():
    device = Device(total=5_000 * MB)
    found = largest_batch(device.memory_of, device.total, most=63)
    assert found == 32 and device.memory_of(found) <= 0.85 * device.total
