"""SimOTA in fixed shapes against the loop reference, in both published versions."""

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from tests.assign.made_up import STRIDES, Batch, batches
from tests.reference import yolox_loss as reference
from tests.reference.ota import dynamic_k_match
from yolofast.assign import cells as chunks
from yolofast.assign.cells import CURRENT, VENDORED
from yolofast.assign.simota import CellColumns, _all_cells, _cells_near_boxes, assign_simota, find_columns, simota_costs
from yolofast.raw_maps import rows_at
from yolofast.structures import Assignment, Targets, level_shapes

VERSIONS = [(CURRENT, reference.CURRENT), (VENDORED, reference.VENDORED)]
COST_RTOL = 1e-5


def all_columns(maps: list[Tensor]) -> list[CellColumns]:
    return [_all_cells(len(raw), raw.shape[2] * raw.shape[3], raw.device) for raw in maps]


def rows_of(maps: list[Tensor], columns: list[CellColumns]) -> list[Tensor]:
    return [rows_at(raw, level.cell) for raw, level in zip(maps, columns, strict=True)]


def assign(maps: list[Tensor], targets: Targets, version, columns=None) -> list[Assignment]:
    shapes = level_shapes(maps)
    columns = find_columns(targets, shapes, version) if columns is None else columns
    return assign_simota(rows_of(maps, columns), columns, targets, STRIDES, shapes, version)


def matches(assignment: list[Assignment], maps: list[Tensor], image: int) -> dict[int, int]:
    """Cell, counted over all levels -> box."""
    result, first = {}, 0
    for slots, raw in zip(assignment, maps, strict=True):
        positive = slots.positive[image]
        cells, boxes = slots.cell[image][positive] + first, slots.target[image][positive]
        found = dict(zip(cells.tolist(), boxes.tolist(), strict=True))
        assert len(found) == positive.sum(), "a cell is used twice"
        result.update(found)
        first += raw.shape[2] * raw.shape[3]
    return result


def reference_rows(maps: list[Tensor], image: int) -> Tensor:
    return torch.cat([raw[image].detach().float().flatten(0, 2) for raw in maps])


def check_image(batch: Batch, maps: list[Tensor], assignment: list[Assignment], costs, image: int, other) -> None:
    """Costs agree, and the choice is the reference's given the costs: only ties within rounding may differ."""
    labels = batch.labels()[image]
    cells = reference.all_cells([raw[:, 0].permute(0, 3, 1, 2) for raw in maps], STRIDES)
    columns, cost_GK, iou_GK = reference.simota_costs(reference_rows(maps, image), labels, cells, other)
    cost, iou = (values[image, : len(labels)] for values in costs)
    assert torch.equal(cost.isfinite().any(0).nonzero()[:, 0], torch.tensor(columns, dtype=torch.long))
    torch.testing.assert_close(cost[:, columns], cost_GK, rtol=COST_RTOL, atol=1e-4)
    torch.testing.assert_close(iou[:, columns], iou_GK, rtol=1e-4, atol=1e-6)
    found = matches(assignment, maps, image)
    chosen = dynamic_k_match(cost[:, columns], iou[:, columns], topk=10) if columns else []
    assert found == {column: box for column, box in zip(columns, chosen, strict=True) if box is not None}


@pytest.mark.slow
@pytest.mark.parametrize(("version", "other"), VERSIONS, ids=["current", "vendored"])
@settings(max_examples=40)
@given(batch=batches())
def test_against_the_reference(version, other, batch):
    maps = batch.maps()
    columns = all_columns(maps)
    rows = rows_of(maps, columns)
    costs = simota_costs(rows, columns, batch.targets, STRIDES, level_shapes(maps), version)
    assignment = assign(maps, batch.targets, version)
    for image in range(len(batch.targets.labels)):
        check_image(batch, maps, assignment, costs, image, other)


@pytest.mark.parametrize(("version", "other"), VERSIONS, ids=["current", "vendored"])
@pytest.mark.parametrize("seed", range(8))
def test_matches_are_the_reference_s_end_to_end(version, other, seed):
    """Boxes that are not made to tie behind the penalty: nothing is left to rounding."""
    generator = torch.Generator().manual_seed(seed)
    boxes = torch.rand(2, 16, 4, generator=generator) * torch.tensor([0.8, 0.8, 0.3, 0.3]) + 0.1
    labels = torch.randint(7, (2, 16), generator=generator)
    valid = torch.arange(16) < torch.tensor([[5], [3]])
    batch = Batch((96, 128), 7, Targets(boxes, labels, valid), torch.float32, seed, 0.7)
    maps = batch.maps()
    assignment = assign(maps, batch.targets, version)
    cells = reference.all_cells([raw[:, 0].permute(0, 3, 1, 2) for raw in maps], STRIDES)
    for image, image_labels in enumerate(batch.labels()):
        expected, _ = reference.simota(reference_rows(maps, image), image_labels, cells, other)
        assert matches(assignment, maps, image) == expected


def test_few_boxes_read_few_cells():
    targets = Targets(torch.zeros(2, 16, 4), torch.zeros(2, 16, dtype=torch.long), torch.ones(2, 16) > 0)
    shapes = [(80, 80), (40, 40), (20, 20)]
    assert [level.cell.shape[1] for level in find_columns(targets, shapes, CURRENT)] == [9 * 16] * 3
    assert [level.cell.shape[1] for level in find_columns(targets, shapes, VENDORED)] == [6400, 1600, 400]


@pytest.mark.slow
@settings(max_examples=60)
@given(batch=batches())
def test_reading_only_the_cells_near_boxes_changes_nothing(batch):
    maps = [raw.detach() for raw in batch.maps()]
    few = _cells_near_boxes(batch.targets, level_shapes(maps), CURRENT.radius)
    every = all_columns(maps)
    for got, expected in zip(
        assign(maps, batch.targets, CURRENT, few), assign(maps, batch.targets, CURRENT, every), strict=True
    ):
        assert torch.equal(got.positive, expected.positive)
        assert torch.equal(got.cell, expected.cell)
        assert torch.equal(got.target[got.positive], expected.target[expected.positive])


@pytest.mark.parametrize("version", [CURRENT, VENDORED])
@pytest.mark.parametrize("count", [3, 16])
def test_some_images_at_a_time_changes_nothing(version, count, monkeypatch):
    boxes = torch.rand(5, 16, 4) * 0.5 + 0.2
    targets = Targets(boxes, torch.randint(7, (5, 16)), torch.arange(16).expand(5, -1) < count)
    maps = Batch((96, 96), 7, targets, torch.float32, 0, 0.7).maps()
    whole = assign(maps, targets, version)
    monkeypatch.setattr(chunks, "MAX_PAIRS", 2 * 16 * 189)
    for got, expected in zip(assign(maps, targets, version), whole, strict=True):
        assert all(torch.equal(getattr(got, name), getattr(expected, name)) for name in ("cell", "target", "positive"))


def test_the_radius_is_strict():
    """A box centred on the corner of four cells: cell centres are 0.5 and 1.5 strides away, and 1.5 is too far."""
    targets = Targets(torch.tensor([[[0.5, 0.5, 0.3, 0.3]]]), torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1) > 0)
    for columns in (find_columns(targets, [(8, 8)], CURRENT), [_all_cells(1, 64, torch.device("cpu"))]):
        rows = [torch.zeros(1, columns[0].cell.shape[1], 6)]
        cost, _ = simota_costs(rows, columns, targets, [8], [(8, 8)], CURRENT)
        assert columns[0].cell[0][cost[0, 0].isfinite()].tolist() == [27, 28, 35, 36]


def test_penalised_cells_are_a_last_resort():
    """A box outside the image has no cell of its own; it takes one of another box's, as published."""
    boxes = torch.tensor([[[0.5, 0.5, 0.3, 0.3], [3.0, 3.0, 0.1, 0.1]]])
    targets = Targets(boxes, torch.zeros(1, 2, dtype=torch.long), torch.ones(1, 2) > 0)
    maps = Batch((64, 64), 2, targets, torch.float32, 0, 0.7).maps()
    for version in (CURRENT, VENDORED):
        assert set(matches(assign(maps, targets, version), maps, 0).values()) == {0, 1}
