"""Badly learnt and rare classes are drawn more often."""

import numpy as np
import pytest

from tests.augment.made_up import make_index
from yolofast.loader.order import EpochOrder
from yolofast.train.data import ImageWeighting

BOX = (0.5, 0.5, 0.2, 0.2)


class Metrics:
    def __init__(self, *maps):
        self.maps = np.array(maps)

    def map_per_class(self, nc):
        assert nc == len(self.maps)
        return self.maps


def share_of(weighting, image, images=4):
    order = weighting.weighted(EpochOrder(images, seed=1, shuffle=True, batch_size=images))
    # Many small epochs: each position is a draw of its own.
    drawn = np.concatenate([batch.images for epoch in range(2000) for batch in order.batches(epoch)])
    return (drawn == image).mean()


@pytest.mark.slow
def test_shares_follow_rarity_and_what_is_learnt():
    # Three boxes of class 0, one of class 1, and an image without any.
    weighting = ImageWeighting(make_index([(64, 64)] * 4, [[BOX], [BOX, BOX], [BOX], []], labels=[0, 0, 0, 1]))
    # Classes weigh 1/4 and 3/4; images 1/4, 2/4, 3/4 and 0.
    assert [share_of(weighting, i) for i in range(4)] == pytest.approx([1 / 6, 2 / 6, 3 / 6, 0], abs=0.02)
    weighting.learn(Metrics(0.0, 0.5))  # half learnt counts a quarter: 1/4, 2/4, 3/16
    assert [share_of(weighting, i) for i in range(4)] == pytest.approx([4 / 15, 8 / 15, 3 / 15, 0], abs=0.02)


@pytest.mark.slow
def test_all_learnt_or_nothing_to_learn_is_uniform():
    weighting = ImageWeighting(make_index([(64, 64)] * 4, [[BOX]] * 4, labels=[0, 1, 0, 1]))
    weighting.learn(Metrics(1.0, 1.0))
    assert share_of(weighting, 2) == pytest.approx(0.25, abs=0.02)
