import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from yolofast import boxes

OVERLAPS = [boxes.iou, boxes.ciou_cxcywh]
coordinate = st.floats(-1e4, 1e4, width=32)
any_box = st.lists(coordinate, min_size=4, max_size=4)


def test_formats():
    xyxy = torch.tensor([[10.0, 20.0, 50.0, 100.0]])
    assert torch.equal(boxes.cxcywh_to_xyxy(torch.tensor([[30.0, 60.0, 40.0, 80.0]])), xyxy)
    normalised = boxes.to_normalised(xyxy, width=100, height=200)
    torch.testing.assert_close(normalised, torch.tensor([[0.1, 0.1, 0.5, 0.5]]))
    torch.testing.assert_close(boxes.to_pixels(normalised, width=100, height=200), xyxy)


def test_values_worked_out_by_hand():
    a = torch.tensor([1.0, 1.0, 2.0, 2.0])
    b = torch.tensor([2.0, 2.0, 2.0, 2.0])
    iou = 1 / 7
    assert boxes.iou(boxes.cxcywh_to_xyxy(a), boxes.cxcywh_to_xyxy(b)).item() == pytest.approx(iou, abs=1e-6)
    # Centres √2 apart, diagonal √18, the same aspect ratio.
    assert boxes.ciou_cxcywh(a, b).item() == pytest.approx(iou - 2 / 18, abs=1e-6)


def test_ciou_aspect_term():
    a, b = torch.tensor([0.0, 0.0, 2.0, 4.0]), torch.tensor([0.0, 0.0, 4.0, 2.0])
    iou = 4 / 12
    v = 4 / math.pi**2 * (math.atan(2) - math.atan(0.5)) ** 2
    assert boxes.ciou_cxcywh(a, b).item() == pytest.approx(iou - v * v / (v - iou + 1), abs=1e-6)


def test_ciou_weight_carries_no_gradient():
    """Nor does the distance of centres that lie upon one another."""
    a = torch.tensor([0.0, 0.0, 2.0, 4.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([0.0, 0.0, 4.0, 2.0], dtype=torch.float64)
    boxes.ciou_cxcywh(a, b).backward()
    published = a.grad.clone()
    iou = boxes.iou(boxes.cxcywh_to_xyxy(a), boxes.cxcywh_to_xyxy(b))
    v = 4 / math.pi**2 * (math.atan(2) - torch.atan(a[2] / a[3])) ** 2
    weight = (v / (v - iou + 1)).detach()
    a.grad = None
    (iou - weight * v).backward()
    torch.testing.assert_close(published, a.grad)


def test_ciou_of_a_point_keeps_the_slope_of_its_position():
    truth = torch.tensor([0.3, 0.8, 1.5, 1.0])
    slopes = []
    for dtype in (torch.float32, torch.float64):
        point = torch.tensor([0.1, 0.2, 1e-6, 1e-6], dtype=dtype, requires_grad=True)
        boxes.ciou_cxcywh(point, truth.to(dtype)).backward()
        slopes.append(point.grad[:2].double())
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-5, atol=0)


FLAT = [
    ([1582.11669921875, 5403.916015625, 3.000487804412842, 5028.22802734375],
     [1582.11669921875, 5403.91552734375, 3.00048828125, 5028.2275390625]),
    ([1583.1636962890625, -4286.3955078125, 3.001708745956421, 5028.6728515625],
     [1583.1636962890625, -4286.3955078125, 3.001708745956421, 5028.6728515625]),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), FLAT, ids=["nearly equal", "equal"])
def test_ciou_of_equal_flat_boxes_far_from_the_origin(first, second):
    """Their corners are rounded: by them the boxes share more than their sizes hold. It was -inf, and NaN."""
    predicted = torch.tensor(first, requires_grad=True)
    value = boxes.ciou_cxcywh(predicted, torch.tensor(second))
    value.backward()
    assert 1 - 1e-6 < value.item() <= 1
    assert torch.isfinite(predicted.grad).all()


def test_pairwise_is_every_pair():
    first = boxes.cxcywh_to_xyxy(torch.rand(2, 5, 4))
    second = boxes.cxcywh_to_xyxy(torch.rand(2, 7, 4))
    for overlap in OVERLAPS:
        table = boxes.pairwise(overlap, first, second)
        assert table.shape == (2, 5, 7)
        torch.testing.assert_close(table[1, 3, 4], overlap(first[1, 3], second[1, 4]))


@pytest.mark.slow
@pytest.mark.parametrize("overlap", OVERLAPS)
@given(a=any_box, b=any_box)
@settings(max_examples=100, deadline=None)
def test_finite_with_finite_gradients_for_any_boxes(overlap, a, b):
    first = torch.tensor(a, dtype=torch.float32, requires_grad=True)
    second = torch.tensor(b, dtype=torch.float32)
    value = overlap(first, second)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(first.grad).all()
    assert value <= 1 + 1e-5


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_degenerate_boxes(overlap):
    point = torch.tensor([5.0, 5.0, 5.0, 5.0], requires_grad=True)
    box = torch.tensor([0.0, 0.0, 10.0, 10.0])
    for other in (point.detach(), box, torch.zeros(4)):
        value = overlap(point, other)
        (gradient,) = torch.autograd.grad(value, point)
        assert torch.isfinite(value)
        assert torch.isfinite(gradient).all()
    assert boxes.iou(point, point).item() == 0


def test_half_precision_boxes_are_compared_in_float32():
    a = torch.tensor([0.0, 0.0, 300.0, 300.0], dtype=torch.bfloat16)
    value = boxes.iou(a, a)
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(1.0)
