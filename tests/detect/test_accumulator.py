"""Counts of several processes give the numbers of one, to the last bit."""

import pickle

import numpy as np
import pytest

from tests.loader.small_set import made_up_index, random_sizes
from yolofast.detect.accumulator import MetricAccumulator
from yolofast.structures import Detections


@pytest.fixture(scope="module")
def index():
    return made_up_index(random_sizes(40), boxes_per_image=5)


def found_on(index, place):
    """True boxes moved a little, and others; scores so coarse that many are equal."""
    random = np.random.default_rng(place)
    own = index.boxes_of(place)
    boxes = np.repeat(index.boxes[own] * np.tile(index.sizes[place], 2), 4, axis=0)
    boxes += random.normal(0, 4, boxes.shape)
    corners = np.concatenate((boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2), axis=1)
    scores = np.sort(random.integers(1, 5, len(boxes)) / 5)[::-1].astype(np.float32)
    labels = np.where(random.random(len(boxes)) < 0.7, np.repeat(index.labels[own], 4), 0)
    return Detections(corners.astype(np.float32), scores, labels)


def filled(index, batches):
    metrics = MetricAccumulator(len(index.names), keep=True)
    for batch in batches:
        metrics.add(index, np.array(batch), [found_on(index, place) for place in batch])
        metrics.add_losses([{"box": 0.1 * batch[0], "obj": 0.7, "cls": 1e-9 * batch[-1]}])
    return metrics


def test_the_order_and_the_number_of_processes_change_nothing(index):
    order = np.random.default_rng(0).permutation(40)
    batches = order.reshape(8, 5).tolist()
    alone = filled(index, batches).result()
    joined = filled(index, batches[1::3])
    for part in (batches[2::3], batches[0::3]):
        joined.merge(pickle.loads(pickle.dumps(filled(index, part))))
    together = joined.result()
    assert 0.05 < alone.metrics.map < 0.95 and alone.losses["box"] > 0
    assert np.array_equal(alone.metrics.ap, together.metrics.ap)
    assert np.array_equal(alone.metrics.curves.f1, together.metrics.curves.f1)
    assert np.array_equal(alone.confusion.counts, together.confusion.counts)
    assert alone.losses == together.losses and alone.metrics.images == together.metrics.images == 40
    assert [place for place, _ in together.found] == list(range(40))


def test_nothing_is_kept_and_no_loss_is_known_unless_asked_for(index):
    metrics = MetricAccumulator(len(index.names))
    metrics.add(index, np.array([3]), [found_on(index, 3)])
    result = metrics.result()
    assert result.found == () and result.losses == {} and result.metrics.images == 1
