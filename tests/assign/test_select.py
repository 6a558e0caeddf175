"""Dynamic-k selection against a literal loop, in plain torch and as the Triton kernel run by its interpreter."""

import os
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import programs
from tests.reference.ota import dynamic_k_match
from yolofast.assign.dynamic_k import choose_columns_torch, last_of_each_cell, settle_conflicts


def random_problem(seed, batch=2, boxes=5, columns=37, levels=6):
    """Few distinct costs, so that ties are everywhere; some columns and boxes are no candidates."""
    generator = torch.Generator().manual_seed(seed)
    cost = torch.randint(0, levels, (batch, boxes, columns), generator=generator).float() - 1.0
    iou = torch.rand(batch, boxes, columns, generator=generator) ** 2
    absent = (torch.rand(batch, 1, columns, generator=generator) < 0.3) | (
        torch.rand(batch, boxes, 1, generator=generator) < 0.2
    )
    return torch.where(absent, torch.inf, cost), torch.where(absent, 0.0, iou)


def matches(chosen, cost):
    """For each image, the box of every matched column."""
    column, box, used = settle_conflicts(chosen, cost)
    return [{int(c): int(b) for c, b, u in zip(column[i], box[i], used[i], strict=True) if u} for i in range(len(cost))]


def expected_matches(cost, iou, topk):
    result = []
    for cost_GA, iou_GA in zip(cost, iou, strict=True):
        boxes = [g for g in range(len(cost_GA)) if cost_GA[g].isfinite().any()]
        columns = [a for a in range(cost_GA.shape[1]) if cost_GA[:, a].isfinite().any()]
        if not boxes or not columns:
            result.append({})
            continue
        matched = dynamic_k_match(cost_GA[boxes][:, columns], iou_GA[boxes][:, columns], topk)
        result.append({columns[a]: boxes[g] for a, g in enumerate(matched) if g is not None})
    return result


@pytest.mark.slow
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 60), st.sampled_from([1, 10, 20]))
@settings(max_examples=80)
def test_torch_selection_is_the_loop(seed, boxes, columns, topk):
    cost, iou = random_problem(seed, boxes=boxes, columns=columns)
    assert matches(choose_columns_torch(cost, iou, topk), cost) == expected_matches(cost, iou, topk)


@pytest.mark.slow
def test_triton_selection_is_the_torch_selection():
    """In a process of its own: Triton interprets or compiles for good from the moment it is imported."""
    pytest.importorskip("triton")
    script = """
import torch
from tests.assign.test_select import random_problem
from yolofast.assign.dynamic_k import choose_columns_torch
from yolofast.assign.dynamic_k import choose_columns
compared = 0
for columns, topk in ((1, 10), (7, 10), (32, 10), (37, 20), (300, 10)):
    for seed in range(4):
        cost, iou = random_problem(seed, columns=columns)
        iou = (iou * 6).round() / 6 if seed % 2 else iou  # whose sums are whole numbers, but for rounding
        assert torch.equal(choose_columns(cost, iou, topk), choose_columns_torch(cost, iou, topk)), (columns, seed)
        compared += 1
print(compared)
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = programs.run([sys.executable, "-c", script], env=environment, cwd=programs.ROOT)
    assert done.stdout.strip() == "20", done.stderr


def test_negative_zero_is_zero():
    """-ln(1) is -0.0; by its bits it would come before every other cost."""
    cost = torch.tensor([[[0.0, -0.0, 0.0]]])
    assert choose_columns_torch(cost, torch.zeros_like(cost), 3)[0, 0].tolist() == [0, 3, 3]


def test_negative_costs_order_below_zero():
    cost = torch.tensor([[[0.5, -2.0, -1.0, torch.inf]]])
    iou = torch.full_like(cost, 0.9)
    assert choose_columns_torch(cost, iou, 4)[0, 0].tolist() == [1, 2, 0, 4]


def test_a_contested_column_goes_to_the_cheapest_of_all_boxes():
    """Boxes 0 and 1 both want column 0 most; box 2 has it cheapest but prefers column 1."""
    cost = torch.tensor([[[1.0, 9.0], [2.0, 9.0], [0.5, 0.1]]])
    iou = torch.zeros_like(cost)  # k = 1 for every box
    assert matches(choose_columns_torch(cost, iou, 10), cost) == [{0: 2, 1: 2}]


def test_the_last_slot_of_a_cell_speaks_for_it():
    cell = torch.tensor([[3, 3, 5, 3]])
    column = torch.tensor([[10, 12, 11, 14]])
    used = torch.tensor([[True, True, True, False]])
    assert last_of_each_cell(cell, column, used, 6).tolist() == [[False, True, True, False]]
