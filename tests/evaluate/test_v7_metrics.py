import numpy as np
import pytest
import torch

from tests.evaluate.made_up import CASES, found, golden, golden_means, index, perturbed, random_boxes, truth
from yolofast.evaluate.matching import GroundTruth, ground_truth, pair_up, right_detections
from yolofast.evaluate.nms import non_max_suppression
from yolofast.evaluate.v7_metrics import V7Metrics


def golden_case(case):
    """Detections by our own suppression, and the ground truth."""
    detections = non_max_suppression(torch.from_numpy(golden[f"{case}.pred"]), 0.001, 0.65, multi_label=True)
    rows = [golden[f"{case}.gt{image}"] for image in range(len(detections))]
    corners = [np.concatenate((row[:, 1:3] - row[:, 3:] / 2, row[:, 1:3] + row[:, 3:] / 2), axis=1) for row in rows]
    return detections, [GroundTruth(box, row[:, 0].astype(np.int64)) for box, row in zip(corners, rows, strict=True)]


@pytest.mark.parametrize("sentinel", ["v7", "v5"])
@pytest.mark.parametrize("case", CASES)
def test_equals_the_published_numbers(case, sentinel):
    metrics = V7Metrics()
    for one, true in zip(*golden_case(case), strict=True):  # image by image: the batch must not matter
        metrics.add([one], [true])
    result = metrics.result(sentinel)
    ours = {"p": result.precision, "r": result.recall, "ap": result.ap, "f1": result.f1, "classes": result.classes}
    for name, values in ours.items():
        np.testing.assert_allclose(values, golden[f"{case}.{sentinel}.{name}"], atol=1e-6, rtol=0, err_msg=name)
    means = {"P": result.mean_precision, "R": result.mean_recall, "mAP50": result.map50, "mAP": result.map}
    assert means == pytest.approx(golden_means[f"{case}.{sentinel}"], abs=1e-6)


def plain_matching(detections, true):
    """One detection at a time, as facts state the rule."""
    right, taken = np.zeros((len(detections), 10), bool), set()
    for d in range(len(detections)):
        overlaps = [
            overlap(detections.boxes[d], box) if label == detections.labels[d] else -1.0
            for box, label in zip(true.boxes, true.labels, strict=True)
        ]
        best = int(np.argmax(overlaps)) if overlaps else -1
        if overlaps and overlaps[best] > 0.5 and best not in taken:
            taken.add(best)
            right[d] = overlaps[best] > np.linspace(0.5, 0.95, 10)
    return right


def overlap(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    both = np.prod(np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None))
    return both / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both)


def test_matching_equals_one_detection_at_a_time():
    rng = np.random.default_rng(0)
    split = index(random_boxes(rng, 30, 3), [(320, 240)] * 30)
    true = ground_truth(split, range(30))
    detections = [perturbed(rng, one.boxes, one.labels, (320, 240), 3) for one in true]
    ours = right_detections(pair_up(detections, true, same_class=True))
    plain = np.concatenate([plain_matching(*pair) for pair in zip(detections, true, strict=True)])
    np.testing.assert_array_equal(ours, plain)
    assert 0 < plain[:, 0].sum() < len(plain)


def test_there_is_no_second_choice():
    """The second detection overlaps both boxes enough, but the one it overlaps more is taken."""
    true = truth((0, 0, 0, 100, 100), (0, 30, 0, 130, 100))
    detections = found((0.9, 0, 0, 0, 100, 100), (0.8, 0, 10, 0, 110, 100))
    assert right_detections(pair_up([detections], [true], same_class=True))[:, 0].tolist() == [True, False]


def test_scores_decide_who_comes_first_however_detections_are_ordered():
    true = truth((0, 0, 0, 100, 100))
    detections = found((0.3, 0, 0, 0, 100, 90), (0.9, 0, 0, 0, 100, 80))
    flat = pair_up([detections], [true], same_class=True)
    assert flat.scores.tolist() == pytest.approx([0.9, 0.3])
    assert right_detections(flat)[:, 0].tolist() == [True, False]


def test_perfect_detections():
    true = truth((0, 0, 0, 50, 50), (2, 60, 60, 90, 90))
    metrics = V7Metrics()
    metrics.add([found((0.9, 0, 0, 0, 50, 50), (0.8, 2, 60, 60, 90, 90))], [true])
    result = metrics.result("v5")
    assert result.classes.tolist() == [0, 2]
    assert (result.map50, result.map, result.fitness) == pytest.approx((1, 1, 1), abs=0.006)
    assert (result.mean_precision, result.mean_recall) == pytest.approx((1, 1))
    assert result.map_per_class(4) == pytest.approx([1, 1, 1, 1], abs=0.006)


def test_a_class_without_detections_counts_as_zero_and_one_without_boxes_not_at_all():
    metrics = V7Metrics()
    metrics.add([found((0.9, 0, 0, 0, 50, 50), (0.9, 7, 0, 0, 50, 50))], [truth((0, 0, 0, 50, 50), (1, 0, 0, 9, 9))])
    result = metrics.result("v5")
    assert result.classes.tolist() == [0, 1]
    assert result.ap[1].tolist() == [0] * 10
    assert result.map50 == pytest.approx(0.5, abs=0.003)


def test_nothing_at_all():
    metrics = V7Metrics()
    assert metrics.result().map == 0
    metrics.add([found(), found((0.5, 0, 1, 1, 2, 2))], [truth(), truth()])
    result = metrics.result()
    assert (result.images, result.map50, result.mean_precision, result.fitness) == (2, 0, 0, 0)
    assert result.map_per_class(3).tolist() == [0, 0, 0]


def test_parts_of_several_processes_are_joined():
    detections, true = golden_case("many")
    whole, first, second = V7Metrics(), V7Metrics(), V7Metrics()
    whole.add(detections, true)
    first.add(detections[:2], true[:2])
    second.add(detections[2:], true[2:])
    first.merge(second)
    np.testing.assert_array_equal(first.result().ap, whole.result().ap)
    assert first.result().images == len(true)


def test_ground_truth_is_in_original_pixels_and_knows_no_crowds():
    split = index(
        [[(0, 0.5, 0.5, 0.2, 0.4), (1, 0.5, 0.5, 1, 1)], [(2, 0.25, 0.5, 0.5, 1)]], [(100, 50), (40, 80)], crowd=[1]
    )
    first, second = ground_truth(split, [0, 1])
    np.testing.assert_allclose(first.boxes, [[40, 15, 60, 35]], rtol=1e-6)
    assert first.labels.tolist() == [0]
    np.testing.assert_allclose(second.boxes, [[0, 0, 20, 80]], rtol=1e-6)
