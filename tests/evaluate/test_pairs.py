"""What is laid out for all images at once is what is laid out image by image."""

import numpy as np
import pytest

from tests.evaluate.made_up import found, index, perturbed, random_boxes, truth
from yolofast.evaluate.matching import ground_truth, lay_out, lay_out_truth, pair_up, truth_of
from yolofast.evaluate.v7_metrics import average_precision, average_precisions, precision_recall


def test_the_truth_of_a_batch_is_that_of_its_images():
    rng = np.random.default_rng(0)
    split = index(random_boxes(rng, 30, 4), rng.integers(50, 500, (30, 2)), nc=4, crowd=(0, 5, 6, 7, 40))
    chosen = rng.permutation(30)[:17]
    ours, images = truth_of(split, chosen), ground_truth(split, chosen)
    expected = lay_out_truth(images)
    for name in ("boxes", "labels", "starts"):
        assert np.array_equal(getattr(ours, name), getattr(expected, name)), name
    assert ours.boxes.dtype == np.float32
    for one, other in zip(ours.per_image(), images, strict=True):
        assert np.array_equal(one.boxes, other.boxes) and np.array_equal(one.labels, other.labels)
    nothing = truth_of(split, chosen[:0])
    assert len(nothing.boxes) == 0 and nothing.starts.tolist() == [0]


def plain_pairs(detections, true, same_class):
    """One after the other: number of the detection, number of the true box."""
    pairs, first_detection, first_truth = [], 0, 0
    for one, real in zip(detections, true, strict=True):
        pairs += [
            (first_detection + d, first_truth + t)
            for d in range(len(one))
            for t in range(len(real.labels))
            if not same_class or one.labels[d] == real.labels[t]
        ]
        first_detection, first_truth = first_detection + len(one), first_truth + len(real.labels)
    return pairs


@pytest.mark.parametrize("same_class", [True, False])
def test_pairs_are_those_of_each_image(same_class):
    rng = np.random.default_rng(1)
    true = ground_truth(index(random_boxes(rng, 20, 5), [(300, 200)] * 20, nc=5), range(20))
    detections = [perturbed(rng, one.boxes, one.labels, (300, 200), 7) for one in true]  # also of classes not there
    flat = pair_up(detections, true, same_class=same_class)
    pairs = list(zip(flat.detection.tolist(), flat.truth.tolist(), strict=True))
    assert pairs == plain_pairs(detections, true, same_class)
    assert len(pairs) > 100


def test_only_what_is_out_of_order_is_sorted():
    """Within each image, equal scores staying as they are."""
    laid_out = lay_out(
        [found((0.2, 0, 1, 1, 2, 2), (0.9, 1, 1, 1, 2, 2), (0.2, 2, 1, 1, 2, 2)), found((0.5, 3, 1, 1, 2, 2))]
    )
    assert laid_out.detections.labels.tolist() == [1, 0, 2, 3] and laid_out.image.tolist() == [0, 0, 0, 1]
    assert laid_out.per_image().tolist() == [3, 1]
    assert laid_out.above(0.4).detections.labels.tolist() == [1, 3]


def test_nothing_pairs_with_nothing():
    for detections, true in (
        ([], []),
        ([found()], [truth((0, 0, 0, 5, 5))]),
        ([found((0.5, 0, 1, 1, 2, 2))], [truth()]),
    ):
        for same_class in (True, False):
            assert len(pair_up(detections, true, same_class=same_class).overlap) == 0


@pytest.mark.parametrize("sentinel", ["v7", "v5"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_corners_of_the_curve_give_its_area_to_the_last_bit(share, sentinel):
    rng = np.random.default_rng(2)
    for n in (1, 2, 50, 3000):
        passed = np.where(rng.random(n) < share, rng.integers(1, 11, n), 0).astype(np.uint8)
        boxes = int((passed > 0).sum()) + 3
        right = passed[:, None] > np.arange(10)
        expected = [
            average_precision(p, r, sentinel)
            for p, r in zip(*(x.T for x in precision_recall(right, boxes)), strict=True)
        ]
        assert average_precisions(passed, boxes, sentinel) == expected
