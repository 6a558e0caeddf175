"""`train --resume RUN --explain`: what is still to come, as it then comes."""

import csv

import pytest

from tests.train.small_run import flags
from tests.train.two_ranks import small_cfg_file
from yolofast.cli import main, parse
from yolofast.commands.explain import print_explanation
from yolofast.config.flags import from_args
from yolofast.config.train import TrainConfig
from yolofast.train.explain.explanation import RunSoFar, explain
from yolofast.train.explain.remarks import remarks
from yolofast.train.resume import beginning

PLAN = """
plan:
- {until: 1, train: [head]}
- {until: 5, train: [head, neck], lr_factors: {neck: 0.3}}
- {lr: 0.5}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Three epochs of YOLOX, mosaics closed in the last of them; and its twin, to resume."""
    folder = tmp_path_factory.mktemp("resumed")
    (folder / "plan.yaml").write_text(PLAN)
    words = flags(folder, cfg="yolox-nano", name="run", plan=folder / "plan.yaml", weights="")
    assert main(["train", *words, "--set", "no_aug_epochs=1"]) == 0
    return folder / "runs" / "run"


def reported(run, *more):
    config = from_args(TrainConfig, parse(["train", "--resume", str(run), *more]))
    begun = beginning(config, {"epochs": config.epochs} if more else {})
    return explain(begun.findable, lambda text: None, begun.plan, begun.past)


@pytest.mark.slow
def test_what_is_to_come_is_what_then_runs(ran, capsys):
    run = reported(ran, "--epochs", "6")
    assert main(["train", "--resume", str(ran), "--epochs", "6", "--explain"]) == 0
    out = capsys.readouterr().out
    assert "resuming with epoch 4 of 6 epochs" in out and "to come" in out
    assert "start anew" not in out
    found = remarks(run)
    assert any(text.startswith("schedule: what ran so far followed that of 3 epochs") for text in found)
    assert any("comes back with epoch 4" in text for text in found)
    assert [row.epoch for row in run.rows] == [3, 4, 5]
    assert [phase.number for phase in run.phases] == [1, 2]

    assert main(["train", "--resume", str(ran), "--epochs", "6"]) == 0
    with (ran / "batches.csv").open() as file:
        batches = list(csv.DictReader(file))
    for row in run.rows:
        rates = [float(batch["lr"]) for batch in batches if int(batch["epoch"]) == row.epoch]
        fastest = max(row.lr.values(), key=lambda rate: rate.last)
        assert (rates[0], rates[-1]) == pytest.approx((fastest.first, fastest.last), rel=1e-4)
        mosaics = [float(batch["mosaic"]) for batch in batches if int(batch["epoch"]) == row.epoch]
        assert any(mosaics) == bool(row.chances["mosaic"])
    assert run.images_seen == 3 * 24

    assert main(["train", "--resume", str(ran), "--explain"]) == 0
    assert "the run has all its 6 epochs" in capsys.readouterr().out


@pytest.mark.slow
def test_a_rate_that_was_lowered_stays_so(ran):
    config = from_args(TrainConfig, parse(["train", "--resume", str(ran), "--epochs", "9"]))
    begun = beginning(config, {"epochs": 9})
    lowered = begun._replace(state={**begun.state, "lr_factor": 0.5})
    rows, half = (explain(b.findable, lambda text: None, b.plan, b.past) for b in (begun, lowered))
    for row, other in zip(rows.rows, half.rows, strict=True):
        assert [rate.last / 2 for rate in row.lr.values()] == pytest.approx([rate.last for rate in other.lr.values()])
    assert any("0.5 of the schedule's" in text for text in remarks(half))


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """Each of its phases warms up; the second is over before."""
    folder = tmp_path_factory.mktemp("planned")
    (folder / "plan.yaml").write_text(
        "plan: [{until: 4, train: [head]}, {until: 6, warmup_epochs: 3}, {warmup_epochs: 1}]"
    )
    words = flags(folder, cfg=small_cfg_file(folder), weights="", epochs=10, plan=folder / "plan.yaml")
    return from_args(TrainConfig, parse(["train", *words]))


@pytest.mark.parametrize(("done", "rises"), [(0, True), (6, True), (7, False)])
def test_a_warm_up_of_a_phase_that_is_over_is_not_to_come(planned, capsys, done, rises):
    past = RunSoFar(epochs=done, planned=10, lr=0.01) if done else None
    print_explanation(planned, past=past)
    assert ("rising for an epoch" in " ".join(capsys.readouterr().out.split())) == rises


@pytest.mark.parametrize(("done", "reported"), [(5, True), (6, False)])
def test_nothing_is_remarked_on_a_phase_that_is_over(planned, done, reported):
    found = remarks(explain(planned, lambda text: None, None, RunSoFar(epochs=done, planned=10, lr=0.01)))
    assert any("phase 2 warms up for 3 epochs and has 2" in text for text in found) == reported
