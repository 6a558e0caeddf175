"""Which images are the worst: counted by hand, and alike for one image and for many."""

import numpy as np

from yolofast.evaluate.image_faults import MOST_IMAGES, ImageFaults, judge
from yolofast.evaluate.matching import GroundTruth
from yolofast.structures import Detections

A, B, C = (0, 0, 10, 10), (20, 20, 40, 40), (50, 50, 60, 60)


def found(*rows):
    boxes, scores, labels = zip(*rows, strict=True) if rows else ((), (), ())
    return Detections(np.float32(boxes).reshape(-1, 4), np.float32(scores), np.array(labels, np.int64))


def truth(*rows):
    boxes, labels = zip(*rows, strict=True) if rows else ((), ())
    return GroundTruth(np.float32(boxes).reshape(-1, 4), np.array(labels, np.int64))


CASES = [
    # found, truth, missed, wrong
    (found((A, 0.9, 0)), truth((A, 0)), 0, 0),
    (found((A, 0.9, 1)), truth((A, 0)), 1, 1),  # of another class
    (found((A, 0.2, 0)), truth((A, 0)), 1, 0),  # too unsure
    (found((A, 0.9, 0), (A, 0.8, 0)), truth((A, 0)), 0, 1),  # seen twice
    (found(), truth((A, 0), (B, 1), (C, 1)), 3, 0),
    (found((A, 0.5, 0), (B, 0.6, 0), (C, 0.7, 0)), truth(), 0, 3),
    (found(), truth(), 0, 0),
    (found((C, 0.9, 1), (A, 0.3, 0)), truth((A, 0), (B, 1), (C, 1)), 1, 0),
]


def test_the_worst_come_first():
    faults = ImageFaults()
    places = np.arange(len(CASES)) * 10
    faults.add([case[0] for case in CASES], [case[1] for case in CASES], places)
    expected = {place: case[2:] for place, case in zip(places.tolist(), CASES, strict=True)}
    counted = faults.per_image().tolist()
    assert {place: (missed, wrong) for place, missed, wrong in counted} == expected
    # Most faults first; of as many the one with more missed, then the one that comes first.
    assert [place for place, _, _ in counted] == [40, 50, 10, 20, 70, 30, 0, 60]


def test_one_image_is_judged_as_many_are():
    for seen, true, missed, wrong in CASES:
        judged = judge(seen, true)
        assert len(judged.missed.labels) == missed and len(judged.wrong) == wrong
        assert len(judged.right) == len(true.labels) - missed
    judged = judge(*CASES[-1][:2])
    assert judged.missed.boxes.tolist() == [list(B)] and judged.right.labels.tolist() == [1, 0]


def test_the_detections_of_the_worst_are_kept():
    faults = ImageFaults()
    for turn in range(5):  # in batches, more images than are kept
        places = np.arange(len(CASES)) + turn * len(CASES)
        faults.add([case[0] for case in CASES], [case[1] for case in CASES], places)
    worst = faults.worst()
    assert [list(image[:3]) for image in worst] == faults.per_image()[:MOST_IMAGES].tolist()
    for image in worst:
        judged = judge(image.counted, CASES[image.place % len(CASES)][1])
        assert (len(judged.missed.labels), len(judged.wrong)) == (image.missed, image.wrong)


def test_processes_are_joined():
    one, other = ImageFaults(), ImageFaults()
    one.add([CASES[4][0]], [CASES[4][1]], np.array([7]))
    other.add([CASES[5][0]], [CASES[5][1]], np.array([3]))
    one.merge(other)
    assert one.per_image().tolist() == [[7, 3, 0], [3, 0, 3]]
    assert [image.place for image in one.worst()] == [7, 3] and len(one.worst()[1].counted) == 3
    assert ImageFaults().per_image().shape == (0, 3)
