import numpy as np

from tests.evaluate.made_up import found
from yolofast.structures import Detections


def test_back_to_the_original_image():
    """A 200×100 image halved and moved down by 10 pixels."""
    seen = found((0.9, 1, 5, 15, 55, 35), (0.5, 0, -10, 0, 300, 300))
    original = seen.in_original(gain=(0.5, 0.5), pad=(0, 10), size=(200, 100))
    assert original.boxes.tolist() == [[10, 10, 110, 50], [0, 0, 200, 100]]
    assert original.boxes.dtype == np.float32
    assert original.labels.tolist() == [1, 0]


def test_choosing_some():
    seen = found((0.9, 1, 5, 15, 55, 35), (0.5, 0, -10, 0, 300, 300))
    assert seen[seen.scores > 0.6].labels.tolist() == [1]
    assert len(seen[:1]) == 1
    assert len(Detections.none()) == 0
