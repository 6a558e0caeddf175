"""The loop of an evaluation, on a network small enough for any test."""

import numpy as np
import pytest
import torch

from tests.loader.small_set import made_up_index, packed, random_sizes
from tests.model.small import SMALL
from yolofast import build_model, decode
from yolofast.engine.evaluation import evaluate, fill_tally, in_original
from yolofast.engine.precision import Precision
from yolofast.evaluate.ground_truth import ground_truth
from yolofast.evaluate.nms import non_max_suppression
from yolofast.evaluate.v7_metrics import V7Metrics
from yolofast.loader.validation import validation_batches
from yolofast.pixels import fitted_size

CPU = Precision(torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def subject():
    torch.manual_seed(0)
    model = build_model(SMALL, nc=4)
    index = made_up_index(random_sizes(30))
    images = packed(fitted_size(index.sizes, 64, 64))
    return model, index, validation_batches(index, images, 4, 64, 16, rect=True)


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
    result = evaluate(model, batches, index, CPU)
    assert model.training  # as it was
    assert np.array_equal(result.metrics.ap, plain.result().ap)
    assert np.array_equal(result.metrics.curves.recall, plain.result().curves.recall)


def test_parts_of_the_batches_join_to_the_whole(subject):
    model, index, batches = subject
    whole = evaluate(model, batches, index, CPU, keep=True)
    all_batches = list(batches)
    first, second = (fill_tally(model, all_batches[r::2], index, CPU, keep=True) for r in range(2))
    second.merge(first)
    joined = second.result()
    assert np.array_equal(whole.metrics.ap, joined.metrics.ap)
    assert [place for place, _ in whole.found] == [place for place, _ in joined.found] == list(range(30))
    assert np.array_equal(whole.confusion.counts, joined.confusion.counts)


def test_each_batch_is_shown_in_order_in_input_pixels(subject):
    model, index, batches = subject
    seen = []
    evaluate(model, batches, index, CPU, on_batch=lambda *what: seen.append(what))
    assert [number for number, _, _ in seen] == list(range(len(batches)))
    assert all(len(found) == len(batch.images) for _, batch, found in seen)


def test_what_goes_wrong_in_the_other_thread_is_raised(subject):
    model, index, batches = subject

    def fail(*_):
        raise ValueError("torn")

    with pytest.raises(ValueError, match="torn"):
        evaluate(model, batches, index, CPU, on_batch=fail)
