"""The loop-based reference reproduces the golden numbers, which come from executing the published code.

This is what allows the reference to stand in for the published code in every other test of assignment and loss.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.golden import inputs
from tests.reference.candidates import AnchorGrid
from tests.reference.yolov7_loss import LossResult, LossSettings, anchor_loss, aux_ota_loss, ota_loss
from tests.reference.yolox_loss import yolox_loss

GOLDEN = Path(inputs.__file__).parent
V7 = json.loads((GOLDEN / "v7_losses.json").read_text())
YOLOX = json.loads((GOLDEN / "yolox_losses.json").read_text())
LOSS_RTOL = 1e-6
GRAD_RTOL = 1e-5

TINY = AnchorGrid(
    anchors_px=[
        [(10, 13), (16, 30), (33, 23)],
        [(30, 61), (62, 45), (59, 119)],
        [(116, 90), (156, 198), (373, 326)],
    ],
    strides=[8, 16, 32],
)
W6 = AnchorGrid(
    anchors_px=[
        [(19, 27), (44, 40), (38, 94)],
        [(96, 68), (86, 152), (180, 137)],
        [(140, 301), (303, 264), (238, 542)],
        [(436, 615), (739, 380), (925, 792)],
    ],
    strides=[8, 16, 32, 64],
)
V7_CASES = ["nominal", "coco", "crowded", "sparse", "single_class", "empty"]


@pytest.fixture(scope="module")
def v7_arrays():
    with np.load(GOLDEN / "v7_losses.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def yolox_arrays():
    with np.load(GOLDEN / "yolox_losses.npz") as arrays:
        return dict(arrays)


def v7_inputs(case: str, strides: list[int], copies: int = 1) -> tuple[list[Tensor], Tensor, LossSettings]:
    """copies = 2 for lead and aux maps."""
    spec = V7[case]
    sizes = [spec["size"] // stride for stride in strides] * copies
    preds = [p.requires_grad_() for p in inputs.preds(f"preds.{case}", spec["batch"], 3, spec["nc"], sizes)]
    targets = inputs.targets(f"targets.{case}", spec["batch"], spec["nc"], spec["mean"])
    assert len(targets) == spec["n_targets"]
    return preds, targets, LossSettings(**spec["hyp"])


def check_v7(result: LossResult, preds: list[Tensor], arrays: dict[str, np.ndarray], prefix: str) -> None:
    result.loss.backward()
    np.testing.assert_allclose(result.loss.item(), arrays[f"{prefix}.loss"].item(), rtol=LOSS_RTOL)
    np.testing.assert_allclose(result.items.numpy(), arrays[f"{prefix}.items"], rtol=LOSS_RTOL)
    check_gradients(preds, arrays, prefix)


def check_gradients(preds: list[Tensor], arrays: dict[str, np.ndarray], prefix: str) -> None:
    assert f"{prefix}.grad{len(preds)}" not in arrays
    for level, pred in enumerate(preds):
        expected = arrays[f"{prefix}.grad{level}"]
        assert np.linalg.norm(expected) > 0
        difference = np.linalg.norm(pred.grad.numpy() - expected) / np.linalg.norm(expected)
        assert difference < GRAD_RTOL, f"{prefix} level {level}: {difference:.2e}"


def match_rows(result: LossResult, targets: Tensor, level: int) -> list[tuple[float, ...]]:
    """Rows as the golden file has them: image, anchor, gj, gi, target row."""
    return [(p.image, p.anchor, p.gj, p.gi, *targets[p.target].tolist()) for p in result.positives if p.level == level]


@pytest.mark.slow
@pytest.mark.parametrize("case", V7_CASES)
def test_anchor_loss(case, v7_arrays):
    preds, targets, settings = v7_inputs(case, TINY.strides)
    check_v7(anchor_loss(preds, targets, TINY, settings), preds, v7_arrays, f"{case}.anchor")


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in V7_CASES if case != "empty"])
@pytest.mark.parametrize("fixed", [False, True])  # the images are square, where both scalings agree
def test_ota_loss(case, fixed, v7_arrays):
    preds, targets, settings = v7_inputs(case, TINY.strides)
    size = (V7[case]["size"],) * 2
    result = ota_loss(preds, targets, TINY, size, settings, fixed=fixed)
    check_v7(result, preds, v7_arrays, f"{case}.ota")
    for level in range(3):
        golden = v7_arrays.get(f"{case}.ota.match{level}", np.zeros((0, 10)))  # absent: nothing matched on that level
        assert sorted(match_rows(result, targets, level)) == sorted(map(tuple, golden.tolist()))


@pytest.mark.slow
def test_aux_ota_loss(v7_arrays):
    preds, targets, settings = v7_inputs("aux", W6.strides, copies=2)
    size = (V7["aux"]["size"],) * 2
    check_v7(aux_ota_loss(preds, targets, W6, size, settings), preds, v7_arrays, "aux.ota")


def test_every_golden_v7_case_is_covered(v7_arrays):
    covered = {f"{case}.{kind}" for case in V7_CASES for kind in ("anchor", "ota")} - {"empty.ota"} | {"aux.ota"}
    assert {key.removesuffix(".loss") for key in v7_arrays if key.endswith(".loss")} == covered


@pytest.mark.slow
@pytest.mark.parametrize("case", list(YOLOX))
def test_yolox_loss(case, yolox_arrays):
    spec = YOLOX[case]
    strides = [8, 16, 32]
    preds = []
    for level, stride in enumerate(strides):
        n = spec["size"] // stride
        raw = inputs.rng(f"xp.{case}.{level}").standard_normal((spec["batch"], 5 + spec["nc"], n, n)) * 0.7
        raw[:, 4:] -= 1
        preds.append(torch.from_numpy(raw.astype(np.float32)).requires_grad_())
    labels = torch.from_numpy(yolox_arrays[f"{case}.labels"])
    result = yolox_loss(preds, labels, strides, use_l1=spec["use_l1"])
    result.loss.backward()
    np.testing.assert_allclose(result.items.numpy(), yolox_arrays[f"{case}.items"], rtol=LOSS_RTOL)
    check_gradients(preds, yolox_arrays, case)
