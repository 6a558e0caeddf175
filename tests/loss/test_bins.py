"""IBin's loss: the bin term by hand, and the whole of it against the anchor loss of the same boxes."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.loss.criteria import BINS, GRID, NC, maps, random_rows
from tests.map_reader import gradients, map_reader, targets_of
from tests.model.small import small
from tests.reference import yolov7_loss as reference
from tests.reference.candidates import Candidate, to_cells
from yolofast import build_loss
from yolofast.decoding import decode
from yolofast.loss.criterion import LossSettings
from yolofast.loss.yolov7_loss import bin_loss
from yolofast.raw_maps import RowReader
from yolofast.structures import Targets
from yolofast.train.losses.yolov7_criterion import YoloV7Criterion

STEP = 4 / BINS
READER = RowReader(BINS)
GAINS = {"box": 0.05, "obj": 0.7, "cls": 0.3}


def bin_maps(**facts) -> list[Tensor]:
    return maps(channels=3 + 2 * (BINS + 1) + NC, **facts)


def criterion(assigner: str, faithful: bool = True) -> YoloV7Criterion:
    return YoloV7Criterion(map_reader(GRID, NC, kind="bin", bins=BINS), LossSettings(**GAINS), assigner, faithful)


def test_bin_loss_by_hand():
    """All logits 0 but one: ln 2 each, and the one by its own formula; mean over bins, sides added."""
    logits = torch.zeros(1, 1, 2, BINS)
    logits[0, 0, 1, 5] = 3.0
    right, wrong = math.log1p(math.exp(-3)), math.log1p(math.exp(3))
    for size, last in ((5.5 * STEP, right), (6.5 * STEP, wrong)):
        found = bin_loss(logits, torch.tensor([[[1.0, size]]]))
        assert found.item() == pytest.approx(math.log(2) + (20 * math.log(2) + last) / 21, rel=1e-6)


@pytest.mark.parametrize(
    ("size", "nearest"),
    [(0.0, 0), (0.9 * STEP, 0), (1.1 * STEP, 1), (1.0, 5), (3.99, 20), (4.0, 20), (7.5, 20), (-1.0, 0)],
)
def test_the_nearest_bin_is_the_target(size, nearest):
    """At logit 0 the gradient shows the target: −0.5 where it is 1, +0.5 where it is 0. Ends take what lies beyond."""
    logits = torch.zeros(1, 1, 2, BINS, requires_grad=True)
    bin_loss(logits, torch.full((1, 1, 2), size)).sum().backward()
    assert (logits.grad[0, 0] < 0).nonzero().tolist() == [[0, nearest], [1, nearest]]
    centres = (torch.arange(BINS) + 0.5) * STEP
    assert (centres - min(max(size, 0), 4)).abs().argmin() == nearest


def as_anchor_maps(raw: list[Tensor]) -> list[Tensor]:
    """Maps of the `anchor` kind that decode to the same boxes and scores: (2σ)² is the size the bins give."""
    result = []
    for raw_map in raw:
        side = (READER.sizes(raw_map).detach().double().sqrt() / 2).clamp(1e-6, 1 - 1e-9)
        logits = torch.log(side / (1 - side)).float()
        scores = raw_map[..., READER.objectness :]
        result.append(torch.cat((raw_map[..., :2], logits, scores), dim=-1).detach().requires_grad_())
    return result


def bin_term(raw: list[Tensor], rows: Tensor, positives: list[Candidate]) -> Tensor:
    """Per level the mean over positives and bins, as a loop."""
    total = torch.zeros(())
    for level, raw_map in enumerate(raw):
        here = [p for p in positives if p.level == level]
        for p in here:
            size = to_cells(rows[p.target, 2:6], raw_map.shape[2:4])[2:] / GRID.in_cells(level)[p.anchor]
            for side in range(2):
                first = 2 + side * (BINS + 1) + 1
                logits = raw_map[p.image, p.anchor, p.gj, p.gi, first : first + BINS]
                target = torch.zeros(BINS)
                target[min(int(size[side].clamp(0, 4) / STEP), BINS - 1)] = 1
                total = total + F.binary_cross_entropy_with_logits(logits, target) / len(here)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("assigner", ["anchor", "ota"])
@pytest.mark.parametrize("columns", [8, 16])
def test_is_the_loss_of_the_same_boxes_and_the_bin_term(assigner, columns):
    raw, rows = bin_maps(columns=columns), random_rows(20)
    plain, settings = as_anchor_maps(raw), reference.LossSettings(**GAINS)
    if assigner == "anchor":
        by_reference = reference.anchor_loss(plain, rows, GRID, settings)
    else:
        by_reference = reference.ota_loss(plain, rows, GRID, (64, 8 * columns), settings)
    extra = bin_term(raw, rows, by_reference.positives)
    terms = criterion(assigner)(raw, Targets.from_rows(rows, 2))
    assert terms.box.item() == pytest.approx(by_reference.items[0].item() + GAINS["box"] * extra.item(), rel=1e-5)
    assert terms.obj.item() == pytest.approx(by_reference.items[1].item(), rel=1e-5)
    assert terms.cls.item() == pytest.approx(by_reference.items[2].item(), rel=1e-5)

    bins = [c for side in range(2) for c in range(3 + side * (BINS + 1), 3 + side * (BINS + 1) + BINS)]
    same = [0, 1, *range(READER.objectness, raw[0].shape[-1])]
    expected = zip(gradients(by_reference.loss, plain), gradients(extra * GAINS["box"] * 2, raw), strict=True)
    for gradient, (of_boxes, of_bins) in zip(gradients(terms.total, raw), expected, strict=True):
        kept = gradient[..., same]
        others = of_boxes[..., [0, 1, *range(4, plain[0].shape[-1])]]
        assert (kept - others).norm() <= 1e-4 * others.norm()  # sizes went through a logit and back
        assert (gradient[..., bins] - of_bins[..., bins]).norm() <= 1e-5 * of_bins.norm()
        offsets = gradient[..., [2, 3 + BINS]]
        assert (offsets != 0).any()


@pytest.mark.slow
def test_bins_learn_a_box():
    """One box, one prediction: the likeliest bins move to the box's size, which the overlap alone could not do."""
    torch.manual_seed(0)
    raw = [(m.detach() * 0.1).requires_grad_() for m in bin_maps(batch=1)]
    rows = [[0, 1, 0.45, 0.55, 40 / 64, 30 / 64]]
    loss, targets, optimiser = criterion("anchor"), targets_of(rows), torch.optim.Adam(raw, lr=0.3)
    for _ in range(60):
        optimiser.zero_grad()
        loss(raw, targets).total.backward()
        optimiser.step()
    predictions = decode([m.detach() for m in raw], loss.model)[0]
    best = predictions[predictions[:, 4].argmax()]
    torch.testing.assert_close(best[:4], torch.tensor([0.45 * 64, 0.55 * 64, 40.0, 30.0]), rtol=0, atol=0.5)
    assert best[5:].argmax() == 1


@pytest.mark.parametrize("assigner", ["anchor", "ota", "tal"])
def test_network_with_bins(assigner):
    model = small("IBin")
    loss = build_loss(model, {}, image_size=64, assigner=assigner)
    loss(model(torch.rand(2, 3, 64, 64)), Targets.from_rows(random_rows(12, nc=3), 2)).total.backward()
    assert all(conv.weight.grad.isfinite().all() and conv.weight.grad.any() for conv in model.head.m)


def test_focal_gamma_and_weights_leave_the_bin_term_alone():
    """They are about classes and objectness."""
    raw, targets = bin_maps(), Targets.from_rows(random_rows(20), 2)
    plain = criterion("anchor")(raw, targets)
    reader = map_reader(GRID, NC, kind="bin", bins=BINS)
    options = LossSettings(**GAINS, fl_gamma=1.5, cls_pw=2.0, obj_pw=2.0)
    assert YoloV7Criterion(reader, options, "anchor", True)(raw, targets).box == plain.box
