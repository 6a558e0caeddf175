"""Suppression and evaluation on CUDA: the numbers of plain torch, without waiting for the host."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from tests.evaluate.greedy_problems import candidates, problems
from tests.loader.small_set import made_up_index, packed, random_sizes
from tests.model.small import SMALL
from yolofast import build_model
from yolofast.detect.evaluation import accumulate_metrics
from yolofast.evaluate.candidates import Candidates, best_candidates, find_usable_rows
from yolofast.evaluate.greedy import suppress_bits, suppress_torch, suppress_triton
from yolofast.evaluate.nms import Thresholds, non_max_suppression
from yolofast.image_index import fitted_size
from yolofast.loader.validation_batches import validation_batches
from yolofast.precision import Precision

VALIDATION = {"multi_label": True, "classes": None, "most": 30_000}


@contextmanager
def no_waiting():
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def predictions(batch, n, nc, seed=0, spread=300.0):
    """Like those of a network that has learnt nothing: nearly every row is a candidate for every class."""
    generator = torch.Generator().manual_seed(seed)
    made = torch.rand(batch, n, 5 + nc, generator=generator)
    made[..., :2] *= spread
    made[..., 2:4] *= 80
    made[: batch // 2, n // 3 :, 4] = 0  # images differ in how many rows they have
    return made


def on_cuda(found):
    return Candidates(found.boxes.cuda(), found.scores.cuda(), found.labels.cuda(), found.counts.cuda())


def assert_same(ours, expected):
    assert torch.equal(ours[1], expected[1])
    for a, b, n in zip(ours[0].cpu(), expected[0].cpu(), ours[1].tolist(), strict=True):
        assert torch.equal(a[:n], b[:n])


@pytest.mark.parametrize("name", problems())
@pytest.mark.parametrize(("agnostic", "most", "threshold"), [(False, 300, 0.5), (True, 70, 0.65), (True, 1, 0.0)])
def test_the_kernel_keeps_what_plain_torch_does_on_hard_problems(name, agnostic, most, threshold):
    found = on_cuda(candidates(problems()[name]))
    expected = suppress_torch(found, threshold, agnostic=agnostic, most=most)
    for way in (suppress_triton, suppress_bits):
        assert_same(way(found, threshold, agnostic=agnostic, most=most), expected)


@pytest.mark.parametrize(("batch", "n", "nc", "spread"), [(32, 2000, 20, 300), (3, 5000, 1, 300), (130, 300, 3, 30)])
def test_the_kernel_keeps_what_plain_torch_does_on_batches(batch, n, nc, spread):
    for seed in range(3):
        rows = find_usable_rows(predictions(batch, n, nc, seed, spread).cuda(), 0.001)
        found = best_candidates(rows, 0.001, **VALIDATION)
        for agnostic in (False, True):
            ours, expected = (
                way(found, 0.65, agnostic=agnostic, most=300) for way in (suppress_triton, suppress_torch)
            )
            assert_same(ours, expected)


@pytest.mark.parametrize(("batch", "n", "nc"), [(1, 4096, 1), (1, 4096, 20), (8, 1000, 3)])
def test_overlaps_as_bits_keep_what_plain_torch_does(batch, n, nc):
    for spread in (50, 300, 3000):
        rows = find_usable_rows(predictions(batch, n, nc, spread, spread).cuda(), 0.001)
        found = best_candidates(rows, 0.001, multi_label=False, classes=None, most=4096)
        for most in (300, 4096):
            ours, expected = (way(found, 0.5, agnostic=False, most=most) for way in (suppress_bits, suppress_torch))
            assert_same(ours, expected)


def test_detections_are_those_of_the_cpu():
    made = predictions(8, 1500, 10)
    for options in ({"multi_label": True}, {"multi_label": False, "agnostic": True, "classes": [1, 5]}):
        ours, expected = (non_max_suppression(rows, 0.01, 0.6, **options) for rows in (made.cuda(), made))
        for one, other in zip(ours, expected, strict=True):
            assert np.array_equal(one.boxes, other.boxes) and np.array_equal(one.labels, other.labels)
            assert np.array_equal(one.scores, other.scores)


def test_nothing_waits_but_for_the_number_of_rows_and_the_result():
    """Those are asked of an event, so work that was launched since is not waited for."""
    made = predictions(8, 1500, 10).cuda()
    expected = non_max_suppression(made, 0.001, 0.65, multi_label=True)  # kernels are loaded
    found = best_candidates(find_usable_rows(made, 0.001), 0.001, **VALIDATION)
    suppress_triton(found, 0.65, agnostic=False, most=300)
    with no_waiting():
        suppress_triton(found, 0.65, agnostic=False, most=300)
        begun = Thresholds(conf=0.001, iou=0.65, multi_label=True).begin(made)
        launched = torch.cuda.Event()
        torch.cuda._sleep(2_000_000_000)  # about a second of other work
        launched.record()
        late = begun.launch()
        assert not launched.query(), "the rows were counted before"
    for one, other in zip(late.get(), expected, strict=True):
        assert np.array_equal(one.boxes, other.boxes)


@pytest.fixture(scope="module")
def subject():
    torch.manual_seed(0)
    model = build_model(SMALL, nc=4).cuda()
    index = made_up_index(random_sizes(60))
    return model, index, packed(fitted_size(index.sizes, 64, 64))


def test_kept_batches_give_the_same_numbers(subject):
    model, index, images = subject
    device = torch.device("cuda")
    precision = Precision(device, torch.float32)
    fresh, kept = (
        validation_batches(index, images, 8, 64, 16, rect=True, keep=keep, device=device) for keep in (False, True)
    )
    expected = accumulate_metrics(model, fresh, index, precision, keep=True).result()
    for _ in range(3):
        result = accumulate_metrics(model, kept, index, precision, keep=True).result()
        assert np.array_equal(result.metrics.ap, expected.metrics.ap)
        assert np.array_equal(result.confusion.counts, expected.confusion.counts)
        for (_, one), (_, other) in zip(result.found, expected.found, strict=True):
            assert np.array_equal(one.boxes, other.boxes) and np.array_equal(one.scores, other.scores)
    assert all(batch.images.is_cuda and batch.targets.boxes.is_cuda for batch in kept)
    assert all(batch.images.is_pinned() and batch.targets.boxes.is_pinned() for batch in fresh)
