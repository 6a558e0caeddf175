"""Motion models on a GPU: kernels, captured steps and captured questions give what plain torch gives."""

import copy

import numpy as np
import pytest
import torch

from tests.motion.golden import golden_inputs, golden_model
from tests.motion.scans import compare_scans
from tests.motion.training.test_samples import tracks_of
from yolofast.motion import scan
from yolofast.motion.predictor import Predictor
from yolofast.motion.trackssm import TrackSSM, TrackSSMShape, loss_of
from yolofast.motion.training.samples import Augmentation, Samples
from yolofast.motion.training.step import MotionStep


@pytest.mark.parametrize("channels", [256, 512])
def test_kernels(channels):
    """Of a decoder's and an encoder's width, for more histories than programs take at once."""
    compare_scans("cuda", histories=203, channels=channels)


@pytest.mark.parametrize("blocks", [2, 6])
def test_losses_with_kernels(blocks, monkeypatch):
    """Of the golden network. Not its gradients: where rounding turns a ReLU on, they differ by more than it."""
    model = golden_model(blocks).cuda()
    rows, truth = (one.cuda() for one in golden_inputs())
    found = []
    for plain in (False, True):
        if plain:
            monkeypatch.setattr(scan, "fastest", lambda tensor: scan)
        found.append({name: float(one) for name, one in loss_of(model(rows), rows[:, -1, :4], truth).items()})
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_captured_steps():
    """As eager ones, the smaller last batch of an epoch among them."""
    shape = TrackSSMShape(blocks=2)
    torch.manual_seed(0)
    model, tracks = TrackSSM(shape).cuda(), tracks_of(list(range(300)))
    augmentation = Augmentation(jitter=0.05, dropout=0.1, time_scale=1.5)
    samples = Samples(tracks, shape).to(torch.device("cuda"))
    steps = [MotionStep(copy.deepcopy(model), samples, augmentation) for _ in range(2)]
    for epoch in range(3):
        for step in steps:
            step.start_epoch(epoch, 1e-3)
        for count in (100, 100, 94):
            steps[0].run(count)
            steps[1].step(count)
        captured, eager = (step.losses() for step in steps)
        assert captured == pytest.approx(eager, rel=1e-4), epoch


def test_questions_of_any_number():
    model = golden_model(2)
    ask, rows = Predictor(copy.deepcopy(model), torch.device("cuda")), torch.rand(70, 5, 8)
    for count in (1, 16, 17, 70, 3):
        with torch.no_grad():
            np.testing.assert_allclose(ask(rows[:count].numpy()), model(rows[:count])[-1].numpy(), atol=1e-5)
