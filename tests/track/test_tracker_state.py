"""A tracker's state: kept in a file without a pickle, loaded into its like, and refused by all others."""

import io
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.bench_track import crowd
from yolofast import UserError, build_tracker
from yolofast.track.trackers.table import TRACKERS

NAMES = list(TRACKERS)
BOX = np.array([[100.0, 100.0, 150.0, 200.0]])


def saved(tracker):
    """As a file of NumPy gives it back."""
    file = io.BytesIO()
    np.savez(file, **tracker.state_dict())
    file.seek(0)
    return np.load(file)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("faithful", [False, True])
def test_a_stream_that_restarts_continues_its_identities(name, faithful):
    frames = crowd(12, 60)
    whole, part = build_tracker(name, faithful=faithful), build_tracker(name, faithful=faithful)
    for boxes, scores in frames[:30]:
        whole.update(boxes, scores), part.update(boxes, scores)
    restarted = build_tracker(name, faithful=faithful)
    restarted.load_state_dict(saved(part))
    for boxes, scores in frames[30:]:
        one, two = whole.update(boxes, scores), restarted.update(boxes, scores)
        assert one.ids.tolist() == two.ids.tolist() and np.array_equal(one.boxes, two.boxes)
    restarted.reset()
    fresh = build_tracker(name, faithful=faithful)
    for boxes, scores in frames:
        assert restarted.update(boxes, scores).ids.tolist() == fresh.update(boxes, scores).ids.tolist()


def test_camera_and_appearance_are_kept_too():
    image = np.random.default_rng(0).integers(0, 255, (120, 160, 3), np.uint8)
    one, other = (build_tracker("botsort", with_reid=True) for _ in range(2))
    for moved in range(3):
        one.update(BOX, [0.9], features=[[1.0, 2.0]], image=np.roll(image, moved, 1))
    other.load_state_dict(saved(one))
    again, wanted = other.state_dict(), one.state_dict()
    assert again.keys() == wanted.keys() and {"camera.points", "motion.blocks", "columns.features"} < wanted.keys()
    assert all(np.array_equal(again[name], value) for name, value in wanted.items())


def test_the_example_of_the_documentation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    (example,) = (code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "savez" in code)
    names: dict = {}
    exec(example, names)
    assert names["restarted"].frame == names["tracker"].frame == 1 and len(names["restarted"].state.ids) == 1


def test_a_state_shares_no_memory():
    tracker = build_tracker("botsort")
    state = tracker.state_dict()
    tracker.load_state_dict(state)
    for _ in range(3):
        tracker.update(BOX, [0.9], image=np.zeros((60, 80), np.uint8))
    assert not len(state["columns.ids"])


def changed(**values):
    tracker = build_tracker("botsort")
    for _ in range(3):
        tracker.update(BOX, [0.9], image=np.full((60, 80, 3), 9, np.uint8))
    return {**tracker.state_dict(), **{name.replace("__", "."): value for name, value in values.items()}}


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (None, "the state is None"),
        ("state.npz", "the state is 'state.npz'"),
        ([1, 2], r"the state is \[1, 2\]"),
        ({}, "the state has no 'tracker'"),
        ({"tracker": "botsort"}, "the state is of other settings"),
        (build_tracker("ocsort").state_dict(), "the state is of 'ocsort', this is botsort"),
        (build_tracker("botsort", match_thresh=0.7).state_dict(), "other settings: match_thresh 0.7, here 0.8"),
        (build_tracker("botsort", frame_rate=25).state_dict(), "other settings: frame_rate 25.0, here 30.0"),
        (build_tracker("botsort", classes="each").state_dict(), "other settings: classes 'each', here 'vote'"),
        (build_tracker("botsort", faithful=True).state_dict(), "faithful True, here False"),
        (changed(frame="x"), "frame is <U1"),
        (changed(frame=-1), "frame is -1"),
        (changed(time=float("nan")), "time contains NaN"),
        (changed(columns__ids=[1.5]), "ids is float64"),
        (changed(columns__scores=[0.9, 0.9]), r"scores is float64 \[2\]"),
        (changed(columns__scores=[np.nan]), "scores contains NaN"),
        (changed(columns__votes=None), "votes is object"),
        (changed(motion__filters=np.zeros((5, 4, 2))), r"filters is float64 \[5, 4, 2\]"),
        (changed(camera__grey="grey"), "grey is <U4"),
        ({name: value for name, value in changed().items() if name != "columns.ids"}, "'ids' is missing"),
        ({name: value for name, value in changed().items() if name != "motion.filters"}, "'filters' is missing"),
    ],
)
def test_what_is_no_state_of_it_is_refused_and_leaves_no_trace(state, said):
    tracker = build_tracker("botsort")
    tracker.update(BOX, [0.9])
    before = tracker.state_dict()
    with pytest.raises(UserError, match=said) as error:
        tracker.load_state_dict(state)
    assert error.value.fix and len(re.findall("\n", str(error.value))) == 1
    after = tracker.state_dict()
    assert all(np.array_equal(after[name], value) for name, value in before.items())


def test_a_file_with_pickles_is_refused():
    file = io.BytesIO()
    np.savez(file, tracker=np.array([{}], object))
    file.seek(0)
    with pytest.raises(UserError, match="the state cannot be used: Object arrays"):
        build_tracker("botsort").load_state_dict(np.load(file))
