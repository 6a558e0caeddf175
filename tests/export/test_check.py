"""What a comparison calls a fault, on numbers made by hand."""

import numpy as np
import pytest

from yolofast.export.check import EXACT, HALF, INT8, ExportComparison, _compare_predictions, _equal, _match
from yolofast.structures import Detections


def found(*rows):
    table = np.array(rows, np.float32).reshape(-1, 6)
    return Detections(table[:, :4], table[:, 4], table[:, 5].astype(np.int64))


CAT, DOG = (0, 0, 20, 20, 0.9, 0), (50, 50, 80, 90, 0.6, 1)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (found(CAT, DOG), ""),
        (found(CAT), "1 of 2 detections have no counterpart"),
        (found(CAT, (*DOG[:5], 2)), "2 of 3 detections have no counterpart"),
        (found(CAT, (*DOG[:4], 0.61, 1)), "2 of 3 detections have no counterpart"),
        (found(CAT, DOG, DOG), "1 of 3 detections have no counterpart"),
        (found(CAT, DOG, (0, 0, 9, 9, 0.2501, 0)), ""),
    ],
    ids=["same", "missing", "other class", "other score", "twice", "at the threshold"],
)
def test_detections(given, fault):
    result = ExportComparison(EXACT)
    _match(result, found(CAT, DOG), given, 0.25, excused=False)
    assert result.fault() == fault


def test_in_int8_too_only_what_is_near_the_threshold_is_called_so():
    result = ExportComparison(INT8)
    _match(result, found(CAT, DOG, (0, 0, 9, 9, 0.26, 0)), found(CAT), 0.25, excused=False)
    rows = dict(row[:2] for row in result.rows())
    assert rows["detections matched one to one"] == "1 of 3, 1 at the threshold" and result.fault() == ""


def test_only_equal_suppression_excuses():
    result = ExportComparison(EXACT)
    _match(result, found(CAT, DOG), found(CAT), 0.25, excused=True)
    assert (
        result.fault() == ""
        and "1 decided by rounding" in dict(row[:2] for row in result.rows())["detections matched one to one"]
    )
    assert _equal(found(CAT, DOG), found(CAT, DOG))
    assert not _equal(found(CAT, DOG), found(CAT)) and not _equal(found(CAT), found((*CAT[:5], 1)))


def test_predictions_and_ap():
    ours = np.random.default_rng(0).uniform(0, 1, (50, 8)).astype(np.float32)
    for change, words in ((0.05, "boxes differ by 0.05"), (np.nan, "boxes differ by nan")):
        theirs, result = ours.copy(), ExportComparison(EXACT)
        theirs[7, 2] += change
        _compare_predictions(result, ours, theirs)
        assert words in result.fault()
    assert "mAP50-95 is 0.4800" in ExportComparison(HALF, ap=(0.5, 0.48)).fault()
    assert ExportComparison(HALF, ap=(0.5, 0.495)).fault() == ""
