import numpy as np
import pytest

from tests.evaluate.made_up import found, index, perturbed, random_boxes, truth
from tests.evaluate.test_v7_metrics import overlap
from yolofast.evaluate.confusion import ConfusionMatrix
from yolofast.evaluate.matching import ground_truth


def plain_confusion(detections, true, nc):
    """The pair with the largest overlap first, one at a time."""
    counts = np.zeros((nc + 1, nc + 1), int)
    for one, real in zip(detections, true, strict=True):
        one = one[one.scores > 0.25]
        overlaps = [(overlap(a, b), d, t) for d, a in enumerate(one.boxes) for t, b in enumerate(real.boxes)]
        free_d, free_t = set(range(len(one))), set(range(len(real.labels)))
        for value, d, t in sorted(overlaps, reverse=True):
            if value > 0.45 and d in free_d and t in free_t:
                free_d.remove(d)
                free_t.remove(t)
                counts[one.labels[d], real.labels[t]] += 1
        for d in free_d:
            counts[one.labels[d], nc] += 1
        for t in free_t:
            counts[nc, real.labels[t]] += 1
    return counts


@pytest.mark.slow
def test_equals_one_pair_at_a_time():
    rng = np.random.default_rng(0)
    split = index(random_boxes(rng, 60, 4), [(320, 240)] * 60, nc=4)
    true = ground_truth(split, range(60))
    detections = [perturbed(rng, one.boxes, one.labels, (320, 240), 4) for one in true]
    matrix = ConfusionMatrix(4)
    matrix.add(detections[:25], true[:25])
    other = ConfusionMatrix(4)
    other.add(detections[25:], true[25:])
    matrix.merge(other)
    np.testing.assert_array_equal(matrix.counts, plain_confusion(detections, true, 4))


def test_what_each_box_counts_as():
    matrix = ConfusionMatrix(2)
    true = truth((0, 0, 0, 50, 50), (1, 100, 0, 150, 50), (1, 200, 0, 250, 50))
    matrix.add(
        [
            found(
                (0.9, 0, 0, 0, 50, 50),  # right
                (0.8, 0, 1, 0, 50, 50),  # a second one on the same box: of nothing
                (0.7, 0, 100, 0, 150, 50),  # 1 taken for 0
                (0.2, 1, 200, 0, 250, 50),  # too unsure to count, so that box is missed
            )
        ],
        [true],
    )
    assert matrix.counts.tolist() == [[1, 1, 1], [0, 0, 0], [0, 1, 0]]
    assert matrix.shares().tolist() == [[1, 0.5, 1], [0, 0, 0], [0, 0.5, 0]]


def test_a_better_pair_frees_the_second_choice():
    """The surer detection overlaps the left box most, but another fits that better: it takes the right one."""
    true = truth((0, 0, 0, 100, 100), (1, 30, 0, 130, 100))
    matrix = ConfusionMatrix(2)
    matrix.add([found((0.9, 0, 10, 0, 110, 100), (0.8, 0, 0, 0, 100, 100))], [true])
    assert matrix.counts.tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_nothing_at_all():
    matrix = ConfusionMatrix(2)
    matrix.add([], [])
    matrix.add([found()], [truth()])
    assert matrix.counts.sum() == 0
    assert matrix.shares().sum() == 0
