"""The task-aligned assigner against a loop reference, for anchor-based and anchor-free heads."""

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from tests.assign.made_up import STRIDES, Batch, Head, batches, point_head
from tests.reference import ota, yolox_loss
from tests.reference import tal as reference
from tests.reference.candidates import AnchorGrid, Candidate
from yolofast.assign import cells as chunks
from yolofast.assign.tal import alignment, by_tal
from yolofast.raw_maps import RowReader
from yolofast.structures import Assignment, HeadLayout, Targets

ANCHORS_PX = [[(10, 13), (16, 30)], [(30, 61), (62, 45)], [(116, 90), (156, 198)]]
GRID = AnchorGrid(anchors_px=ANCHORS_PX, strides=list(STRIDES))


def anchor_head(nc: int) -> Head:
    layout = HeadLayout(kind="anchor", nc=nc, strides=STRIDES, anchors_per_cell=2)
    return Head(layout, torch.tensor(ANCHORS_PX, dtype=torch.float32))


HEADS = [anchor_head, point_head]


def to_assign(head: Head) -> chunks.Head:
    return chunks.Head(layout=head.layout, anchors_px=head.anchors_px, reader=RowReader(), faithful=False)


def assign(maps: list[Tensor], targets: Targets, head: Head) -> list[Assignment]:
    return by_tal(maps, targets, to_assign(head))


def reference_inputs(maps: list[Tensor], image: int, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """Boxes, scores and cell centres of one image, decoded by the references: level, anchor, y, x."""
    boxes, centres, rows = [], [], []
    for level, raw in enumerate(maps):
        image_rows = raw[image].detach().float()
        for anchor in range(image_rows.shape[0]):
            for gj in range(image_rows.shape[1]):
                for gi in range(image_rows.shape[2]):
                    row = image_rows[anchor, gj, gi]
                    if kind == "anchor":
                        cell = Candidate(level=level, image=image, anchor=anchor, gj=gj, gi=gi, target=-1)
                        boxes.append(ota.decode(row, cell, GRID))
                    else:
                        place = yolox_loss.Cells(torch.tensor([[gi, gj]]), torch.tensor([[STRIDES[level]]]))
                        boxes.append(yolox_loss.decode(row[None], place)[0])
                    centres.append(((gi + 0.5) * STRIDES[level], (gj + 0.5) * STRIDES[level]))
                    rows.append(row)
    rows = torch.stack(rows)
    return torch.stack(boxes), rows[:, 4:5].sigmoid() * rows[:, 5:].sigmoid(), torch.tensor(centres)


def matches(assignment: list[Assignment], maps: list[Tensor], image: int) -> dict[int, tuple[int, float]]:
    """Prediction, counted over all levels -> box and quality."""
    result, first = {}, 0
    for slots, raw in zip(assignment, maps, strict=True):
        assert torch.equal(slots.sets_objectness, slots.positive)
        for slot in slots.positive[image].nonzero()[:, 0].tolist():
            column = int(slots.cell[image, slot]) + first
            assert column not in result, "a prediction is used twice"
            result[column] = (int(slots.target[image, slot]), float(slots.quality[image, slot]))
        first += raw[0, ..., 0].numel()
    return result


def dense_alignment(maps, targets, head):
    """Of all levels, as the reference has it."""
    levels = [alignment(raw, targets, to_assign(head), level) for level, raw in enumerate(maps)]
    return [torch.cat(parts, dim=-1) for parts in zip(*levels, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("make_head", HEADS)
@settings(max_examples=25)
@given(batch=batches())
def test_against_the_reference(make_head, batch):
    """Alignment agrees, and the choice is the reference's given the alignment: only ties within rounding may differ."""
    head = make_head(batch.nc)
    maps = batch.maps(head.layout.anchors_per_cell)
    assignment = assign(maps, batch.targets, head)
    ours = dense_alignment(maps, batch.targets, head)
    for image, labels in enumerate(batch.labels()):
        expected = reference.alignment(*reference_inputs(maps, image, head.layout.kind), labels)
        got = [values[image, : len(labels)].detach() for values in ours]
        torch.testing.assert_close(got[1], expected[1], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(got[0], expected[0], rtol=1e-3, atol=1e-9)
        assert torch.equal(got[2], expected[2])
        chosen = reference.match(*got)
        found = matches(assignment, maps, image)
        assert {column: box for column, (box, _) in found.items()} == {c: box for c, (box, _) in chosen.items()}
        for column, (_, quality) in found.items():
            assert quality == pytest.approx(chosen[column][1], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("make_head", HEADS)
def test_the_best_positive_of_a_box_is_graded_by_its_largest_overlap(make_head):
    head = make_head(3)
    targets = Targets(torch.tensor([[[0.5, 0.5, 0.6, 0.5]]]), torch.tensor([[2]]), torch.ones(1, 1) > 0)
    maps = Batch((96, 128), 3, targets, torch.float32, 0, 0.7).maps(head.layout.anchors_per_cell)
    quality = torch.tensor([q for _, q in matches(assign(maps, targets, head), maps, 0).values()])
    overlap = dense_alignment(maps, targets, head)[1]
    assert len(quality) == 13
    assert (quality >= 0).all()
    assert (overlap - quality.max()).abs().min() < 1e-6


def test_a_prediction_goes_to_the_box_it_overlaps_most():
    """One cell in both boxes, its prediction equal to the second one."""
    boxes = torch.tensor([[[0.5, 0.5, 0.9, 0.9], [0.5, 0.5, 0.5, 0.5]]])
    targets = Targets(boxes, torch.tensor([[0, 1]]), torch.ones(1, 2) > 0)
    layout = HeadLayout(kind="point", nc=2, strides=(32,), anchors_per_cell=1)
    raw = torch.zeros(1, 1, 1, 1, 7)
    raw[..., :2], raw[..., 2:4] = 0.5, torch.tensor(0.5).log()
    (slots,) = assign([raw], targets, Head(layout, torch.zeros(1, 1, 2)))
    assert slots.positive.tolist() == [[False, True]]
    assert slots.target[0, 1] == 1
    assert slots.quality[0, 1] == pytest.approx(1.0)


def test_of_identical_boxes_the_first_wins_and_boxes_without_a_centre_get_nothing():
    boxes = torch.tensor([[[0.5, 0.5, 0.4, 0.4], [0.5, 0.5, 0.4, 0.4], [0.5, 0.5, 0.01, 0.01], [0.5, 0.5, 0.0, 0.0]]])
    targets = Targets(boxes, torch.zeros(1, 4, dtype=torch.long), torch.ones(1, 4) > 0)
    head = point_head(1)
    maps = Batch((64, 64), 1, targets, torch.float32, 0, 0.7).maps()
    assert {box for box, _ in matches(assign(maps, targets, head), maps, 0).values()} == {0}


@pytest.mark.parametrize("make_head", HEADS)
@pytest.mark.parametrize("logit", [-200.0, 200.0])
def test_saturated_predictions(make_head, logit):
    head = make_head(3)
    targets = Targets(torch.rand(2, 16, 4), torch.randint(3, (2, 16)), torch.rand(2, 16) < 0.5)
    maps = Batch((64, 64), 3, targets, torch.float32, 0, 0.7).maps(head.layout.anchors_per_cell)
    for slots in assign([torch.full_like(raw, logit) for raw in maps], targets, head):
        assert slots.quality.isfinite().all()
        assert ((slots.quality >= 0) & (slots.quality <= 1)).all()


@pytest.mark.slow
@pytest.mark.parametrize("make_head", HEADS)
def test_some_images_at_a_time_and_compiled_change_nothing(make_head, monkeypatch):
    head = make_head(3)
    targets = Targets(torch.rand(5, 16, 4), torch.randint(3, (5, 16)), torch.rand(5, 16) < 0.5)
    maps = [raw.detach() for raw in Batch((64, 64), 3, targets, torch.float32, 0, 0.7).maps(head.anchors_px.shape[1])]
    whole = assign(maps, targets, head)
    compiled = torch.compile(lambda maps: assign(maps, targets, head), fullgraph=True, backend="eager")
    results = [compiled(maps)]
    monkeypatch.setattr(chunks, "MAX_PAIRS", 2 * 16 * 84 * head.anchors_px.shape[1])
    results.append(assign(maps, targets, head))
    for result in results:
        for got, expected in zip(result, whole, strict=True):
            for name in ("cell", "target", "positive", "quality"):
                assert torch.equal(getattr(got, name), getattr(expected, name))
