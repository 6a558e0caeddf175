"""OC-SORT's filter: tracks that run along their gap alone do what those in arrays do, to the bit."""

import numpy as np
import pytest

from yolofast.track.trackers.motion import area_filter
from yolofast.track.trackers.motion.area_filter import KalmanArea
from yolofast.track.trackers.motion.model import Gaps


@pytest.fixture
def missed():
    """Five tracks, corrected three times, then missed for a while."""
    rng, motion = np.random.default_rng(0), KalmanArea(None)
    motion._filters = np.abs(rng.normal(20, 9, (5, 4, 5)))
    motion._missed, motion._place = motion._filters.copy(), np.abs(rng.normal(50, 9, (4, 5)))
    return motion, np.abs(rng.normal(50, 9, (4, 5)))


@pytest.mark.parametrize("lengths", [[2], [9, 2], [7, 7, 5, 2, 2], [3, 3, 3, 3, 3]])
def test_alone_or_together(missed, lengths, monkeypatch):
    motion, ends = missed
    rows = np.arange(len(lengths))
    gaps = Gaps(rows, np.array(lengths), np.array(lengths, float))
    found = motion._run_again(rows, ends[:, rows], gaps)
    monkeypatch.setattr(area_filter, "_FEW", 0)
    np.testing.assert_array_equal(found, motion._run_again(rows, ends[:, rows], gaps))
    assert not np.array_equal(found, motion._missed[:, :, rows])
