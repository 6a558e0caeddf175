"""Short runs with what no published recipe has."""

import numpy as np
import pytest
import torch

from tests.optim.waits import NeverWaits
from tests.train.small_run import NETWORK, flags, shapes_in, state_of
from yolofast.cli import main
from yolofast.config.flags import from_settings
from yolofast.config.train import TrainConfig
from yolofast.structures import Batch
from yolofast.train.evaluation import Informative
from yolofast.train.families.multi_scale import GrowingScale
from yolofast.train.run import prepare_run
from yolofast.train.step import StepKind

SMALL_YOLOX = NETWORK.parents[1] / "frozen" / "inputs" / "small_yolox.yaml"
ALL = (
    "warmup_iterations=2", "ema_decay=0.99", "ema_ramp=4", "average_last=0.5", "bn_batches=2", "data_biases=true",
    "strength=[[0, 1], [0.6, 0.5]]", "sizes=[[0, 0.5], [0.3, 1]]", "update_batches=[[0, 1], [0.5, 2]]", "repeats=2",
    "informative=[[0, 1], [0.5, 0.5]]",
)  # fmt: skip


def test_images_grow_with_the_run_in_whole_strides():
    grow = GrowingScale(shares=(0.25, 0.5, 1.0), stride=32, as_input=torch.Tensor.float)
    batch = Batch(torch.full((1, 3, 160, 96), 7, dtype=torch.uint8), None, None)
    sizes = [tuple(grow(batch, epoch, 0).images.shape[2:]) for epoch in range(3)]
    assert sizes == [(32, 32), (96, 64), (160, 96)]
    for epoch in range(3):  # shares of neighbouring pixels add up to 1 but for the last bit of float32
        found = grow(batch, epoch, 0).images
        torch.testing.assert_close(found, torch.full_like(found, 7))


def test_images_are_chosen_when_their_share_changes():
    """First the two worst of four, then the worst one; what a resumed run knows is not asked anew."""
    asked = []

    def mistakes():
        asked.append(len(asked))
        return np.array([[3, 2, 1], [1, 1, 1], [0, 0, 1], [2, 0, 0]])[:: 1 if len(asked) == 1 else -1]

    shares = (1.0, 0.5, 0.5, 0.25)
    informative, resumed = Informative(shares, mistakes), Informative(shares, pytest.fail)
    chosen = []
    for epoch in range(4):
        informative.start_epoch(epoch)
        chosen.append(None if informative.chosen is None else informative.chosen.tolist())
        if epoch == 1:
            resumed.chosen = informative.chosen
    assert chosen == [None, [1, 3], [1, 3], [2]] and asked == [0, 1]
    resumed.start_epoch(2)
    assert resumed.chosen.tolist() == [1, 3]


@pytest.mark.slow
@pytest.mark.parametrize("cfg", [NETWORK, SMALL_YOLOX])
def test_a_run_with_all_of_them_says_so_learns_and_resumes_to_the_same_weights(cfg, tmp_path, capsys):
    values = [*ALL, *(["multi_scale=false"] if cfg == SMALL_YOLOX else [])]
    how = ("--set", *values, "--one-cycle", "--optimizer", "muon")
    whole, paused = tmp_path / "whole", tmp_path / "paused"
    assert main(["train", *flags(whole, cfg=cfg, epochs=4), *how]) == 0
    said = capsys.readouterr().out
    assert "sizes: of images, × 0.5 from epoch 1, × 1 from epoch 3" in said and "data_biases: " in said
    main(["train", *flags(paused, cfg=cfg, epochs=4, until_epoch=3), *how])
    assert main(["train", "--resume", str(paused / "runs" / "exp")]) == 0
    one, other = state_of(whole), state_of(paused)
    assert one["run"]["chosen_images"] == other["run"]["chosen_images"] and len(one["run"]["chosen_images"]) == 12
    for part in ("model", "ema"):
        assert all(torch.equal(one[part][name], other[part][name]) for name in one[part])
    assert all(value.isfinite().all() for value in one["ema"].values() if value.is_floating_point())


def test_a_step_with_all_of_them_can_be_captured(tmp_path):
    config = from_settings(TrainConfig, {
        "data": str(shapes_in(tmp_path / "shapes", 24)), "cfg": str(NETWORK), "img_size": 64, "batch_size": 8,
        "epochs": 4, "workers": 0, "device": "cpu", "cache": "off", "optimizer": "muon", "lr_schedule": "one_cycle",
        "recipe_values": (*ALL, "cls_gr=1"),
    })  # fmt: skip
    run = prepare_run(config, lambda word: None)
    for epoch, side in ((0, 32), (3, 64)):
        run.start_epoch(epoch)
        settings = run.schedule.at(epoch, 0)
        run.step.optimizer.set(settings.lr, settings.momentum)
        batch = run.resize(run.step.on_device(next(run.batches.epoch(epoch))), epoch, 0)
        assert batch.images.shape == (8, 3, side, side)
        with NeverWaits():
            run.step.run(batch.images, batch.targets, StepKind(sums=False, updates=True))


@pytest.mark.slow
def test_they_are_explained(tmp_path, capsys):
    assert main(["train", *flags(tmp_path, epochs=10), "--set", *ALL, "--one-cycle", "--explain"]) == 0
    said = capsys.readouterr().out
    for name in ("average_last", "strength", "sizes", "bn_batches", "update_batches", "repeats", "informative"):
        assert name in said
    assert "2 iterations" in said
    assert main(["train", *flags(tmp_path, epochs=10), "--set", "warmup_iterations=25", "--explain"]) == 0
    said = capsys.readouterr().out
    assert "25 iterations" in said and "epochs) instead of" not in said  # nobody asked for fewer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cfg", "more", "what"),
    [
        (NETWORK, ("--set", "sizes=[[0, 0.5]]", "--multi-scale"), "sizes and --multi-scale both"),
        (SMALL_YOLOX, ("--set", "sizes=[[0, 0.5]]"), "sizes and multi_scale both"),
        (NETWORK, ("--set", "repeats=2", "--rect"), "repeats and --rect both"),
        (SMALL_YOLOX, ("--set", "repeats=2", "--image-weights"), "repeats and --image-weights both"),
        (SMALL_YOLOX, ("--set", "average_last=0.5", "ema=false"), "takes the place of the average"),
    ],
)
def test_what_does_not_go_together_is_refused(cfg, more, what, tmp_path, capsys):
    assert main(["train", *flags(tmp_path, cfg=cfg), *more]) == 2
    assert what in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
