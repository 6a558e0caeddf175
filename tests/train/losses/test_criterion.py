"""What a loss refuses, and what it keeps between steps."""

import pytest
import torch

from tests.gpu.problems import HYP, Reader, layout, raw_maps, targets
from tests.gpu.test_loss import LOSSES
from yolofast import Targets, UserError, build_loss, build_model
from yolofast.assign import cells as chunks


def loss_and_inputs(head, assigner="ota", batch=2, size=128, **hyp):
    raw = raw_maps(head, batch, size, aux=head.auxiliary)
    return build_loss(Reader(head), {**HYP, **hyp}, size, assigner), raw, targets(batch, 5, head.nc)


WRONG_MAPS = {
    "too many": lambda raw: raw + raw,
    "too few": lambda raw: raw[:2],
    "level order": lambda raw: raw[::-1],
    "other classes": lambda raw: [m[..., :-1] for m in raw],
    "other batch": lambda raw: [m[:1] for m in raw],
    "anchors": lambda raw: [m[:, :2] for m in raw],
    "four axes": lambda raw: [m[0] for m in raw],
}


@pytest.mark.parametrize("name", WRONG_MAPS)
@pytest.mark.parametrize("assigner", ["ota", "anchor", "tal"])
def test_maps_of_something_else_are_refused(name, assigner):
    criterion, raw, truth = loss_and_inputs(layout(nc=4), assigner)
    with pytest.raises(UserError, match="raw map"):
        criterion(WRONG_MAPS[name](raw), truth)


@pytest.mark.parametrize("image_size", [0, -5, "320", 320.0, (), (1, 2, 3), None])
def test_image_size(image_size):
    with pytest.raises(UserError, match="image_size is"):
        build_loss(Reader(layout()), HYP, image_size)


@pytest.mark.parametrize(
    "hyp",
    [
        {"box": "x"},
        {"box": True},
        {"obj": float("nan")},
        {"gr": 3},
        {"label_smoothing": 1.5},
        {"anchor_t": 1},
        {"autobalance": 1},
    ],
)
def test_hyper_parameters(hyp):
    with pytest.raises(UserError, match=next(iter(hyp))):
        build_loss(Reader(layout()), hyp, 320)


def test_hyper_parameters_come_as_values_as_a_file_or_by_name(tmp_path):
    """One that names none has the published defaults."""
    head = layout(nc=4)
    (tmp_path / "mine.yaml").write_text("box: 0.1\n")
    raw, truth = raw_maps(head, 2, 128), targets(2, 5, 4)

    def total(hyp):
        return float(build_loss(Reader(head), hyp, 128)(raw, truth).total.detach())

    assert total(None) == total({}) == total("data/hyp.scratch.p5.yaml") == total("hyp.scratch.p5")
    assert total(tmp_path / "mine.yaml") == total(str(tmp_path / "mine.yaml")) == total({"box": 0.1}) != total(None)
    with pytest.raises(UserError, match="hyp is list"):
        total([0.05])
    with pytest.raises(UserError, match="no such file: 'hyp"):
        total("hyp.scrath.tiny")


def test_flags_are_true_or_false():
    heads = layout(nc=4, head_classes=((0, 1), (2, 3)))
    for model, hyp in ((layout(kind="point"), {"use_l1": "false"}), (heads, {"ignore_other_heads": "false"})):
        with pytest.raises(UserError, match="true or false"):
            build_loss(Reader(model), hyp, 320)
    with pytest.raises(UserError, match="simota_version"):
        build_loss(Reader(layout(kind="point")), {"simota_version": ["current"]}, 320)
    with pytest.raises(UserError, match="ignore_weight is 'x'"):
        build_loss(Reader(heads), {"ignore_weight": "x"}, 320)


@pytest.mark.parametrize(("kind", "assigner"), [("point", "anchor"), ("anchor", "simota")])
def test_an_assigner_of_the_other_family_is_refused(kind, assigner):
    with pytest.raises(UserError, match=f"assigner is '{assigner}'"):
        build_loss(Reader(layout(kind=kind)), HYP, 320, assigner)


def test_lead_maps_alone_are_matched_as_they_are_in_training():
    """Validation of a P6 model sees no auxiliary maps; what a box may take must not change with that."""
    head = layout(4, nc=4)
    criterion, raw, truth = loss_and_inputs(head, size=256)
    seen = []
    assign = criterion.assign
    criterion.assign = lambda *args: seen.append(assign(*args)) or seen[-1]
    criterion(raw, truth)
    criterion(raw[:4], truth)
    for training, validation in zip(seen[0], seen[2], strict=True):
        assert torch.equal(training.positive, validation.positive)
        assert torch.equal(training.cell, validation.cell)


@pytest.mark.slow
def test_the_real_p6_model_says_that_it_has_auxiliary_maps():
    with torch.device("meta"):
        assert build_model("yolov7-w6").layout.auxiliary
        assert not build_model("cfg/deploy/yolov7-w6.yaml").layout.auxiliary


def test_autobalance_moves_in_training_only_and_survives_a_loss_of_zero():
    criterion, raw, truth = loss_and_inputs(layout(nc=4), autobalance=True)
    before = criterion.balance.clone()
    with torch.no_grad():
        criterion(raw, truth)
    assert torch.equal(criterion.balance, before), "validation only looks"
    criterion(raw, truth).total.backward()
    assert not torch.equal(criterion.balance, before)
    assert criterion.balance[1] == 1, "stride 16 stays at 1"
    quiet = [torch.full_like(m, -1e4).requires_grad_() for m in raw]
    criterion(quiet, Targets.from_rows(torch.zeros(0, 6), 2)).total.backward()
    assert criterion.balance.isfinite().all()
    assert criterion(raw, truth).total.isfinite()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ota", "aux", "tal", "1b4h-ota", "simota", "simota-tal"])
def test_some_images_at_a_time_gives_the_same(name, monkeypatch):
    head, assigner, aux = LOSSES[name]
    raw, truth = raw_maps(head, 3, 128, aux=aux), targets(3, 6, head.nc)
    criterion = build_loss(Reader(head), HYP, 128, assigner)
    whole = criterion(raw, truth).total
    gradients = torch.autograd.grad(whole, raw)
    monkeypatch.setattr(chunks, "MAX_PAIRS", 1)
    parts = criterion(raw, truth).total
    torch.testing.assert_close(parts, whole)
    for a, b in zip(torch.autograd.grad(parts, raw), gradients, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("assigner", "dtype"),
    [
        # A third level is the same code again, and so are several heads, auxiliary ones twice: compiling takes as many
        # times as long. tests/gpu/test_loss.py compiles them all, tests/loss/test_one_graph.py makes one graph of
        # several heads and of bins, tests/loss/test_yolox.py of TAL; here are each kind of candidate and type of number
        # once.
        ("ota", torch.float32),
        ("anchor", torch.bfloat16),
        ("simota", torch.bfloat16),
    ],
)
def test_compiled_forward_and_backward_are_those_of_eager(assigner, dtype):
    """Through AOTAutograd, which traces the backward pass too, on maps in the order of a channels_last network."""
    torch._dynamo.reset()
    head = layout(2, kind="point" if assigner == "simota" else "anchor")
    raw, truth = raw_maps(head, 2, 64, dtype=dtype), targets(2, 4, head.nc)
    criterion = build_loss(Reader(head), HYP, 64, assigner)
    compiled = torch.compile(lambda raw, truth: criterion(raw, truth).total, fullgraph=True, backend="aot_eager")
    total, expected = compiled(raw, truth), criterion(raw, truth).total
    torch.testing.assert_close(total, expected)
    for a, b in zip(torch.autograd.grad(total, raw), torch.autograd.grad(expected, raw), strict=True):
        torch.testing.assert_close(a, b)
