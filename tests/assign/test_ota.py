"""The fixed-shape `anchor` and `ota` losses reproduce the golden numbers, made by executing the published code."""

import numpy as np
import pytest
import torch

from tests.assign.test_reference_golden import GRAD_RTOL, LOSS_RTOL, TINY, V7, V7_CASES, W6, v7_inputs
from tests.map_reader import gradients, map_reader, positives, rows_in_places
from tests.reference.yolov7_loss import aux_ota_loss
from yolofast import Targets, build_loss
from yolofast.loss.criterion import LossSettings
from yolofast.train.losses.yolov7_criterion import YoloV7Criterion, anchors_in_cells

CASES = [(case, kind) for case in V7_CASES for kind in ("anchor", "ota") if (case, kind) != ("empty", "ota")]
CASES += [("aux", "ota")]


@pytest.fixture(scope="module")
def arrays():
    from tests.golden import inputs

    with np.load(inputs.__file__.replace("inputs.py", "v7_losses.npz")) as stored:
        return dict(stored)


def golden_case(case: str, kind: str):
    """Criterion, raw maps and target rows."""
    grid, copies = (W6, 2) if case == "aux" else (TINY, 1)
    raw, rows, reference_settings = v7_inputs(case, grid.strides, copies)
    reader = map_reader(grid, V7[case]["nc"], auxiliary=case == "aux")
    return YoloV7Criterion(reader, LossSettings(**vars(reference_settings)), kind, faithful=True), raw, rows


def unscaled(case: str) -> dict[str, float]:
    """The golden file holds gains after the published scaling; hyper-parameter files hold them before it."""
    spec = V7[case]
    hyp, per_level = dict(spec["hyp"]), 3 / (4 if case == "aux" else 3)
    hyp["box"] /= per_level
    hyp["cls"] /= spec["nc"] / 80 * per_level
    hyp["obj"] /= (spec["size"] / 640) ** 2 * per_level
    return hyp


@pytest.mark.parametrize(("case", "kind"), CASES)
def test_golden_losses_and_gradients(case, kind, arrays):
    _, raw, rows = golden_case(case, kind)
    reader = map_reader(W6 if case == "aux" else TINY, V7[case]["nc"], auxiliary=case == "aux")
    loss = build_loss(reader, unscaled(case), V7[case]["size"], kind)
    terms = loss(raw, Targets.from_rows(rows, len(raw[0])))
    box, obj, cls, total = arrays[f"{case}.{kind}.items"].tolist()
    assert terms.box.item() == pytest.approx(box, rel=LOSS_RTOL)
    assert terms.obj.item() == pytest.approx(obj, rel=LOSS_RTOL)
    assert terms.cls.item() == pytest.approx(cls, rel=LOSS_RTOL)
    assert terms.total.item() == pytest.approx(total * len(raw[0]), rel=LOSS_RTOL)
    assert terms.total.item() == pytest.approx(arrays[f"{case}.{kind}.loss"].item(), rel=LOSS_RTOL)
    for level, gradient in enumerate(gradients(terms.total, raw)):
        expected = torch.from_numpy(arrays[f"{case}.{kind}.grad{level}"])
        assert (gradient - expected).norm() < GRAD_RTOL * expected.norm(), level


@pytest.mark.parametrize("case", [case for case in V7_CASES if case != "empty"])
def test_golden_matched_sets(case, arrays):
    criterion, raw, rows = golden_case(case, "ota")
    targets = Targets.from_rows(rows, len(raw[0]))
    assignment = criterion.assign(raw, targets, anchors_in_cells(criterion.model), reach=0.5, topk=10)
    found = positives(assignment, raw, rows)
    for level in range(3):
        golden = arrays.get(f"{case}.ota.match{level}", np.zeros((0, 10)))  # absent: nothing matched on that level
        here = [(p.image, p.anchor, p.gj, p.gi, *rows[p.target].tolist()) for p in found if p.level == level]
        assert sorted(here) == sorted(map(tuple, golden.tolist()))


@pytest.mark.slow
def test_golden_aux_matched_sets():
    """The golden file has none for aux; the loop reference, which reproduces its losses, has."""
    criterion, raw, rows = golden_case("aux", "ota")
    size = (V7["aux"]["size"],) * 2
    reference = aux_ota_loss(raw, rows, W6, size, v7_inputs("aux", W6.strides, 2)[2])
    targets, anchors = Targets.from_rows(rows, len(raw[0])), anchors_in_cells(criterion.model)
    for reach, expected in ((0.5, reference.positives), (1.0, reference.aux_positives)):
        assignment = criterion.assign(raw[:4], targets, anchors, reach=reach, topk=20)
        assert positives(assignment, raw[:4], rows) == sorted(expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["anchor", "ota"])
def test_shuffled_rows_of_other_images_and_spare_places_change_nothing(kind):
    """Only the order of rows within an image may matter, and how far it is padded never."""
    criterion, raw, rows = golden_case("crowded", kind)
    expected = criterion(raw, Targets.from_rows(rows, len(raw[0])))
    places = rows_in_places(rows, len(raw[0]))
    by_place = [row for image in reversed(places) for row in image]
    for capacity in (None, 100):
        terms = criterion(raw, Targets.from_rows(rows[by_place], len(raw[0]), capacity))
        torch.testing.assert_close(terms.total, expected.total, rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", ["anchor", "ota"])
def test_maps_as_channels_last_convolutions_give_them(kind):
    """Image, y, x, anchor, channel in memory: another way to the same numbers."""
    criterion, raw, rows = golden_case("nominal", kind)
    targets = Targets.from_rows(rows, len(raw[0]))
    expected = criterion(raw, targets).total
    strided = [m.detach().permute(0, 2, 3, 1, 4).contiguous().permute(0, 3, 1, 2, 4).requires_grad_() for m in raw]
    found = criterion(strided, targets).total
    assert found.equal(expected)
    for gradient, other in zip(gradients(found, strided), gradients(expected, raw), strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-6, atol=1e-9)
