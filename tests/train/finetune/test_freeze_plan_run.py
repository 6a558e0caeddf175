"""A run with a plan, through the real command: it resumes to the same bits across phases, and is what was explained."""

import csv
import os
import signal
import subprocess
import sys
from itertools import pairwise

import pytest
import torch

from tests.programs import Program
from tests.train.small_run import flags, killed_at, state_of
from tests.train.test_resume import assert_same_state
from tests.train.two_ranks import small_cfg_file
from yolofast.cli import main, parse
from yolofast.config.flags import from_args
from yolofast.config.train import TrainConfig
from yolofast.train.explain.explanation import explain

pytestmark = pytest.mark.slow

PLAN = """
plan:
- {until: 1, train: [head]}
- {until: 3, train: [head, 3], lr_factors: {backbone: 0.3}, warmup_epochs: 1, batch_norm: late, batch_norm_epochs: 1}
- {lr: 0.5}
"""
PHASES = (1, 2, 2, 3)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def words(folder, name):
    plan = folder / "plan.yaml"
    plan.write_text(PLAN)
    hyp = folder / "hyp.yaml"
    hyp.write_text("nbs: 16\n")  # two batches make an update, three an epoch: gradients wait where phases change
    settings = {
        "cfg": small_cfg_file(folder), "epochs": 4, "name": name, "save-period": 1, "plan": plan, "hyp": hyp,
    }  # fmt: skip
    return ["train", *flags(folder, **settings), "--noautoanchor", "--notest"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    assert main(words(folder, "whole")) == 0
    return folder, state_of(folder, "whole")


def epochs_of(folder, name):
    weights = folder / "runs" / name / "weights"
    return [torch.load(weights / f"epoch_{n:03}.pt", weights_only=True) for n in range(1, 5)]


def test_what_is_frozen_stays_in_the_checkpoints(whole):
    folder, _ = whole
    states = epochs_of(folder, "whole")
    assert [state["run"]["phases"]["phase"] + 1 for state in states] == list(PHASES)
    frozen = [name for name in states[0]["model"] if name.startswith(("model.0.", "model.1."))]
    assert any("running_var" in name for name in frozen)
    for before, after in pairwise(states[:3]):
        for kind in ("model", "ema"):
            assert all(torch.equal(before[kind][name], after[kind][name]) for name in frozen)
    assert not any(torch.equal(states[2]["model"][name], states[3]["model"][name]) for name in frozen if "bn" in name)


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_resumed_at_the_border_of_a_phase_and_within_one(whole, epoch):
    folder, expected = whole
    name = f"from{epoch}"
    weights = folder / "runs" / name / "weights"
    weights.mkdir(parents=True)
    source = folder / "runs" / "whole" / "weights" / f"epoch_{epoch + 1:03}.pt"
    (weights / "last.pt").write_bytes(source.read_bytes())
    assert main(["train", "--resume", str(weights / "last.pt")]) == 0
    assert_same_state(state_of(folder, name), expected)


def test_killed_in_the_second_phase(whole):
    folder, expected = whole
    process = Program(
        [sys.executable, "-m", *killed_at("epoch", 3), *words(folder, "killed")],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    weights = folder / "runs" / "killed" / "weights"
    process.communicate()
    assert process.returncode == -signal.SIGKILL and not (weights / "epoch_003.pt").exists()
    assert main(["train", "--resume", str(weights / "last.pt")]) == 0
    assert_same_state(state_of(folder, "killed"), expected)


def test_what_is_explained_is_what_ran(whole):
    folder, state = whole
    run = explain(from_args(TrainConfig, parse(words(folder, "whole"))), lambda text: None)
    assert run.updates == state["step"]["ema_updates"]
    assert run.images_seen == 4 * 24
    assert [row.phase.number + 1 for row in run.rows] == list(PHASES)
    with (folder / "runs" / "whole" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    for reported, ran in zip(run.rows, rows, strict=True):
        fastest = max(reported.lr.values(), key=lambda rate: rate.last)
        assert fastest.last == pytest.approx(float(ran["lr/pg0"]), rel=1e-5)
        assert reported.bias_lr.last == pytest.approx(float(ran["lr/pg2"]), rel=1e-5)


def test_a_plan_that_has_changed_is_refused(whole, capsys):
    folder, _ = whole
    plan, last = folder / "plan.yaml", folder / "runs" / "whole" / "weights" / "last.pt"
    try:
        plan.write_text("# the same in other words\n" + PLAN)
        assert main(["train", "--resume", str(last)]) == 0
        plan.write_text(PLAN.replace("lr: 0.5", "lr: 0.4"))
        assert main(["train", "--resume", str(last)]) == 2
        assert "the plan says something else than when the run was started" in capsys.readouterr().err
    finally:
        plan.write_text(PLAN)


def test_a_run_resumes_without_its_plan_file_and_never_back_to_a_phase(tmp_path, capsys):
    """Shares are of the epochs the run was started with: more of them lengthen the last phase."""
    (tmp_path / "mine.yaml").write_text("plan: [{until: 50%, train: [head]}, {lr: 0.5}]")
    settings = {"cfg": small_cfg_file(tmp_path), "epochs": 2, "plan": tmp_path / "mine.yaml"}
    assert main(["train", *flags(tmp_path, **settings), "--noautoanchor", "--notest"]) == 0
    out = capsys.readouterr().out
    assert "--epochs 4  # the plan's last phase continues" in out
    assert "frozen parameters keep the random values they start with" in out and "give --weights" in out
    (tmp_path / "mine.yaml").unlink()
    folder = str(tmp_path / "runs" / "exp")
    assert main(["train", "--resume", folder, "--epochs", "6", "--explain"]) == 0
    explained = capsys.readouterr().out
    assert "continues for 4 epochs more than it says" in explained
    assert main(["train", "--resume", folder, "--epochs", "6"]) == 0
    assert "phase 2, epochs 2 to 6: learning everything" in capsys.readouterr().out
    assert state_of(tmp_path)["run"]["phases"]["phase"] == 1
