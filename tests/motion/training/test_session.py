"""A run of `motion train` as a whole: its folder, its end, and that a resumed one gives the same bits."""

import json
import re
import shutil

import pytest
import torch

from tests.motion.training.sequences import write_motion_data
from yolofast.cli import main
from yolofast.config.motion import MotionTrainConfig
from yolofast.errors import UserError
from yolofast.motion.training.session import train_motion
from yolofast.motion.training.step import MotionStep
from yolofast.motion.training.trainer import MotionTrainer, rate_at
from yolofast.motion.weights import read_motion
from yolofast.runs.reader import RunFolder

pytestmark = pytest.mark.slow
ROWS = ("epoch", "train/l1_loss", "train/giou_loss", "metrics/IoU1(M)", "val/giou_loss", "lr/pg0")


def settings(tmp_path, **given):
    data = tmp_path / "data" / "sequences.yaml"
    if not data.exists():
        write_motion_data(tmp_path / "data", length=22, tracks=1)
    usual = {"data": str(data), "blocks": 1, "epochs": 2, "batch_size": 10, "val_samples": 4, "plots": False}
    return MotionTrainConfig(**{**usual, "project": str(tmp_path / "runs"), "device": "cpu", "lr": 1e-3, **given})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One for all tests that only look at it."""
    base = tmp_path_factory.mktemp("motion")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(base)
        return train_motion(settings(base, jitter=0.02, dropout=0.1, time_scale=1.5, true_padding=True, plots=True), {})


def test_a_run_leaves_what_runs_leave(run):
    names = ["args.yaml", "env.json", "motion.json", "report.html", "results.csv", "results.png", "summary.json"]
    assert sorted(path.name for path in run.iterdir() if path.is_file()) == names
    assert sorted(path.name for path in (run / "weights").iterdir()) == ["best.pt", "last.previous.pt", "last.pt"]
    found = RunFolder(run).read_all()
    assert len(found.results) == 2 and set(ROWS) <= set(found.results.text) and not found.problems
    assert "metrics/mAP50(B)" not in found.results, "that is a detector's"
    assert found.best_row() + 1 == found.summary["best_epoch"]
    assert set(found.summary["best"]) >= {"metrics/IoU1(M)", "metrics/IoU15(M)", "val/l1_loss"}


def test_best_weights_are_weights_alone(run):
    model = read_motion(run / "weights" / "best.pt")
    assert model.shape.blocks == 1 and model.shape.padded_in_front and not model.shape.timed
    content = torch.load(run / "weights" / "best.pt", weights_only=True)
    assert set(content) == {"format", "version", "model", "motion", "epoch"}


def test_its_report_says_how_it_compares(run):
    page = (run / "report.html").read_text()
    assert "samples/s, all epochs" in page and "img/s" not in page, "it learns from histories, not from images"
    for words in ("IoU after 15 frames", "Kalman (BoT-SORT)", "constant velocity", "motion train", "--true-padding"):
        assert words in page, words
    assert "do not fit together" not in page
    assert next(iter(json.loads((run / "motion.json").read_text())["methods"])) == "TrackSSM"


def test_runs_are_compared(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run, "other")
    assert main(["compare", str(run), "other", "--group", "none"]) == 0
    said = capsys.readouterr().out
    assert "IoU after 5 frames" in said and "in IoU after 1 frame: the results of other are a copy" in said


def same_weights(one, other):
    first, second = (torch.load(path / "weights" / "last.pt", weights_only=True) for path in (one, other))
    assert all(torch.equal(first["model"][name], value) for name, value in second["model"].items())
    assert [{key: row[key] for key in ROWS} for row in first["rows"]] == [
        {key: row[key] for key in ROWS} for row in second["rows"]
    ]
    return first


def test_a_stopped_run_continues_to_the_same_bits(run, tmp_path, monkeypatch, capsys):
    """Killed before anything was saved, and again after its first epoch."""
    stopped = tmp_path / "runs" / "exp"
    shutil.copytree(run, stopped)
    shutil.rmtree(stopped / "weights")
    save = MotionTrainer._save

    def killed(self, epoch):
        save(self, epoch)
        raise KeyboardInterrupt

    monkeypatch.setattr(MotionTrainer, "_save", killed)
    with pytest.raises(KeyboardInterrupt):
        train_motion(MotionTrainConfig(resume=str(stopped)), {"resume": str(stopped)})
    assert (stopped / "interrupted.json").exists()
    monkeypatch.setattr(MotionTrainer, "_save", save)
    train_motion(MotionTrainConfig(resume=str(stopped)), {"resume": str(stopped)})
    assert same_weights(stopped, run)["next_epoch"] == 2 and not (stopped / "interrupted.json").exists()
    capsys.readouterr()
    train_motion(MotionTrainConfig(resume=str(stopped)), {"resume": str(stopped)})
    assert "has all its 2 epochs: only its end is made again" in capsys.readouterr().out


def test_what_a_resumed_run_may_change(run):
    config = MotionTrainConfig(resume=str(run))
    with pytest.raises(UserError, match=r"--lr 0\.1 with --resume: the run was started with 0\.001"):
        train_motion(config, {"resume": str(run), "lr": 0.1})
    with pytest.raises(UserError, match="--epochs 1 with --resume: the run was planned for 2"):
        train_motion(config, {"resume": str(run), "epochs": 1})


def test_fine_tuning_begins_with_the_weights_of_a_file(run, tmp_path, capsys):
    """Also for a model that gets intervals, which have no effect at first; and if no track is seen for so long."""
    best, data = run / "weights" / "best.pt", write_motion_data(tmp_path / "short", length=9, tracks=1)
    given = {"data": str(data), "weights": str(best), "true_time": True, "epochs": 1, "lr": 1e-9, "blocks": 6}
    tuned = train_motion(settings(tmp_path, **given), {})
    said = capsys.readouterr().out
    assert re.search(r"IoU after 1, 5, 15 frames 0\.\d{3}, –, –; ", said)
    assert f"--data {data}  # most of it was learnt from" in said
    assert RunFolder(tuned).read_all().best_row() == 0, "by the horizons that there are"
    assert main(["compare", str(tuned), str(run), "--group", "none", "--output", str(tmp_path / "compare.html")]) == 0
    assert re.search(r"IoU after 1 frame +0\.\d", capsys.readouterr().out)
    before, after = read_motion(best), read_motion(tuned / "weights" / "best.pt")
    assert after.shape.timed and after.shape.blocks == 1
    own = after.state_dict()["encoder.mamba_net.embedding.weight"]
    assert torch.allclose(own[:8], before.state_dict()["encoder.mamba_net.embedding.weight"], atol=1e-6)
    assert own[8:].abs().max() < 1e-6


def test_data_without_samples_are_refused_before_anything_is_written(tmp_path):
    short = write_motion_data(tmp_path / "short", length=5)
    long = write_motion_data(tmp_path / "long", length=20)
    # What is validated on needs long tracks in any case, so only where those are there is padding a way out.
    for data, val, padded, told in (
        (short, "", False, "give longer tracks, or others with --val"),
        (short, "", True, "in what is validated on"),
        (long, short, False, "in what is validated on"),
        (short, long, False, "or --true-padding"),
    ):
        with pytest.raises(UserError, match=f"(?s)no track is seen in seven frames.*{told}"):
            train_motion(settings(tmp_path, data=str(data), val=str(val), true_padding=padded), {})
    assert not (tmp_path / "runs").exists()
    train_motion(settings(tmp_path, data=str(short), val=str(long), true_padding=True, epochs=1), {})


def test_a_run_that_diverges_says_so(tmp_path, monkeypatch):
    """In a step, or in the last one of an epoch, whose loss is not seen any more."""
    losses = MotionStep.losses

    def spoilt(self):
        with torch.no_grad():
            self.model.ssm_decoder.stages[-1].norm2.weight.fill_(torch.nan)
        return losses(self)

    monkeypatch.setattr(MotionStep, "losses", spoilt)
    with pytest.raises(UserError, match="after epoch 1 the weights are not numbers") as caught:
        train_motion(settings(tmp_path), {})
    assert caught.value.fix == "lower --lr (it was 0.001)", "nothing is saved yet"
    monkeypatch.setattr(MotionStep, "losses", lambda self: {"l1": float("inf")})
    with pytest.raises(UserError, match="the loss of epoch 1 is not a number"):
        train_motion(settings(tmp_path), {})


def test_rates():
    config = MotionTrainConfig(data="x", lr=1e-3, lrf=0.1, epochs=11)
    assert rate_at(config, 0) == 1e-3 and rate_at(config, 5) == pytest.approx(5.5e-4)
    assert rate_at(config, 10) == pytest.approx(1e-4)
    assert rate_at(MotionTrainConfig(data="x", faithful=True, lr=1e-3), 50) == 1e-3
    with pytest.raises(UserError, match="--faithful goes with no repair"):
        MotionTrainConfig(data="x", faithful=True, jitter=0.1)
