import dataclasses

import numpy as np
import pytest

from tests.loader.small_set import made_up_index, packed, random_sizes
from yolofast.errors import UserError
from yolofast.image_index import fitted_size
from yolofast.loader import validation_batches as module
from yolofast.loader.validation_batches import validation_batches
from yolofast.structures import InputConvention

YOLOX = InputConvention(rgb=False, divisor=1.0, top_left=True, whole=True)
SIZES = np.array([[200, 100], [100, 100], [100, 200], [180, 90], [60, 30], [50, 101], [333, 111]])


def data_set(sizes=SIZES, size=64):
    index = made_up_index(sizes)
    return index, packed(fitted_size(index.sizes, size, size))


def pixels_of(images, source):
    return images.image(int(source)).transpose(2, 0, 1)


def test_square_batches_hold_every_image_once_padded_on_both_sides():
    index, images = data_set()
    batches = list(validation_batches(index, images, 3, 64, 32))
    assert [tuple(b.images.shape) for b in batches] == [(3, 3, 64, 64), (3, 3, 64, 64), (1, 3, 64, 64)]
    assert np.concatenate([b.sources for b in batches]).tolist() == list(range(7))
    wide = batches[0].images[0].numpy()  # 64 × 32 as stored
    assert np.array_equal(wide[:, 16:48], pixels_of(images, 0)[::-1])
    assert (wide[:, :16] == 114).all() and (wide[:, 48:] == 114).all()


def test_an_odd_pixel_of_padding_goes_behind():
    """50 × 101 is stored as 31 × 64; of the 33 columns of padding 16 are on the left."""
    index, images = data_set()
    batch = list(validation_batches(index, images, 3, 64, 32))[1]
    assert batch.pad[2].tolist() == [16, 0]
    assert np.array_equal(batch.images[2, :, :, 16:47].numpy(), pixels_of(images, 5)[::-1])


def test_yolox_pads_behind_and_takes_blue_first():
    index, images = data_set()
    batch = next(iter(validation_batches(index, images, 3, 64, 32, rect=True, inputs=YOLOX)))
    assert batch.images.shape == (3, 3, 64, 64), "no rectangles"
    assert np.array_equal(batch.images[0, :, :32].numpy(), pixels_of(images, 0))
    assert (batch.images[0, :, 32:] == 114).all()
    assert not batch.pad.any()


def test_rectangular_batches_by_hand():
    """By height / width: 333×111, 200×100 | 180×90, 60×30 | 100×100, 100×200 | 50×101. With stride 16 the first batch
    needs 64·½/16 + ½ -> 3 rows of strides and 64/16 + ½ -> 5 columns."""
    index, images = data_set()
    batches = list(validation_batches(index, images, 2, 64, 16, rect=True))
    assert [b.sources.tolist() for b in batches] == [[6, 0], [3, 4], [1, 2], [5]]
    assert [tuple(b.images.shape[2:]) for b in batches] == [(48, 80), (48, 80), (80, 80), (80, 48)]
    wide = batches[0].images[1].numpy()
    assert np.array_equal(wide[:, 8:40, 8:72], pixels_of(images, 0)[::-1])
    assert batches[0].pad[1].tolist() == [8, 8]


@pytest.mark.parametrize("options", [{}, {"rect": True}, {"inputs": YOLOX}])
def test_boxes_map_back_to_the_original_image(options):
    index, images = data_set(random_sizes(30))
    seen = 0
    for batch in validation_batches(index, images, 4, 64, 32, **options):
        height, width = batch.images.shape[2:]
        for b, source in enumerate(batch.sources):
            own = batch.targets.boxes[b][batch.targets.valid[b]].numpy().astype(np.float64)
            centre = (own[:, :2] * (width, height) - batch.pad[b]) / batch.gain[b]
            sides = own[:, 2:] * (width, height) / batch.gain[b]
            expected = index.boxes[index.boxes_of(source)] * np.tile(index.sizes[source], 2)
            assert np.allclose(np.concatenate((centre, sides), axis=1), expected, atol=1e-3)
            assert batch.targets.labels[b][batch.targets.valid[b]].tolist() == list(
                index.labels[index.boxes_of(source)]
            )
            seen += len(own)
    assert seen == 90


def test_crowds_are_no_targets():
    index, images = data_set()
    crowd = index.crowd.copy()
    crowd[index.boxes_of(0).start] = True
    batch = next(iter(validation_batches(dataclasses.replace(index, crowd=crowd), images, 2, 64, 32)))
    assert batch.targets.valid.sum(1).tolist() == [2, 3]


def test_images_without_boxes():
    index = made_up_index(SIZES, boxes_per_image=0)
    batch = next(iter(validation_batches(index, packed(fitted_size(SIZES, 64, 64)), 2, 64, 32)))
    assert not batch.targets.valid.any()


def test_the_number_of_threads_changes_nothing_and_batches_may_be_taken_again(monkeypatch):
    monkeypatch.setattr(module, "usable_cores", lambda: 5)
    index, images = data_set(random_sizes(30))
    one, many = (validation_batches(index, images, 4, 64, 32, rect=True, threads=n) for n in (1, 5))
    for _ in range(2):
        for a, b in zip(one, many, strict=True):
            assert np.array_equal(a.images, b.images) and np.array_equal(a.targets.boxes, b.targets.boxes)


def test_ranks_share_the_batches():
    index, images = data_set()
    parts = [list(validation_batches(index, images, 2, 64, 16, rect=True, rank=r, world=2)) for r in range(2)]
    assert [[b.sources.tolist() for b in part] for part in parts] == [[[6, 0], [1, 2]], [[3, 4], [5]]]
    assert parts[1][1].images.shape[2:] == (80, 48)


def test_images_stored_too_large_are_refused():
    index, images = data_set()
    with pytest.raises(UserError, match="do not fit a batch of 48×48"):
        validation_batches(index, images, 2, 48, 16)


def test_rectangles_have_one_size():
    index, images = data_set()
    with pytest.raises(UserError, match="long side"):
        validation_batches(index, images, 2, (64, 32), 16, rect=True)


def test_an_unreadable_image_is_an_error():
    class Missing:
        sizes = fitted_size(SIZES, 64, 64)

        def image(self, index):
            raise UserError("cannot be read", where=f"{index}.jpg")

    with pytest.raises(UserError, match="cannot be read"):
        list(validation_batches(made_up_index(SIZES), Missing(), 2, 64, 32))
