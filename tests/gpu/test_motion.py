"""Motion models on a GPU: kernels, captured steps and captured questions give what plain torch gives."""

import copy

import numpy as np
import pytest
import torch

from tests.motion.golden import EXPECTED, golden_inputs, golden_model
from tests.motion.kernels import compare_adam, compare_kernels, compare_losses
from tests.motion.training.test_samples import tracks_of
from yolofast.motion.predictor import MotionPredictor
from yolofast.motion.trackssm import TrackSSM, TrackSSMShape, loss_of
from yolofast.motion.training.samples import Samples, TrackAugmentation
from yolofast.motion.training.step import MotionStep


@pytest.mark.parametrize(("blocks", "sigmoid", "histories"), [(2, True, 203), (6, True, 5), (1, False, 9)])
def test_kernels(blocks, sigmoid, histories):
    """Boxes, losses and the gradient of every weight; more histories than programs take at once among them."""
    compare_kernels("cuda", histories, blocks, sigmoid)


def test_losses():
    compare_losses("cuda")


def test_adam():
    compare_adam("cuda")


@pytest.mark.parametrize("blocks", [2, 6])
def test_golden_numbers(blocks):
    """Not gradients: an input of a ReLU is 1e-7 away from 0 here. `test_kernels` draws histories without such."""
    expected, model = EXPECTED[str(blocks)], golden_model(blocks).cuda()
    rows, truth = (one.cuda() for one in golden_inputs())
    boxes = model(rows)
    terms = loss_of(boxes, rows[:, -1, :4], truth)
    torch.testing.assert_close(boxes.detach().cpu(), torch.tensor(expected["stages"]), atol=1e-5, rtol=0)
    assert float(terms["l1"]) == pytest.approx(expected["smooth_l1"], abs=1e-6)
    assert float(terms["giou"]) == pytest.approx(expected["giou"], abs=1e-6)


def test_captured_steps():
    """As eager ones, the smaller last batch of an epoch among them."""
    shape = TrackSSMShape(blocks=2)
    torch.manual_seed(0)
    model, tracks = TrackSSM(shape).cuda(), tracks_of(list(range(300)))
    augmentation = TrackAugmentation(jitter=0.05, dropout=0.1, time_scale=1.5)
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
    ask, rows = MotionPredictor(copy.deepcopy(model), torch.device("cuda")), torch.rand(70, 5, 8)
    for count in (1, 16, 17, 70, 3):
        with torch.no_grad():
            np.testing.assert_allclose(ask(rows[:count].numpy()), model(rows[:count])[-1].numpy(), atol=1e-5)
