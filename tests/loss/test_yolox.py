"""The YOLOX criterion against the golden numbers and the loop reference, and on input that breaks naive losses."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from torch import Tensor

from tests.assign.made_up import STRIDES, Batch, batches, point_head
from tests.golden import inputs
from tests.reference import yolox_loss as reference
from yolofast.assign.cells import CURRENT, VENDORED
from yolofast.decoding import decode
from yolofast.errors import UserError
from yolofast.structures import LossTerms, Targets
from yolofast.train.losses.yolox_criterion import YoloXCriterion

GOLDEN = Path(inputs.__file__).parent
CASES = json.loads((GOLDEN / "yolox_losses.json").read_text())
LOSS_RTOL = 1e-6
GRAD_RTOL = 1e-5


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN / "yolox_losses.npz") as arrays:
        return dict(arrays)


def golden_maps(case: str) -> list[Tensor]:
    """[B, 5 + nc, H, W], as the published code has them."""
    spec, maps = CASES[case], []
    for level, stride in enumerate(STRIDES):
        n = spec["size"] // stride
        raw = inputs.rng(f"xp.{case}.{level}").standard_normal((spec["batch"], 5 + spec["nc"], n, n)) * 0.7
        raw[:, 4:] -= 1
        maps.append(torch.from_numpy(raw.astype(np.float32)).requires_grad_())
    return maps


def items(terms: LossTerms) -> Tensor:
    return torch.stack([terms.total.detach(), terms.iou, terms.obj, terms.cls, terms.l1, terms.foreground])


def assert_gradients_close(got: list[Tensor], expected: list[Tensor], rtol: float) -> None:
    for level, (mine, other) in enumerate(zip(got, expected, strict=True)):
        difference = (mine.float() - other.float()).norm() / other.float().norm().clamp(min=1e-30)
        assert difference < rtol, f"level {level}: {difference:.2e}"


def assert_finite(terms: LossTerms, maps: list[Tensor]) -> None:
    terms.total.backward()
    assert items(terms).isfinite().all()
    assert all(raw.grad.isfinite().all() for raw in maps)


@pytest.mark.parametrize("memory", ["planes", "channels_last", "points"])
@pytest.mark.parametrize("case", list(CASES))
def test_golden(case, memory, golden):
    spec, maps = CASES[case], golden_maps(case)
    if memory == "channels_last":
        given_maps = [raw.contiguous(memory_format=torch.channels_last) for raw in maps]
    elif memory == "points":
        given_maps = [raw.permute(0, 2, 3, 1)[:, None].contiguous() for raw in maps]
    else:
        given_maps = list(maps)
    targets = Targets.from_padded(torch.from_numpy(golden[f"{case}.labels"]), spec["size"], spec["size"])
    criterion = YoloXCriterion(point_head(spec["nc"]))
    criterion.use_l1 = spec["use_l1"]
    terms = criterion(given_maps, targets)
    terms.total.backward()
    np.testing.assert_allclose(items(terms).numpy(), golden[f"{case}.items"], rtol=LOSS_RTOL)
    expected = [torch.from_numpy(golden[f"{case}.grad{level}"]) for level in range(3)]
    assert_gradients_close([raw.grad for raw in maps], expected, GRAD_RTOL)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "other"), [(CURRENT, reference.CURRENT), (VENDORED, reference.VENDORED)])
@settings(max_examples=15)
@given(batch=batches())
def test_against_the_reference(version, other, batch):
    """Where both match alike; which cells are matched is tested in test_simota.py, ties within rounding included."""
    maps, reference_maps = batch.maps(), batch.maps()
    criterion = YoloXCriterion(point_head(batch.nc), version, use_l1=True)
    assignment = criterion.assign(maps, batch.targets)
    labels = torch.cat((batch.targets.labels[..., None], torch.zeros_like(batch.targets.boxes)), dim=-1)
    for padded, real in zip(labels, batch.labels(), strict=True):
        padded[: len(real)] = real
    planes = [raw[:, 0].permute(0, 3, 1, 2) for raw in reference_maps]
    expected = reference.yolox_loss(planes, labels, STRIDES, use_l1=True, version=other)
    cells = [0, *np.cumsum([raw.shape[2] * raw.shape[3] for raw in maps])]
    found = [
        {
            int(slots.cell[image, slot]) + cells[level]: int(slots.target[image, slot])
            for level, slots in enumerate(assignment)
            for slot in slots.positive[image].nonzero()[:, 0].tolist()
        }
        for image in range(len(labels))
    ]
    assume(found == expected.matches)
    terms = criterion(maps, batch.targets)
    torch.testing.assert_close(items(terms), expected.items, rtol=1e-5, atol=1e-6)
    terms.total.backward()
    expected.loss.backward()
    rtol = 1e-5 if batch.dtype == torch.float32 else 1e-2  # the gradients of bf16 maps are bf16
    assert_gradients_close([raw.grad for raw in maps], [raw.grad for raw in reference_maps], rtol)


def random_targets(images: int = 2, nc: int = 3) -> Targets:
    boxes = torch.rand(images, 16, 4) * torch.tensor([1.0, 1.0, 0.4, 0.4])
    return Targets(boxes, torch.randint(nc, (images, 16)), torch.arange(16).expand(images, -1) < 6)


def random_maps(targets: Targets, nc: int = 3, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return Batch((64, 96), nc, targets, dtype, 0, 0.7).maps()


def test_l1_can_be_switched_between_steps():
    targets = random_targets()
    maps = random_maps(targets)
    criterion = YoloXCriterion(point_head(3))
    off = criterion(maps, targets)
    criterion.use_l1 = True
    on = criterion(maps, targets)
    assert off.l1 == 0 < on.l1
    torch.testing.assert_close(on.total - on.l1, off.total)


@pytest.mark.parametrize("assigner", ["simota", "tal"])
@pytest.mark.parametrize("version", [CURRENT, VENDORED])
def test_without_boxes(version, assigner):
    targets = Targets.from_rows(torch.zeros(0, 6), batch_size=2)
    maps = random_maps(targets)
    terms = YoloXCriterion(point_head(3), version, assigner=assigner, use_l1=True)(maps, targets)
    assert terms.iou == terms.cls == terms.l1 == 0 < terms.obj
    assert_finite(terms, maps)


@pytest.mark.parametrize("assigner", ["simota", "tal"])
@pytest.mark.parametrize("version", [CURRENT, VENDORED])
@pytest.mark.parametrize("channels", [slice(0, 2), slice(2, 4), slice(3, 4), slice(4, 5), slice(5, None), slice(None)])
@pytest.mark.parametrize("logit", [-200.0, 200.0])
def test_saturated_predictions(version, assigner, channels, logit):
    targets = random_targets()
    maps = random_maps(targets)
    for raw in maps:
        raw.data[..., channels] = logit
    assert_finite(YoloXCriterion(point_head(3), version, assigner=assigner, use_l1=True)(maps, targets), maps)


@pytest.mark.parametrize("assigner", ["simota", "tal"])
@pytest.mark.parametrize("version", [CURRENT, VENDORED])
@pytest.mark.parametrize("shrunk", [-200.0, 0.0])
def test_boxes_without_area(version, assigner, shrunk):
    """Against ordinary predictions and against predictions without area."""
    targets = random_targets()
    targets.boxes[:, ::2, 2:] = 0
    targets.boxes[:, 1, 3] = 0
    maps = random_maps(targets)
    for raw in maps:
        raw.data[..., 2:4] += shrunk
    assert_finite(YoloXCriterion(point_head(3), version, assigner=assigner, use_l1=True)(maps, targets), maps)


def test_only_the_published_loss_counts_boxes_without_area():
    targets = Targets(torch.tensor([[[0.5, 0.5, 0.0, 0.3]]]), torch.zeros(1, 1, dtype=torch.long), torch.ones(1, 1) > 0)
    maps = random_maps(targets)
    assert YoloXCriterion(point_head(3), faithful=True)(maps, targets).iou == 5
    assert YoloXCriterion(point_head(3), faithful=False)(maps, targets).iou == 0


def test_tal_grades_objectness_and_class():
    """By hand: one cell that predicts its box exactly, with overlap and so quality 1; the others learn absence."""
    targets = Targets(torch.tensor([[[0.25, 0.25, 0.5, 0.5]]]), torch.tensor([[1]]), torch.ones(1, 1) > 0)
    raw = torch.zeros(1, 1, 2, 2, 7)
    raw[..., :2] = 0.5
    head = point_head(2)
    one_level = type(head)(type(head.layout)(**{**vars(head.layout), "strides": (8,)}), torch.zeros(1, 1, 2))
    terms = YoloXCriterion(one_level, assigner="tal")([raw], targets)
    torch.testing.assert_close(terms.iou, torch.tensor(0.0))
    torch.testing.assert_close(terms.obj, torch.tensor(2.0).log() * 4)
    torch.testing.assert_close(terms.cls, torch.tensor(2.0).log() * 2)
    raw[..., 2:4] = torch.tensor(0.5).log()  # a quarter of the box
    raw[0, 0, 0, 0, 4] = 1.0
    terms = YoloXCriterion(one_level, assigner="tal")([raw], targets)
    graded = torch.nn.functional.binary_cross_entropy_with_logits(torch.tensor(1.0), torch.tensor(0.25))
    torch.testing.assert_close(terms.iou, torch.tensor(5 * (1 - 0.25**2)))
    torch.testing.assert_close(terms.obj, torch.tensor(2.0).log() * 3 + graded)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "assigner"), [(CURRENT, "tal"), (VENDORED, "simota")])
def test_compiled(version, assigner):
    """The usual pair is compiled in tests/train/losses."""
    targets = random_targets()
    maps, compiled_maps = random_maps(targets), random_maps(targets)
    criterion = YoloXCriterion(point_head(3), version, assigner=assigner, use_l1=True)
    eager = criterion(maps, targets)
    compiled = torch.compile(criterion, fullgraph=True, backend="eager")(compiled_maps, targets)
    assert torch.equal(items(eager), items(compiled))
    eager.total.backward()
    compiled.total.backward()
    assert all(torch.equal(mine.grad, other.grad) for mine, other in zip(maps, compiled_maps, strict=True))


@pytest.mark.parametrize("nc", [1, 2])
def test_decoding_by_hand(nc):
    raw = [torch.zeros(1, 1, 64 // stride, 64 // stride, 5 + nc) for stride in STRIDES]
    raw[1][0, 0, 1, 2] = torch.tensor([0.25, -0.5, 0.0, 2.0, 0.0, 1.0, 3.0])[: 5 + nc]
    out = decode(raw, point_head(nc))
    row = out[0, 64 + 1 * 4 + 2]
    torch.testing.assert_close(row[:4], torch.tensor([2.25 * 16, 0.5 * 16, 16.0, torch.tensor(2.0).exp() * 16]))
    scores = torch.tensor([0.0, 1.0, 3.0])[: 1 + nc].sigmoid()
    if nc == 1:  # what suppression goes by then has to hold the class too
        scores[0] *= scores[1]
    torch.testing.assert_close(row[4:], scores)
    assert out.shape == (1, 64 + 16 + 4, 5 + nc)


def test_maps_of_the_wrong_shape():
    targets = random_targets()
    with pytest.raises(UserError, match="raw map has shape"):
        YoloXCriterion(point_head(4))(random_maps(targets, nc=3), targets)
