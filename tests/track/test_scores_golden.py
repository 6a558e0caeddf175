"""HOTA, CLEAR and Identity are TrackEval's, to 1e-9, in all variants, benchmarks and class averages."""

import time

import numpy as np
import pytest

from tests.track.golden import GOLDEN, beside, differences, expected
from yolofast import score_tracks

METRICS = expected(GOLDEN / "metrics")
PREPROCESSING = expected(GOLDEN / "preprocessing")
MULTICLASS = expected(GOLDEN / "multiclass")
BENCHMARKS = {"mot17": "MOT17", "mot20": "MOT20", "none": "no_preprocessing"}


@pytest.mark.parametrize("variant", METRICS["results"])
def test_every_figure_of_every_variant(variant):
    folder = GOLDEN / "metrics"
    scores = score_tracks(folder / "gt", folder / "results" / variant, benchmark="mot15", lengths=METRICS["lengths"])
    wanted = METRICS["results"][variant]
    assert not differences(scores.to_dict(), wanted)
    assert {title: block.keys() for title, block in scores.to_dict()["SYN-11"].items()} == {
        title: block.keys() for title, block in wanted["SYN-11"].items()
    }


@pytest.mark.parametrize("rules", BENCHMARKS)
@pytest.mark.parametrize("variant", PREPROCESSING["MOT17"])
def test_preprocessing_of_benchmarks(rules, variant):
    folder = GOLDEN / "preprocessing"
    scores = score_tracks(
        folder / "gt", folder / "results" / variant, benchmark=rules, lengths=PREPROCESSING["lengths"]
    )
    assert not differences(scores.to_dict(), PREPROCESSING[BENCHMARKS[rules]][variant])


@pytest.mark.parametrize("variant", MULTICLASS["results"])
def test_classes_and_their_averages(variant):
    folder, wanted = GOLDEN / "multiclass", MULTICLASS["results"][variant]
    scores = score_tracks(
        folder / "gt", folder / "results" / variant, lengths=MULTICLASS["lengths"], classes=MULTICLASS["classes"]
    )
    assert not differences(scores.to_dict(), wanted)
    with_truth = [one for one in wanted["per_class"].values() if one["Count"]["GT_Dets"]]
    assert len(with_truth) == 6
    for block, name in (("CLEAR", "MOTA"), ("Identity", "IDF1"), ("HOTA", "HOTA(0)")):
        mean = np.mean([one[block][name] for one in with_truth])
        assert scores.class_average_of_truth[name] == pytest.approx(mean, abs=1e-9)
    assert scores.class_average_of_truth.MOTA > 0.6 and scores.class_agnostic is scores.combined


def test_all_classes_that_occur():
    folder = GOLDEN / "multiclass"
    scores = score_tracks(folder / "gt", folder / "results" / "all", lengths=MULTICLASS["lengths"], classes="all")
    assert list(scores.per_class) == MULTICLASS["classes"]


@pytest.mark.slow
def test_with_the_sequences_beside_the_repository_and_in_two_seconds():
    """All 12 × 3 evaluations: 0.3 s of one core; combined scores are there too."""
    if (folder := beside()) is None:
        pytest.skip("there is no shared/golden_tracking beside the repository")
    wanted = expected(folder / "metrics")
    start = time.process_time()
    for variant, results in wanted["results"].items():
        place = folder / "metrics"
        scores = score_tracks(place / "gt", place / "results" / variant, benchmark="mot15", lengths=wanted["lengths"])
        assert not differences(scores.to_dict(), results)
    assert time.process_time() - start < 2


def crowd(frames=10_000, objects=50, seed=0):
    """Boxes that wander over one another, found with noise, gaps and a new id now and then."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(0, 4, (frames, objects, 2)).cumsum(axis=0) + rng.uniform(0, [1500, 800], (objects, 2))
    place = np.abs(np.mod(steps, [3000, 1600]) - [1500, 800])  # reflected at the edges
    size = np.broadcast_to(rng.uniform(40, 120, (objects, 2)), place.shape)
    frame = np.repeat(np.arange(1, frames + 1), objects)
    ids = np.tile(np.arange(objects), frames)
    truth = np.column_stack([frame, ids, place.reshape(-1, 2), size.reshape(-1, 2)])
    renamed = (rng.random((frames, objects)) < 0.002).cumsum(axis=0) * objects + np.arange(objects)
    moved = place + rng.normal(0, 5, place.shape)
    results = np.column_stack([frame, renamed.ravel(), moved.reshape(-1, 2), size.reshape(-1, 2)])
    return truth, results[rng.random(len(results)) < 0.9]


@pytest.mark.slow
def test_a_long_crowded_sequence_within_ten_seconds():
    truth, results = crowd()
    start = time.process_time()
    scores = score_tracks(truth, results)
    assert time.process_time() - start < 10
    assert scores.combined["GT_Dets"] == 500_000 and scores.combined.DetRe > 0.7
