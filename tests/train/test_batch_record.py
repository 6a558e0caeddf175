"""What every batch cost and held is written down, and nothing else changes by it."""

import csv

import numpy as np
import pytest
import torch

from tests.model.small import small
from tests.train.small_run import flags
from tests.train.small_step import small_batch, small_step
from tests.train.test_resume import assert_same_state
from yolofast import build_loss, build_model
from yolofast.cli import main
from yolofast.optim.optimizer import ModelEma, parameter_groups
from yolofast.optim.sgd import Sgd
from yolofast.precision import Precision
from yolofast.structures import Batch, BatchMix, LossTerms, Targets
from yolofast.train.batch_record import COLUMNS, BatchRecord, EpochRowsFile, assigner_of
from yolofast.train.losses.yolov7_criterion import QuadLoss
from yolofast.train.step import MEASURED, StepKind, StepRecord, TrainStep

ALONE, ADDED, ADDED_UP = StepKind(False, True), StepKind(True, False), StepKind(True, True)
HYP = {"box": 0.05, "obj": 1.0, "cls": 0.5, "anchor_t": 4.0}


def real_step():
    model = small().train()
    step = TrainStep(
        model, build_loss(model, HYP, 64, faithful=False), Sgd(parameter_groups(model, 0.0005)), ModelEma(model),
        Precision.choose("fp32", "cpu"),
    )  # fmt: skip
    step.optimizer.set((0.01, 0.01, 0.02), 0.9)
    return step


def batch(seed, images=2):
    rng = torch.Generator().manual_seed(seed)
    boxes = torch.rand(images, 4, 4, generator=rng) * 0.3 + 0.2
    valid = torch.rand(images, 4, generator=rng) < 0.8
    targets = Targets(boxes, torch.randint(0, 3, (images, 4), generator=rng), valid)
    return Batch(torch.rand(images, 3, 64, 64, generator=rng), targets, np.arange(images), mix=BatchMix(0.5, 0.25))


def rows_of(folder):
    return list(csv.DictReader((folder / "batches.csv").open()))


@pytest.mark.slow
def test_weights_are_the_same_with_and_without(tmp_path):
    with_record, without = real_step(), real_step()
    record = BatchRecord(with_record, 6, tmp_path, 0)
    record.start_epoch()
    for number, kind in enumerate([ALONE, ALONE, ADDED, ADDED_UP, ADDED, ADDED_UP]):
        record.next_is(batch(number), batch(number), 0.01)
        for step in (with_record, without):
            step.run(batch(number).images, batch(number).targets, kind)
    record.end_epoch(0)
    assert_same_state(with_record.tensors(), without.tensors())
    assert len(rows_of(tmp_path)) == 6


@pytest.mark.slow
def test_rows_say_what_happened(tmp_path):
    step = real_step()
    record = BatchRecord(step, 3, tmp_path, 0)
    record.start_epoch()
    expected = []
    for number, kind in enumerate([ALONE, ADDED, ADDED_UP]):
        one = batch(number)
        step.losses.reset()
        with torch.no_grad():
            terms = step.loss_of(one.images, one.targets)
        record.next_is(one, one, 0.01 * number)
        step.run(one.images, one.targets, kind)
        sizes = (one.targets.boxes[..., 2] * one.targets.boxes[..., 3]).sqrt()[one.targets.valid]
        expected.append((terms, len(sizes), float(sizes.mean()), kind.updates))
    record.end_epoch(7)
    for number, (row, (terms, boxes, size, updates)) in enumerate(zip(rows_of(tmp_path), expected, strict=True)):
        assert (row["epoch"], row["batch"], row["assigner"]) == ("7", str(number), "ota")
        values = {name: float(row[name]) for name in (*MEASURED, "mosaic", "mixup", "lr", "size", "trainable")}
        assert values["total"] == pytest.approx(float(terms.total) / 2, rel=1e-4)
        assert values["box"] == pytest.approx(float(terms.box), rel=1e-4)
        assert values["boxes"] == boxes and values["box_size"] == pytest.approx(size, rel=1e-5)
        assert (values["mosaic"], values["mixup"], values["lr"], values["size"]) == (0.5, 0.25, 0.01 * number, 64)
        assert values["trainable"] == sum(p.numel() for p in step.model.parameters())
        assert np.isfinite(values["gradient_norm"]) == updates


def test_the_gradient_s_norm_is_that_of_the_loss_alone():
    """Decay is added to the gradients by the optimizer: it has to come after."""
    step = small_step()
    step.record = StepRecord(torch.device("cpu"), 1)
    one = small_batch(0)
    other = small_step()
    other.prepare_gradients(ALONE)
    other.loss_of(one.images, one.targets).total.backward()
    norm = torch.cat([p.grad.flatten() for p in other.model.parameters()]).norm()
    step.record.next_is(0)
    step.run(one.images, one.targets, ALONE)
    assert step.record.read(1)[0][-1] == pytest.approx(float(norm), rel=1e-5)


def test_yolox_s_terms_and_a_batch_without_boxes():
    record = StepRecord(torch.device("cpu"), 2)
    part = torch.tensor(1.0)
    empty = Targets(torch.zeros(1, 1, 4), torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.bool))
    record.next_is(1)
    record.losses(LossTerms(part * 10, {"box": part * 4, "obj": part * 2, "cls": part * 3, "l1": part}), empty)
    row = dict(zip(MEASURED, record.read(2)[1], strict=True))
    assert row["total"] == 10 and row["box"] == 4 and row["l1"] == 1 and row["boxes"] == 0 and np.isnan(row["box_size"])
    assert np.isnan(record.read(1)).all(), "what was not run stays unknown"
    record.forget()
    assert np.isnan(record.read(2)).all()


def test_the_assigner_is_found_inside_a_loss():
    model = small()
    loss = build_loss(model, HYP, 64, "tal")
    assert assigner_of(loss) == assigner_of(QuadLoss(loss)) == "tal" and assigner_of(lambda raw, targets: None) == ""


@pytest.mark.slow
def test_the_assigner_of_several_heads_has_a_name():
    four = {"nc": 4, "heads": 4, "head_assignments": {f"head_{n}": {"classes": [n]} for n in range(4)}}
    loss = build_loss(build_model("yolov7-tiny-1b4h", 4, four), HYP, 64, "ota")
    assert assigner_of(loss) == assigner_of(QuadLoss(loss)) == "ota"


def test_a_file_that_is_continued_has_no_epoch_twice(tmp_path):
    row = (1.5,) * (len(COLUMNS) - 3)
    path = tmp_path / "batches.csv"
    file = EpochRowsFile(path, COLUMNS, 0)
    for epoch in range(3):
        file.append((epoch, batch, *row, "ota") for batch in range(2))
    whole = (tmp_path / "batches.csv").read_text()
    with (tmp_path / "batches.csv").open("a") as torn:
        torn.write("2,3,1.5,0.")
    again = EpochRowsFile(path, COLUMNS, 2)
    assert [row["epoch"] for row in rows_of(tmp_path)] == ["0", "0", "1", "1"]
    again.append((2, batch, *row, "ota") for batch in range(2))
    assert (tmp_path / "batches.csv").read_text() == whole
    EpochRowsFile(path, COLUMNS, 0)
    assert rows_of(tmp_path) == []


@pytest.mark.slow
def test_a_resumed_run_records_what_a_whole_one_does(tmp_path, monkeypatch):
    """From the state after the first epoch, when the second one is already written down, for the most part."""
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums are then always added in the same order
    assert main(["train", *flags(tmp_path, epochs=2, batch_size=12)]) == 0
    run = tmp_path / "runs" / "exp"
    whole = (run / "batches.csv").read_text()
    (run / "batches.csv").write_text(whole[:-20])
    (run / "weights" / "last.pt").unlink()
    assert main(["train", "--resume", str(run / "weights" / "last.pt"), "--device", "cpu"]) == 0
    torch.set_num_threads(threads)
    assert len(rows_of(run)) == 4 and (run / "batches.csv").read_text() == whole
