"""What every YOLOv7 loss owes, whatever its assigner and head: finite numbers, in half precision too."""

import pytest
import torch

from tests.loss.criteria import KINDS, criterion_and_maps, random_rows
from tests.map_reader import gradients, targets_of
from yolofast.structures import Targets

pytestmark = pytest.mark.parametrize("kind", KINDS)
NOTHING = torch.zeros(0, 6)


def assert_finite(terms, raw):
    assert all(value.isfinite() for value in (terms.total, *terms.parts.values()))
    assert all(gradient.isfinite().all() for gradient in gradients(terms.total, raw))


@pytest.mark.parametrize("faithful", [True, False])
def test_no_targets(kind, faithful):
    loss, raw = criterion_and_maps(kind, faithful)
    terms = loss(raw, Targets.from_rows(NOTHING, 2))
    assert terms.box == terms.cls == 0
    assert terms.obj > 0
    assert_finite(terms, raw)


@pytest.mark.parametrize("faithful", [True, False])
def test_boxes_nobody_can_learn(kind, faithful):
    """Too thin for any anchor and without a cell's centre inside; image 1 has no box at all."""
    loss, raw = criterion_and_maps(kind, faithful)
    terms = loss(raw, targets_of([[0, 0, 0.5, 0.5, 0.9, 0.001], [0, 3, 0.2, 0.2, 0.001, 0.9]], batch=2))
    assert terms.box == terms.cls == 0
    assert terms.obj > 0
    assert_finite(terms, raw)


def test_image_without_candidates_beside_one_with(kind):
    """The thin box changes nothing: the image it is in gives no positives, the other keeps its own."""
    loss, raw = criterion_and_maps(kind)
    wide, thin = [0, 1, 0.4, 0.4, 0.3, 0.3], [1, 1, 0.5, 0.5, 0.9, 0.001]
    alone, both = loss(raw, targets_of([wide], batch=2)), loss(raw, targets_of([wide, thin], batch=2))
    assert alone.box > 0
    assert both.box == alone.box
    assert both.cls == alone.cls


@pytest.mark.parametrize("level", [200.0, -200.0])
@pytest.mark.parametrize("faithful", [True, False])
def test_saturated_predictions(kind, level, faithful):
    loss, raw = criterion_and_maps(kind, faithful)
    raw = [m.detach().fill_(level).requires_grad_() for m in raw]
    assert_finite(loss(raw, Targets.from_rows(random_rows(12), 2)), raw)


def test_predictions_saturated_either_way(kind):
    loss, raw = criterion_and_maps(kind, scale=200.0)
    assert_finite(loss(raw, Targets.from_rows(random_rows(12), 2)), raw)


@pytest.mark.parametrize("faithful", [True, False])
def test_boxes_without_area(kind, faithful):
    """Beside a real box, from which OTA lets them take a candidate."""
    loss, raw = criterion_and_maps(kind, faithful)
    flat = [[0, 0, 0.4, 0.4, 0.0, 0.3], [0, 1, 0.4, 0.4, 0.3, 0.0], [0, 2, 0.4, 0.4, 0.0, 0.0], [1, 3, 1.0, 1.0, 0, 0]]
    for scale in (1, 0):  # 0: predictions that are the anchor, in the middle of the cell
        some = [(m.detach() * scale).requires_grad_() for m in raw]
        assert_finite(loss(some, targets_of([*flat, [0, 1, 0.4, 0.4, 0.3, 0.3]], batch=2)), some)


def test_half_precision_maps_give_float32_terms(kind):
    loss, raw = criterion_and_maps(kind)
    targets = Targets.from_rows(random_rows(12), 2)
    half = [m.detach().bfloat16().requires_grad_() for m in raw]
    exact = [m.detach().float().requires_grad_() for m in half]
    terms, expected = loss(half, targets), loss(exact, targets)
    assert terms.total.dtype == torch.float32
    torch.testing.assert_close(terms.total, expected.total, rtol=1e-6, atol=0)
    for gradient, other in zip(gradients(terms.total, half), gradients(expected.total, exact), strict=True):
        assert gradient.dtype == torch.bfloat16
        assert (gradient.float() - other).norm() <= 2.0**-8 * other.norm()
