"""YOLOX trained by the real command: it learns, follows its recipe, resumes to the bit, and can be used afterwards."""

import csv
import json
import math
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from tests.train.small_run import flags
from tests.train.test_resume import assert_same_state
from yolofast import build_model
from yolofast.cli import main
from yolofast.config.train import TrainConfig
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.report.logs.read_run import read_history
from yolofast.resources import find_resource
from yolofast.train.families.family import completed, rules_of
from yolofast.train.run import prepare_model, prepare_run

GOLDEN = Path(__file__).parents[2] / "golden"
SMALL = "family: yolox\nnc: 3\ndepth_multiple: 0.33\nwidth_multiple: 0.125\nimage_size: 64\n"
CLOSES_AT = 1
"""Of three epochs, with one at the lowest learning rate."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("yolox")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Sums are then always added in the same order, and maps this small are not worth a second one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def train(folder, *more, **changes):
    words = flags(folder, cfg="yolox-nano", **changes)
    assert main(["train", *words, "--set", "no_aug_epochs=1", "basic_lr_per_img=0.003", "mosaic_prob=1", *more]) == 0


@pytest.fixture(scope="module")
def trained(folder):
    """The folder of a run of three epochs of six batches; sizes change after the tenth."""
    train(folder, data=make_shapes(folder / "pictures", n=48), name="whole", save_period=1)
    return folder / "runs" / "whole"


@pytest.mark.slow
def test_the_loss_falls(trained):
    rows = list(csv.DictReader((trained / "results.csv").open()))
    assert len(rows) == 3
    for term in ("box", "obj"):
        losses = [float(row[f"train/{term}_loss"]) for row in rows]
        assert losses == sorted(losses, reverse=True), term
        assert math.isfinite(float(rows[-1][f"val/{term}_loss"]))


@pytest.mark.slow
def test_results_have_l1_and_add_up_to_the_total(trained):
    """It is 0 until the epoch in which mosaic closes; batches.csv has the total of every batch. What is said of a run's
    course leaves it out: it would seem to get worse."""
    rows = list(csv.DictReader((trained / "results.csv").open()))
    for side in ("train", "val"):
        assert [float(row[f"{side}/l1_loss"]) > 0 for row in rows] == [n >= CLOSES_AT for n in range(3)], side
    batches = list(csv.DictReader((trained / "batches.csv").open()))
    history = read_history(trained)
    for epoch in range(3):
        totals = [float(row["total"]) for row in batches if row["epoch"] == str(epoch)]
        terms = {name: float(rows[epoch][f"train/{name}_loss"]) for name in ("box", "obj", "cls", "l1")}
        assert sum(terms.values()) == pytest.approx(sum(totals) / len(totals), rel=1e-4)
        assert history.epochs.train[epoch] == pytest.approx(sum(terms.values()) - terms["l1"], rel=1e-4)


@pytest.mark.slow
def test_the_folder_says_what_ran(trained):
    said = yaml.safe_load((trained / "hyp.yaml").read_text())
    assert (said["model"], said["batch_size"], said["epochs"], said["input_size"]) == ("yolox-nano", 8, 3, [64, 64])


@pytest.mark.slow
def test_a_recipe_edited_since_is_refused(trained, folder, capsys):
    again = folder / "runs" / "edited"
    shutil.copytree(trained, again)
    state = torch.load(again / "weights" / "last.pt", weights_only=True)
    state["config"]["recipe"] = str(folder / "mine.yaml")
    torch.save(state, again / "weights" / "last.pt")
    packaged = find_resource("yolox-nano", "recipe").read_text()
    for text, code in (("", 0), ("degrees: 3.0\n", 2)):
        (folder / "mine.yaml").write_text(packaged + text)
        assert main(["train", "--resume", str(again), "--epochs", "3", "--device", "cpu"]) == code
    assert "have changed since the run began: degrees was 10.0 and is 3.0" in capsys.readouterr().err


@pytest.mark.slow
def test_resumed_after_the_first_epoch_it_ends_the_same(trained, folder):
    """The epochs repeated have another loss, no mosaic, and other sizes."""
    again = folder / "runs" / "again"
    shutil.copytree(trained, again)
    (again / "weights" / "last.pt").unlink()
    assert main(["train", "--resume", str(again / "weights" / "epoch_001.pt"), "--device", "cpu"]) == 0
    states = [torch.load(run / "weights" / "last.pt", weights_only=True) for run in (trained, again)]
    assert states[0]["next_epoch"] == 3 and states[0]["hyp"]["no_aug_epochs"] == 1
    assert_same_state(*states)


@pytest.mark.slow
def test_the_best_weights_can_be_evaluated(trained, folder, capsys):
    args = [
        "--weights",
        trained / "weights" / "best.pt",
        "--data",
        folder / "pictures" / "data.yaml",
        "--device",
        "cpu",
    ]
    assert main(["val", *map(str, args), "--cache", "off", "--no-plots", "--project", str(folder / "val")]) == 0
    assert "64" in capsys.readouterr().out, "the size it was trained at"


def prepared(folder, *values, **changes):
    (folder / "small.yaml").write_text(SMALL)
    data = make_shapes(folder / "pictures", n=48)
    settings = {"cfg": str(folder / "small.yaml"), "img_size": (64,), "batch_size": 8, "epochs": 3} | changes
    config = TrainConfig(
        data=str(data), workers=0, device="cpu", cache="off", recipe_values=("no_aug_epochs=1", *values), **settings
    )
    return prepare_run(completed(config, settings), lambda text: None)


@pytest.mark.slow
def test_mosaic_closes_and_l1_joins_in_the_same_epoch(folder):
    run = prepared(folder, "mosaic_prob=1", "mixup_prob=1")
    for epoch in range(3):
        run.start_epoch(epoch)
        (mix,) = {batch.mix for batch in run.batches.epoch(epoch)}
        closed = epoch >= CLOSES_AT
        assert (mix.mosaic, run.step.criterion.use_l1) == (0.0 if closed else 1.0, closed), epoch


@pytest.mark.slow
def test_every_part_follows_the_recipe(folder):
    run = prepared(folder, "weight_decay=0.001", "ema_decay=0.5", "momentum=0.8", "nms=0.4", batch_size=16)
    assert run.config.recipe == "yolox-tiny", "for narrow networks"
    assert run.step.ema.decay == 0.5
    settings = run.schedule.at(2, 0)
    assert settings.momentum == 0.8 and settings.accumulate == 1
    assert settings.lr == pytest.approx((0.01 / 64 * 16 * 0.05,) * 3), "the lowest"
    assert run.step.optimizer._decay == [0.0, 0.001, 0.0], "whatever the batch"
    assert run.hyp["nms"] == 0.4 and run.batches.maker.rgb is False
    assert run.batches.maker.planner.recipe.style == "yolox" and run.batches.maker.planner.most_boxes == (50, 120)


@pytest.mark.slow
def test_without_an_average_the_trained_weights_are_the_result(folder):
    run = prepared(folder, "ema=false", "multi_scale=false")
    assert run.step.ema.model is run.model
    run.start_epoch(0)
    run.evaluate(0)
    assert run.model.training, "the next epoch continues to train"


@pytest.mark.slow
def test_inputs_may_have_two_sides(folder):
    for values, size in (("input_size=64,128",), (128,)), ((), (64, 128)):
        run = prepared(folder, *values, "multi_scale=false", img_size=size)
        assert next(run.batches.epoch(0)).images.shape[2:] == (64, 128)
        assert next(iter(run.evaluation.batches)).images.shape[2:] == (64, 128)


def test_published_rates_are_those_of_the_run(folder):
    (folder / "small.yaml").write_text(SMALL)
    model = build_model(folder / "small.yaml")
    for case in json.loads((GOLDEN / "yolox_schedule.json").read_text()).values():
        batch = 64
        values = [f"basic_lr_per_img={case['lr'] / batch!r}", f"min_lr_ratio={case['minr']}"]
        values += [f"warmup_epochs={case['warm']}", f"no_aug_epochs={case['noaug']}"]
        config = TrainConfig(cfg="yolox-s", epochs=case["epochs"], batch_size=batch, recipe_values=tuple(values))
        schedule = rules_of(config, {}, model).schedule(case["iters"])
        for iteration, rate in case["points"]:
            if 0 < iteration <= case["epochs"] * case["iters"]:
                epoch, number = divmod(iteration - 1, case["iters"])
                assert schedule.at(epoch, number).lr[0] == pytest.approx(rate, rel=1e-12)


@pytest.mark.slow
def test_published_weights_for_other_classes_are_a_transfer(tmp_path):
    torch.manual_seed(7)
    published = build_model("yolox-nano", nc=80)
    torch.nn.init.constant_(published.head.cls_preds[0].bias, 3.0)
    torch.save({"model": published.state_dict(), "start_epoch": 300}, tmp_path / "yolox_nano.pth")
    said = []
    config = TrainConfig(cfg="", weights=str(tmp_path / "yolox_nano.pth"))
    model = prepare_model(config, ("a", "b", "c"), torch.device("cpu"), said.append).model
    assert model.nc == 3 and model.names == ("a", "b", "c")
    theirs = published.state_dict()
    for name, tensor in model.state_dict().items():
        if "cls_preds" not in name:
            assert torch.equal(tensor, theirs[name]), name
        elif name.endswith("bias"):
            torch.testing.assert_close(tensor, torch.full((3,), -math.log(99)))
    (word,) = said
    assert word.startswith(f"weights: {len(theirs) - 6} tensors of {tmp_path / 'yolox_nano.pth'}")
    names = "head.cls_preds.0.weight, head.cls_preds.0.bias"
    assert word.endswith(f"6 of the network's {len(theirs)} start anew: {names} …")
