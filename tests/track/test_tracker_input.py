"""What `update` takes for numbers, and what it refuses by name. Nothing it refuses leaves a trace or a warning."""

import numpy as np
import pytest
import torch

from yolofast import UserError, build_tracker
from yolofast.track.trackers.table import TRACKERS

NAMES = list(TRACKERS)
BOX = np.array([[100.0, 100.0, 150.0, 200.0]])
pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize(
    "given",
    [
        {"boxes": BOX.tolist(), "scores": (0.9,), "labels": [0]},
        {"boxes": BOX.astype(int), "labels": np.array([0], np.uint8)},
        {"boxes": BOX.astype(np.float16), "scores": np.array([0.9], np.float16)},
        {"boxes": BOX.astype(object), "labels": np.array([0.0])},
        {"boxes": np.ma.masked_array(BOX), "scores": [[0.9]]},
        {"boxes": torch.tensor(BOX), "scores": torch.tensor([0.9]), "labels": torch.tensor([0])},
        {"time": np.float32(0.5)},
        {"time": torch.tensor(0.5)},
        {"warp": torch.eye(2, 3)},
        {"size": np.array([640, 480])},
        {"image": np.zeros((50, 60), np.uint8)},
        {"image": np.zeros((50, 60, 3), np.uint8)[:, ::-1, ::-1]},
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_numbers_in_any_form(name, given):
    tracker = build_tracker(name)
    for _ in range(3):
        tracker.update(BOX, [0.9], [0])
    assert tracker.update(**{"boxes": BOX, "scores": [0.9], **given}).ids.tolist() == [1]


MASK = np.array([[True, False, False, False]])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"boxes": None}, "boxes is None"),
        ({"boxes": "abcd"}, "boxes: 'abcd' is not made of numbers"),
        ({"boxes": [["1", "2", "3", "4"]]}, "boxes: .* is not made of numbers"),
        ({"boxes": {1: 2}}, "boxes: TypeError"),
        ({"boxes": [[1, 2], [3]]}, "boxes: ValueError"),
        ({"boxes": BOX + 1j}, "boxes: .* is not made of numbers"),
        ({"boxes": np.ma.masked_array(BOX, MASK)}, "boxes: some values are masked"),
        ({"boxes": torch.tensor(BOX, requires_grad=True)}, r"boxes: RuntimeError: .*detach\(\)"),
        ({"boxes": torch.tensor(BOX).bfloat16()}, "boxes: TypeError: .*BFloat16"),
        ({"boxes": [[0, 0, 1e200, 1e200]]}, r"box 0 is \[0.0, 0.0, 1e\+200"),
        ({"boxes": [[0, 0, float("inf"), 9]]}, "box 0 is"),
        ({"scores": None}, "scores is None"),
        ({"scores": ["0.9"]}, "scores: .'0.9'. is not made of numbers"),
        ({"scores": np.ma.masked_array([0.9], [True])}, "scores: some values are masked"),
        ({"scores": np.array(["2020-01-01"], "datetime64[D]")}, "scores: .* is not made of numbers"),
        ({"boxes": np.repeat(BOX, 6, 0), "scores": np.full((2, 3), 0.9)}, r"scores have the shape \(2, 3\)"),
        ({"scores": [85.0]}, "scores contain 85"),
        ({"scores": [-0.5]}, "scores contain -0.5"),
        ({"scores": [float("nan")]}, "scores contain nan"),
        ({"labels": ["car"]}, "labels: .'car'. is not made of numbers"),
        ({"labels": ["0"]}, "labels: .'0'. is not made of numbers"),
        ({"labels": [10**30]}, "labels contain 1e[+]30"),
        ({"labels": np.array([np.nan])}, "labels contain nan"),
        ({"labels": [float("inf")]}, "labels contain inf"),
        ({"labels": [[0, 1]]}, "2 labels for 1 boxes"),
        ({"warp": "x"}, "warp: 'x' is not made of numbers"),
        ({"warp": np.full((2, 3), 1e300)}, "warp is"),
        ({"time": [1, 2]}, r"time is \[1, 2\]"),
        ({"time": "1.0"}, "time is '1.0'"),
        ({"time": float("nan")}, "time is nan"),
        ({"time": 1j}, "time is 1j"),
        ({"size": "ab"}, "size is 'ab'"),
        ({"size": (0, 480)}, r"size is \(0, 480\)"),
        ({"size": (1, 2, 3)}, r"size is \(1, 2, 3\)"),
        ({"image": "street.jpg"}, "an image is str"),
        ({"image": [[1]]}, "an image is list"),
        ({"image": np.zeros((9, 9, 3), np.uint16)}, r"an image is uint16 \[9, 9, 3\]"),
        ({"image": np.zeros(5, np.uint8)}, r"an image is uint8 \[5\]"),
        ({"image": torch.zeros(9, 9, 3)}, "an image is Tensor"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_everything_else_is_named(name, given, said):
    tracker = build_tracker(name)
    tracker.update(BOX, [0.9])
    before = tracker.state_dict()
    with pytest.raises(UserError, match=said) as error:
        tracker.update(**{"boxes": BOX, "scores": [0.9], **given})
    assert error.value.fix
    after = tracker.state_dict()
    assert all(np.array_equal(after[name], value) for name, value in before.items())


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ([1, 2], r"features have the shape \(2,\)"),
        (np.zeros((1, 0)), r"features have the shape \(1, 0\)"),
        ([["a"]], "features: .* is not made of numbers"),
        ([[1e300, 1e300]], "a huge number"),
        ([[1.0, 2.0, 3.0]], "features have 3 values, 2 before"),
    ],
)
@pytest.mark.parametrize("name", ["botsort", "boosttrack"])
def test_features_that_are_wrong(name, features, said):
    tracker = build_tracker(name, with_reid=True)
    tracker.update(BOX, [0.9], features=[[1.0, 2.0]])
    with pytest.raises(UserError, match=said):
        tracker.update(BOX, [0.9], features=features)


@pytest.mark.parametrize("name", NAMES)
def test_features_nobody_looks_at_are_refused(name):
    tracker = build_tracker(name)
    with pytest.raises(UserError, match=f"features are given, but {tracker.name} does not use them") as error:
        tracker.update(BOX, [0.9], features=[[1.0, 2.0]])
    assert "with_reid=True, or omit features" in str(error.value.fix)
