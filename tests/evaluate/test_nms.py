import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evaluate.made_up import CASES, golden
from tests.evaluate.plain_nms import plain_nms
from yolofast.errors import UserError
from yolofast.evaluate import greedy
from yolofast.evaluate.nms import Thresholds, non_max_suppression

RUNS = {
    "test": ((0.001, 0.65), {"multi_label": True}),
    "detect": ((0.25, 0.45), {"multi_label": False}),
    "agnostic": ((0.25, 0.45), {"multi_label": False, "agnostic": True}),
}


def rows(detections):
    return np.column_stack((detections.boxes, detections.scores, detections.labels))


def same(predictions, conf, iou, **options):
    """Our result, after comparing it with the plain one."""
    ours = non_max_suppression(torch.from_numpy(predictions), conf, iou, **options)
    plain_names = {"max_candidates": "most_candidates", "max_detections": "most"}
    plain = plain_nms(predictions, conf, iou, **{plain_names.get(k, k): v for k, v in options.items()})
    for one, want in zip(ours, plain, strict=True):
        np.testing.assert_array_equal(rows(one), want)
    return ours


def predictions(rng, batch=2, n=60, nc=3, spread=40.0):
    """Boxes so close that many overlap, on a coarse grid of values so that many are equal."""
    table = np.empty((batch, n, 5 + nc), np.float32)
    table[..., :2] = rng.integers(0, 8, (batch, n, 2)) * spread / 8
    table[..., 2:4] = rng.integers(0, 5, (batch, n, 2)) * 8
    table[..., 4:] = rng.integers(0, 9, (batch, n, 1 + nc)) / 8
    return table


def column_of(boxes, scores):
    """One image, one class: rows cx, cy, w, h."""
    boxes = np.asarray(boxes, np.float32)
    return np.column_stack((boxes, scores, np.ones(len(boxes)))).astype(np.float32)[None]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("case", CASES)
def test_equals_the_published_results(case, run):
    thresholds, options = RUNS[run]
    result = non_max_suppression(torch.from_numpy(golden[f"{case}.pred"]), *thresholds, **options)
    for image, one in enumerate(result):
        np.testing.assert_array_equal(rows(one), golden[f"{case}.{run}{image}"])


@pytest.mark.slow
@pytest.mark.parametrize("block", [3, 64, 512])
@pytest.mark.parametrize("rounds", [1, 4])
def test_blocks_and_rounds_do_not_change_the_result(block, rounds, monkeypatch):
    monkeypatch.setitem(greedy._BLOCKS, "cpu", (block,))
    monkeypatch.setitem(greedy._ROUNDS_PER_QUESTION, "cpu", rounds)
    for seed in range(3):
        same(predictions(np.random.default_rng(seed), n=120), 0.1, 0.5, multi_label=True)


def test_large_batches_take_smaller_blocks():
    sizes = {batch: greedy._block_size(torch.device("cuda"), batch) for batch in (1, 64, 65, 768, 10**6)}
    assert sizes == {1: 512, 64: 512, 65: 256, 768: 128, 10**6: 64}


@pytest.mark.slow
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 90),
    nc=st.sampled_from((1, 2, 5)),
    spread=st.sampled_from((4.0, 40.0, 400.0)),
    conf=st.sampled_from((0.0, 0.125, 0.5)),
    iou=st.sampled_from((0.0, 0.25, 0.5, 1.0)),
    multi_label=st.booleans(),
    agnostic=st.booleans(),
    most=st.sampled_from((1, 7, 300)),
    candidates=st.sampled_from((5, 30_000)),
)
def test_equals_the_plain_algorithm(seed, n, nc, spread, conf, iou, multi_label, agnostic, most, candidates):
    made = predictions(np.random.default_rng(seed), n=n, nc=nc, spread=spread)
    options = {"multi_label": multi_label, "agnostic": agnostic, "max_detections": most, "max_candidates": candidates}
    same(made, conf, iou, **options)


def test_a_chain_keeps_every_second_box():
    """Each overlaps the next by 2/3, so the fate of the last depends on all the others."""
    n = 200
    boxes = [(10.0 * i, 0.0, 50.0, 50.0) for i in range(n)]
    (kept,) = same(column_of(boxes, np.linspace(0.9, 0.1, n)), 0.01, 0.6, multi_label=True)
    assert len(kept) == n // 2


def test_of_equal_scores_and_boxes_the_first_stays():
    (kept,) = same(
        column_of([(50, 50, 20, 20), (51, 50, 20, 20), (50, 50, 20, 20)], [0.5] * 3), 0.1, 0.5, multi_label=True
    )
    assert kept.boxes.tolist() == [[40, 40, 60, 60]]


def test_overlap_equal_to_the_threshold_does_not_suppress():
    boxes = [(10, 10, 20, 20), (10, 15, 20, 10)]  # the second is half of the first
    assert len(same(column_of(boxes, [0.9, 0.8]), 0.1, 0.5, multi_label=True)[0]) == 2
    assert len(same(column_of(boxes, [0.9, 0.8]), 0.1, 0.49, multi_label=True)[0]) == 1


def test_empty_and_inside_out_boxes_suppress_nothing():
    boxes = [(10, 10, 0, 0), (10, 10, 0, 0), (10, 10, -5, -5), (10, 10, 1e-30, 1e-30)]
    assert len(same(column_of(boxes, [0.9, 0.8, 0.7, 0.6]), 0.1, 0.5, multi_label=True)[0]) == 4


def test_rows_that_are_not_numbers_are_left_out():
    made = column_of([(np.nan, 1, 2, 3), (1, 1, np.inf, 3), (1, 1, 2, 2), (9, 9, 2, 2)], [0.9, 0.9, np.nan, 0.9])
    assert same(made, 0.1, 0.5, multi_label=True)[0].boxes.tolist() == [[8, 8, 10, 10]]


def test_images_without_candidates():
    made = predictions(np.random.default_rng(0))
    made[0, :, 4] = 0
    result = same(made, 0.1, 0.5, multi_label=True)
    assert len(result[0]) == 0
    assert len(result[1]) > 0
    made[..., 4] = 0
    assert [len(one) for one in same(made, 0.1, 0.5, multi_label=False)] == [0, 0]
    assert non_max_suppression(torch.zeros(0, 5, 7), 0.1, 0.5, multi_label=True) == []


@pytest.mark.slow
def test_thousands_of_candidates_on_one_spot():
    """Nothing is kept but one box per class, so every candidate has to be looked at."""
    made = torch.zeros(2, 4000, 8)
    made[..., :4] = torch.tensor((100.0, 100.0, 50.0, 50.0))
    made[..., 4:] = torch.rand(2, 4000, 4) * 0.9 + 0.1
    best = (made[..., 5:] * made[..., 4:5]).amax(1)
    for image, one in enumerate(non_max_suppression(made, 0.001, 0.65, multi_label=True)):
        np.testing.assert_array_equal(one.scores, best[image].sort(descending=True).values)


def test_several_batches_may_be_under_way():
    """As in an evaluation, where the next batch is begun before the last one is launched, and results come later."""
    made = [torch.from_numpy(predictions(np.random.default_rng(seed), n=80)) for seed in range(3)]
    begun = [Thresholds(conf=0.1, iou=0.5, multi_label=True).begin(one) for one in made]
    late = [one.launch() for one in begun]
    for one, batch in zip(late, made, strict=True):
        for ours, expected in zip(one.get(), non_max_suppression(batch, 0.1, 0.5, multi_label=True), strict=True):
            np.testing.assert_array_equal(rows(ours), rows(expected))


@pytest.mark.slow
def test_of_very_many_candidates_the_best_are_looked_at():
    """Equal scores everywhere, so that which of them are the best depends on their order alone."""
    made = predictions(np.random.default_rng(3), n=400, nc=4, spread=4000.0)
    made[..., 4:] = np.where(made[..., 4:] > 0.5, 0.5, 0.25)
    for most in (1, 333, 1200):
        same(made, 0.01, 0.5, multi_label=True, max_candidates=most, max_detections=2000)


def test_only_the_chosen_classes():
    made = predictions(np.random.default_rng(1), nc=4)
    for multi_label in (True, False):
        every = non_max_suppression(torch.from_numpy(made), 0.1, 0.5, multi_label=multi_label)
        some = non_max_suppression(torch.from_numpy(made), 0.1, 0.5, multi_label=multi_label, classes=[1, 3])
        for one, few in zip(every, some, strict=True):
            np.testing.assert_array_equal(rows(few), rows(one)[np.isin(one.labels, (1, 3))])


def test_half_precision_is_widened_first():
    made = torch.from_numpy(predictions(np.random.default_rng(2)))  # its values are exact in half precision
    full = non_max_suppression(made, 0.1, 0.5, multi_label=True)
    for one, want in zip(non_max_suppression(made.half(), 0.1, 0.5, multi_label=True), full, strict=True):
        np.testing.assert_array_equal(rows(one), rows(want))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(2, 7), 0.1, 0.5), "shape"),
        ((torch.zeros(1, 2, 5), 0.1, 0.5), "shape"),
        ((torch.zeros(1, 2, 7), 25, 0.5), "confidence threshold is 25"),
        ((torch.zeros(1, 2, 7), 0.1, -1), "IoU threshold is -1"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        non_max_suppression(*arguments, multi_label=True)
