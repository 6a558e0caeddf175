"""Labels completed by what was found; detections as the text of label files."""

import numpy as np

from yolofast.evaluate.matching import GroundTruth
from yolofast.evaluate.result_files import label_text, with_labels
from yolofast.structures import Detections


def detections(*rows):
    table = np.array(rows, np.float32).reshape(-1, 6)
    return Detections(table[:, :4], table[:, 4], table[:, 5].astype(np.int64))


def test_what_is_among_the_labels_already_is_left_out():
    truth = GroundTruth(np.array([[0, 0, 10, 10], [0, 0, 10, 9]], np.float32), np.array([1, 1]))
    found = detections(
        (0, 0, 10, 10, 0.9, 1),  # the label itself
        (0, 0, 10, 10, 0.8, 2),  # of another class: new
        (50, 50, 60, 60, 0.7, 1),  # elsewhere: new
        (5, 0, 15, 10, 0.6, 1),  # overlaps a label by a third: new
    )
    both = with_labels(found, truth, 0.65)
    np.testing.assert_allclose(both.scores, [1, 1, 0.8, 0.7, 0.6])
    assert both.labels.tolist() == [1, 1, 2, 1, 1] and both.boxes[:2].tolist() == truth.boxes.tolist()


def test_without_labels_or_detections():
    none = GroundTruth(np.zeros((0, 4), np.float32), np.zeros(0, np.int64))
    assert len(with_labels(Detections.none(), none, 0.5)) == 0
    assert len(with_labels(detections((0, 0, 1, 1, 0.5, 0)), none, 0.5)) == 1


def test_the_text_of_a_label_file():
    found = detections((10, 20, 30, 60, 0.5, 3))
    assert label_text(found, 100, 200, scores=False) == "3 0.200000 0.200000 0.200000 0.200000\n"
    assert label_text(found, 100, 200, scores=True) == "3 0.200000 0.200000 0.200000 0.200000 0.500000\n"
    assert label_text(Detections.none(), 100, 200, scores=True) == ""
