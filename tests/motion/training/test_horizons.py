"""Boxes some frames ahead, by every method."""

import numpy as np
import pytest
import torch

from tests.motion.training.test_samples import tracks_of
from yolofast.motion.trackssm import TrackSSM, TrackSSMShape
from yolofast.motion.training import horizons
from yolofast.motion.training.horizons import KALMAN, SIMPLE, STILL, VELOCITY, counts, judged, learned, questions
from yolofast.motion.training.samples import PackedTracks


def test_even_motion_is_known_ahead():
    tracks = tracks_of(list(range(60)))
    asked = questions(tracks, 1000)
    found = judged(asked, SIMPLE, 15)
    assert found[VELOCITY].overlap == pytest.approx([1.0] * 15, abs=1e-5)
    # A box of size 0.1 that has moved on by (f, 2f) thousandths.
    share = (1 - 0.01) * (1 - 0.02)
    assert found[STILL].overlap[0] == pytest.approx(share / (2 - share), abs=1e-5)
    assert found[STILL].offset[0] == pytest.approx(np.hypot(0.01, 0.02), abs=1e-5)
    late = questions(tracks, 1000)
    late = horizons.Questions(late.tracks, late.truth, late.last[30:], late.ahead[30:])
    assert judged(late, {KALMAN: SIMPLE[KALMAN]}, 5)[KALMAN].overlap == pytest.approx([1.0] * 5, abs=0.01)


def test_runs_end_at_gaps():
    """Of 8 and of 9 boxes: 2 + 3 histories have a next box, and 2 have one two frames ahead."""
    tracks = tracks_of([1, 2, 3, 4, 5, 6, 7, 8, 20, 21, 22, 23, 24, 25, 26, 27, 28])
    asked = questions(tracks, 1000)
    assert tracks.frames[asked.last].tolist() == [6, 7, 25, 26, 27] and asked.ahead.tolist() == [2, 1, 3, 2, 1]
    assert counts(asked, 4) == [5, 3, 1, 0]
    found = judged(asked, {STILL: SIMPLE[STILL]}, 4)[STILL]
    assert (
        np.isnan(found.overlap[3])
        and horizons.as_json(asked, {"x": found}, [1, 4])["methods"]["x"]["overlap"][3] is None
    )


def test_as_many_as_are_asked_for_spread_over_all():
    asked = questions(tracks_of(list(range(400))), 10)
    assert len(asked.last) == 10 and asked.last[0] == 5 and asked.last[-1] == 398


def test_histories_are_what_was_seen_and_answers_what_was_there():
    tracks = tracks_of(list(range(20)))
    off = PackedTracks(tracks.boxes + np.float32(0.5), tracks.frames, tracks.seconds, tracks.starts)
    found = judged(questions(tracks, 100, off), {STILL: SIMPLE[STILL]}, 1)[STILL]
    assert found.overlap == [0.0] and found.offset[0] > 5


@pytest.mark.parametrize("timed", [False, True])
def test_a_model_continues_from_its_answers_unless_it_knows_time(monkeypatch, timed):
    """Asked rows are recorded; the answer is the last box moved by a hundredth."""
    rows = []

    def ask(given):
        rows.append(given)
        return given[:, -1, :4] + 0.01

    monkeypatch.setattr(horizons, "CpuTrackSSM", lambda model: ask)
    asked = questions(tracks_of(list(range(9))), 1)
    found = learned(TrackSSM(TrackSSMShape(blocks=1, timed=timed)))(asked, 3)
    last = asked.tracks.boxes[asked.last]
    if timed:
        assert np.allclose(found, last + 0.01, atol=1e-6)
        assert [float(torch.exp2(4 * one[0, 0, 9])) for one in rows] == pytest.approx([1, 2, 3], rel=1e-3)
    else:
        assert np.allclose(found[:, 0], last + 0.01 * np.arange(1, 4)[:, None], atol=1e-6)
        assert torch.allclose(rows[2][0, -2:, 4:], torch.tensor(0.01), atol=1e-6), "two answers are in the history"
