"""TrackEval itself beside ours, on random sequences full of ties, empty frames and strangers.

`make develop` installs it without what it requires: that would replace OpenCV by a build that needs a screen.
"""

import numpy as np
import pytest

from tests.track.golden import differences
from tests.track.test_scores_golden import crowd
from yolofast import score_tracks
from yolofast.track.formats.mot import sequence_of_rows
from yolofast.track.score.prepare import prepare

trackeval = pytest.importorskip("trackeval", reason="TrackEval is not installed: make develop")


def oracle(truth, results):
    """TrackEval's metrics, on the similarities that its own function computes."""
    given = prepare(sequence_of_rows("a", truth, "truth"), sequence_of_rows("a", results, "results"))
    iou = trackeval.datasets._base_dataset._BaseDataset._calculate_box_ious
    data = {"gt_ids": [], "tracker_ids": [], "similarity_scores": [], "num_timesteps": given.truth.length}
    for frame in range(given.truth.length):
        own = slice(*given.pairs.truth_starts[frame : frame + 2])
        other = slice(*given.pairs.result_starts[frame : frame + 2])
        data["gt_ids"].append(given.truth_id[own])
        data["tracker_ids"].append(given.result_id[other])
        data["similarity_scores"].append(iou(given.truth.box[own], given.results.box[other], box_format="x0y0x1y1"))
    data |= {
        "num_gt_dets": len(given.truth),
        "num_tracker_dets": len(given.results),
        "num_gt_ids": len(given.truth_ids),
        "num_tracker_ids": len(given.result_ids),
    }
    quiet = {"PRINT_CONFIG": False}
    metrics = {
        "HOTA": trackeval.metrics.HOTA(),
        "CLEAR": trackeval.metrics.CLEAR(quiet),
        "Identity": trackeval.metrics.Identity(quiet),
        "Count": trackeval.metrics.Count(),
    }
    found = {name: metric.eval_sequence(data) for name, metric in metrics.items()}
    return {
        title: {name: np.asarray(value).tolist() for name, value in block.items()} for title, block in found.items()
    }


def random_rows(rng, frames, objects):
    """Boxes on a coarse grid, so that many coincide."""
    rows = []
    for frame in range(1, frames + 1):
        ids = rng.permutation(objects * 2)[: rng.integers(0, objects + 1)]
        corner, size = rng.integers(0, 6, (len(ids), 2)) * 5, rng.integers(1, 4, (len(ids), 2)) * 5
        rows.append(np.column_stack([np.full(len(ids), frame), ids, corner, size]))
    return np.concatenate(rows)


@pytest.mark.parametrize("seed", range(25))
def test_random_sequences(seed):
    rng = np.random.default_rng(seed)
    frames, objects = rng.integers(1, 30), rng.integers(1, 8)
    truth, results = random_rows(rng, frames, objects), random_rows(rng, frames, objects)
    assert not differences(score_tracks(truth, results).to_dict()["sequence"], oracle(truth, results))


def test_nothing_on_either_side():
    some = random_rows(np.random.default_rng(0), 20, 4)
    for truth, results in ((some, some[:0]), (some[:0], some), (some[:0], some[:0]), (some, some)):
        assert not differences(score_tracks(truth, results).to_dict()["sequence"], oracle(truth, results))


def test_a_crowd():
    truth, results = crowd(frames=150, objects=40, seed=5)
    assert not differences(score_tracks(truth, results).to_dict()["sequence"], oracle(truth, results))
