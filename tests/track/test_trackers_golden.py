"""What the published trackers gave out, frame by frame: ids equal, boxes to the four decimals that are stored."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.track.golden import GOLDEN, beside
from tests.track.tracker_cases import read_frames
from yolofast import build_tracker

OWN = GOLDEN / "trackers"
_DECIMALS = 6e-5  # half of the last one, and rounding


def sequences(folder: Path) -> list[Path]:
    return sorted((folder / "expected").glob("*.json"))


def foreign() -> list[Path]:
    """Sequences that may be tested with and not be shipped."""
    folder = beside()
    return [] if folder is None else [path for path in sequences(folder / "trackers") if path.name.startswith("TUD")]


def compare(tracker, settings, detections, frames, warps=None, features=None):
    tracker = build_tracker(tracker, faithful=True, **settings)
    renamed: dict[int, int] = {}
    for number, ((boxes, scores), rows) in enumerate(zip(read_frames(detections, len(frames)), frames, strict=True)):
        given = {} if warps is None or not number else {"warp": warps[number - 1]}
        if features is not None:
            given["features"] = np.array(features[number] or np.zeros((0, 1)))
        found = tracker.update(boxes, scores, **given)
        assert len(found) == len(rows), f"frame {number + 1}"
        if not rows:
            continue
        ids, expected = [row[0] for row in rows], np.array([row[1:5] for row in rows])
        sizes = found.boxes[:, 2:] - found.boxes[:, :2]
        off = np.abs(np.concatenate((found.boxes[:, :2], sizes), axis=1) - expected)
        assert off.max() <= _DECIMALS, f"frame {number + 1}"
        if tracker.name == "ocsort":  # the solver's ties decide who is named first
            for own, theirs in zip(found.ids.tolist(), ids, strict=True):
                assert renamed.setdefault(own, theirs) == theirs
            assert len(set(renamed.values())) == len(renamed)
            continue
        assert found.ids.tolist() == ids, f"frame {number + 1}"
        assert np.allclose(found.scores, [row[5] for row in rows], atol=1e-4)
        if tracker.name == "botsort":
            assert found.confirmed.tolist() == [row[6] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("path", [*sequences(OWN), *foreign()], ids=lambda path: path.stem)
def test_a_sequence(path):
    golden, folder = json.loads(path.read_text()), path.parent.parent

    def given(what, key):
        return json.loads((folder / golden[what]).read_text())[key] if what in golden else None

    compare(
        golden["tracker"], golden["settings"], folder / golden["detections"], golden["frames"],
        given("warps", "warps"), given("features", "frames"),
    )  # fmt: skip


@pytest.mark.parametrize("tracker", ["bytetrack", "botsort", "ocsort"])
@pytest.mark.parametrize("path", sorted((OWN / "by_hand").glob("*.json")), ids=lambda path: path.stem)
def test_a_case_by_hand(path, tracker):
    golden = json.loads(path.read_text())["expected"][tracker]
    compare(tracker, golden["settings"], path.with_suffix(".txt"), golden["frames"])
