"""The order and the shapes of batches that a run's settings ask for."""

import numpy as np
import pytest

from tests.loader.small_set import made_up_index, random_sizes
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.train.data import training_order
from yolofast.train.families.yolov7 import warm_up_starts

INDEX = made_up_index(random_sizes(30))


def arranged(index=INDEX, **settings):
    return training_order(TrainConfig(**{"batch_size": 8, "img_size": (64,), **settings}), index, 32)


def images_of(order, epoch):
    return [list(batch.images) for batch in order.batches(epoch)]


def test_shuffled_unless_faithful():
    assert images_of(arranged(faithful=True).order, 5)[0] == list(range(8))
    assert images_of(arranged().order, 5)[0] != list(range(8))
    assert arranged().shapes is None


@pytest.mark.parametrize("faithful", [True, False])
def test_rectangles_hold_their_images(faithful):
    found = arranged(rect=True, faithful=faithful)
    assert len(found.shapes) == len(found.order) == 4
    fitted = INDEX.sizes * 64 / INDEX.sizes.max(axis=1, keepdims=True)
    for batch in found.order.batches(1):
        height, width = found.shapes[batch.block]
        assert (fitted[batch.images] <= (width, height)).all() and height % 32 == width % 32 == 0
    assert (images_of(found.order, 0) == images_of(found.order, 1)) == faithful
    assert sorted(np.concatenate(images_of(found.order, 0))) == list(range(30))


def test_quad_keeps_groups_of_four():
    sizes = [len(images) for images in images_of(arranged(quad=True).order, 0)]
    assert sizes == [8, 8, 8, 4], "two images make no group"


def test_a_data_set_smaller_than_a_batch_is_one_batch():
    few = made_up_index(random_sizes(6))
    assert [len(images) for images in images_of(arranged(few).order, 0)] == [6]
    assert [len(images) for images in images_of(arranged(few, quad=True).order, 0)] == [4]
    with pytest.raises(UserError, match="3 images do not make a single batch"):
        arranged(made_up_index(random_sizes(3)), quad=True)


def test_what_a_warm_up_starts_from():
    hyp = {"momentum": 0.937, "warmup_momentum": 0.8, "warmup_bias_lr": 0.1}
    assert warm_up_starts(hyp, "sgd", faithful=True) == warm_up_starts(hyp, "sgd", faithful=False) == (0.8, 0.1)
    assert warm_up_starts(hyp, "adam", faithful=True) == (0.937, 0.1)
    assert warm_up_starts(hyp, "adamw", faithful=False) == (0.8, 0.0)
