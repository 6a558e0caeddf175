"""The loop of an evaluation, on a network small enough for any test."""

import dataclasses

import numpy as np
import pytest
import torch

from tests.loader.small_set import made_up_index, packed, random_sizes
from tests.model.small import SMALL
from yolofast import build_model, decode
from yolofast.detect.evaluation import LateComparison, accumulate_metrics, in_original
from yolofast.evaluate.matching import ground_truth
from yolofast.evaluate.nms import Thresholds, non_max_suppression
from yolofast.evaluate.v7_metrics import V7Metrics
from yolofast.image_index import fitted_size
from yolofast.loader.validation_batches import BatchCache, validation_batches
from yolofast.precision import Precision
from yolofast.structures import Detections

CPU = Precision(torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def subject():
    torch.manual_seed(0)
    model = build_model(SMALL, nc=4)
    index = made_up_index(random_sizes(14))
    images = packed(fitted_size(index.sizes, 64, 64))
    return model, index, validation_batches(index, images, 4, 64, 16, rect=True)


@pytest.mark.slow
def test_it_equals_the_steps_done_one_by_one(subject):
    model, index, batches = subject
    plain = V7Metrics()
    model.eval()
    for batch in batches:
        with torch.no_grad():
            predictions = decode(model(batch.images.float() / 255), model)
        found = non_max_suppression(predictions, 0.001, 0.65, multi_label=True)
        plain.add(in_original(found, batch, index), ground_truth(index, batch.sources), batch.sources)
    model.train()
    result = accumulate_metrics(model, batches, index, CPU).result()
    assert model.training  # as it was
    assert np.array_equal(result.metrics.ap, plain.result().ap)
    assert np.array_equal(result.metrics.curves.recall, plain.result().curves.recall)


def test_parts_of_the_batches_join_to_the_whole(subject):
    model, index, batches = subject
    whole = accumulate_metrics(model, batches, index, CPU, keep=True).result()
    all_batches = list(batches)
    first, second = (accumulate_metrics(model, all_batches[r::2], index, CPU, keep=True) for r in range(2))
    second.merge(first)
    joined = second.result()
    assert np.array_equal(whole.metrics.ap, joined.metrics.ap)
    assert [place for place, _ in whole.found] == [place for place, _ in joined.found] == list(range(14))
    assert np.array_equal(whole.confusion.counts, joined.confusion.counts)


def test_each_batch_is_shown_in_order_in_input_pixels(subject):
    model, index, batches = subject
    seen = []
    accumulate_metrics(model, batches, index, CPU, on_batch=lambda *what: seen.append(what))
    assert [number for number, _, _ in seen] == list(range(len(batches)))
    assert all(len(found) == len(batch.images) for _, batch, found in seen)


@pytest.mark.slow
def test_batches_that_were_kept_give_the_same_numbers(subject):
    model, index, batches = subject
    fresh = dataclasses.replace(batches, cache=None)
    batches = dataclasses.replace(batches, cache=BatchCache())
    expected = accumulate_metrics(model, fresh, index, CPU, keep=True).result()
    for _ in range(3):
        result = accumulate_metrics(model, batches, index, CPU, keep=True).result()
        assert np.array_equal(result.metrics.ap, expected.metrics.ap)
        for (_, one), (_, other) in zip(result.found, expected.found, strict=True):
            assert np.array_equal(one.boxes, other.boxes) and np.array_equal(one.scores, other.scores)


def test_boxes_of_a_batch_go_back_to_their_images_as_those_of_one_do(subject):
    _, index, batches = subject
    random = np.random.default_rng(0)
    for batch in batches:
        found = [
            Detections((random.random((n, 4)) * 90 - 10).astype("f4"), np.ones(n, "f4"), np.arange(n))
            for n in random.integers(0, 4, len(batch.sources))
        ]
        moved = in_original(found, batch, index)
        for one, ours, gain, pad, source in zip(found, moved, batch.gain, batch.pad, batch.sources, strict=True):
            assert np.array_equal(ours.boxes, one.in_original(gain, pad, index.sizes[source]).boxes)
            assert np.array_equal(ours.labels, one.labels)


def test_a_batch_is_suppressed_after_the_next_one_was_looked_at(subject):
    """And compared in the order of the batches: the device has work while the host asks for counts."""
    model, _, batches = subject
    events = []

    def predict(images):
        events.append("look")
        with torch.no_grad():
            return decode(model(images.float() / 255), model)

    class Told(LateComparison):
        def _hand_over(self):
            if self._begun is not None:
                events.append("suppress")
            super()._hand_over()

    model.eval()
    seen, thresholds = [], Thresholds(conf=0.1, iou=0.65, multi_label=True)
    with Told(lambda number, batch, found: seen.append(number)) as comparison:
        for number, batch in enumerate(batches):
            comparison.add(number, batch, thresholds.begin(predict(batch.images)))
        comparison.finish()
    model.train()
    assert events == ["look", *["look", "suppress"] * (len(batches) - 1), "suppress"]
    assert seen == list(range(len(batches)))


def test_what_goes_wrong_in_the_other_thread_is_raised(subject):
    model, index, batches = subject

    def fail(*_):
        raise ValueError("torn")

    with pytest.raises(ValueError, match="torn"):
        accumulate_metrics(model, batches, index, CPU, on_batch=fail)
