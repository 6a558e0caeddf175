"""One step of a motion model, and an epoch of them."""

import pytest
import torch

from tests.motion.training.test_samples import tracks_of
from yolofast.motion.stages_triton import NAMES, in_a_row
from yolofast.motion.trackssm import TrackSSM, TrackSSMShape
from yolofast.motion.training.samples import Samples, TrackAugmentation
from yolofast.motion.training.step import MotionStep

SHAPE = TrackSSMShape(blocks=1)


def step_of(length: int, **given) -> MotionStep:
    torch.manual_seed(0)
    return MotionStep(TrackSSM(SHAPE), Samples(tracks_of(list(range(length))), SHAPE), TrackAugmentation(), **given)


@pytest.mark.slow
def test_it_learns():
    step = step_of(22)
    losses = []
    for epoch in range(6):
        step.start_epoch(epoch, 3e-3)
        step.run(len(step.samples))
        losses.append(sum(step.losses().values()))
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.slow
def test_an_epoch_sees_every_sample_once(monkeypatch):
    """In another order each time; the last batch may be smaller."""
    step, seen = step_of(22), []
    cut = step.samples.cut
    monkeypatch.setattr(step.samples, "cut", lambda places, *rest: (seen.append(places), cut(places, *rest))[1])
    for epoch in range(2):
        step.start_epoch(epoch, 1e-4)
        for count in (10, 6):
            step.run(count)
    first, second = torch.cat(seen[:2]), torch.cat(seen[2:])
    assert first.sort().values.tolist() == step.samples.places.tolist() == second.sort().values.tolist()
    assert not torch.equal(first, second)


@pytest.mark.slow
def test_losses_are_means_over_samples():
    step = step_of(22)
    step.start_epoch(0, 0.0)
    for count in (10, 6):
        step.run(count)
    in_parts = step.losses()
    step.start_epoch(0, 0.0)
    step.run(16)
    assert step.losses() == pytest.approx(in_parts, rel=1e-5)
    assert step_of(22, giou=False).terms == ("l1",)


def test_weights_of_all_decoder_stages_are_stacks_as_they_lie():
    step = step_of(22)
    whole = step.model.ssm_decoder.stages[0].D.untyped_storage().data_ptr()
    assert whole == step.optimizer._params[0][0].untyped_storage().data_ptr()
    for name in NAMES:
        parts = [stage.get_parameter(name) for stage in step.model.ssm_decoder.stages]
        stacked = in_a_row(parts)
        assert stacked.untyped_storage().data_ptr() == whole and torch.equal(stacked, torch.stack(parts)), name
    apart = [torch.ones(3), torch.ones(3)]
    assert torch.equal(in_a_row(apart), torch.ones(2, 3))


def test_the_first_stage_has_no_state_to_fade():
    """Its rates get a gradient of 0, and every other parameter one of its own."""
    step = step_of(22)
    step.start_epoch(0, 1e-4)
    step.run(16)
    slopes = step._weights.parts(step._weights.whole.grad)
    none = [name for (name, _), one in zip(step.model.named_parameters(), slopes, strict=True) if not one.abs().sum()]
    assert none == ["ssm_decoder.head_series.0.A_log"]
