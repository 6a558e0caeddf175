"""A loss that is NaN or infinite is undone, the learning rate lowered, and three in a row end the run.

A run that diverges with finite losses is told.
"""

import pytest
import torch
from torch import nn

from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.optim.optimizer import ModelEma
from yolofast.optim.sgd import Sgd
from yolofast.precision import Precision
from yolofast.structures import LossTerms
from yolofast.train.guard import NanGuard, divergence_warning
from yolofast.train.step import StepKind, TrainStep

UPDATE = StepKind(sums=False, updates=True)


def make_step():
    torch.manual_seed(0)
    model = nn.Linear(2, 1)

    def criterion(raw, targets):
        total = (raw**2).mean() * targets
        return LossTerms(total, dict.fromkeys(("box", "obj", "cls"), total.detach()), times_images=True)

    optimizer = Sgd([{"params": list(model.parameters()), "weight_decay": 0.0}])
    step = TrainStep(model, criterion, optimizer, ModelEma(model), Precision.choose("fp32", "cpu"))
    step.optimizer.set([0.1], 0.9)
    return step


def run(step, guard, factors, kind=UPDATE):
    """One step for each factor of the loss; what the guard said."""
    said = []
    for factor in factors:
        step.run(torch.rand(4, 2), torch.tensor(factor), kind)
        said.append(guard.after_batch())
    return [text for text in said if text]


def test_good_steps_are_left_alone():
    step = make_step()
    guard = NanGuard(step)
    guard.start_epoch()
    assert not run(step, guard, [1.0] * 40)
    assert guard.end_epoch() is None and guard.lr_factor == 1


def test_gradients_that_were_summed_since_the_start_are_forgotten():
    """In the first epoch they are not there when the state is kept."""
    step = make_step()
    guard = NanGuard(step)
    guard.start_epoch()
    good = [tensor.clone() for tensor in step.tensors()]
    (said,) = run(step, guard, [1.0] * 5 + [float("nan")] + [1.0] * 10, StepKind(sums=True, updates=False))
    assert "NaN" in said
    *state, weight, bias = step.tensors()
    assert len(state) == len(good) and not weight.any() and not bias.any()
    for tensor, kept in zip(state, good, strict=True):
        assert torch.equal(tensor, kept)


def test_a_bad_step_takes_the_run_back_to_the_start_of_the_epoch():
    step = make_step()
    guard = NanGuard(step)
    run(step, guard, [1.0] * 3)
    guard.start_epoch()
    good = [tensor.clone() for tensor in step.tensors()]
    (said,) = run(step, guard, [1.0] * 5 + [float("nan")] + [1.0] * 10)
    assert "NaN" in said and guard.lr_factor == 0.5
    for tensor, kept in zip(step.tensors(), good, strict=True):
        assert torch.equal(tensor, kept)
    assert not run(step, guard, [1.0] * 32)
    assert all(p.isfinite().all() for p in step.model.parameters())


def test_the_last_batches_of_an_epoch_are_looked_at_too():
    step = make_step()
    guard = NanGuard(step)
    guard.start_epoch()
    assert not run(step, guard, [1.0, float("inf")])
    assert "NaN" in guard.end_epoch()


def test_three_in_a_row_end_the_run():
    step = make_step()
    guard = NanGuard(step, lower_rate="lower lr0, which is 9 in mine.yaml")
    for _ in range(2):
        guard.start_epoch()
        run(step, guard, [float("nan")])
        assert guard.end_epoch()
    guard.start_epoch()
    run(step, guard, [float("nan")])
    with pytest.raises(UserError, match=r"3 times in a row(.|\n)*lower lr0, which is 9 in mine\.yaml"):
        guard.end_epoch()


def test_a_good_epoch_in_between_starts_the_count_anew():
    step = make_step()
    guard = NanGuard(step)
    for factor in (float("nan"), float("nan"), 1.0, float("nan"), float("nan")):
        guard.start_epoch()
        run(step, guard, [factor])
        guard.end_epoch()
    assert guard.lr_factor == 0.5**4


def test_a_state_is_kept_anew_when_other_parameters_learn():
    """As many tensors as before, but of other shapes."""
    step = make_step()
    guard = NanGuard(step)
    for learning, frozen in ((step.model.weight, step.model.bias), (step.model.bias, step.model.weight)):
        frozen.requires_grad_(False)
        learning.requires_grad_(True)
        step.learn_what_requires_it(step.optimizer.regrouped([{"params": [learning], "weight_decay": 0.0}]))
        step.optimizer.set([0.1], 0.9)
        guard.start_epoch()
        start = step.model.bias.detach().clone()
        assert run(step, guard, [1.0] * 15 + [float("nan")])
        assert torch.equal(step.model.bias, start)


@pytest.mark.slow
def test_a_run_that_diverges_with_finite_losses_says_so(tmp_path, monkeypatch, capsys):
    """The training loss alone looks harmless: every batch is normalised by itself."""
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    hyp = tmp_path / "hyp.yaml"
    hyp.write_text("lr0: 10.0\nwarmup_epochs: 0\n")
    assert main(["train", *flags(tmp_path, cfg="mini", epochs=1, batch_size=4, hyp=hyp, name="wild")]) == 0
    said = capsys.readouterr().out
    warnings = [line for line in said.splitlines() if line.startswith("warning: the validation loss is")]
    assert len(warnings) == 1 and "the run diverges" in warnings[0]
    assert f"Stop it, lower lr0, which is 10 in {hyp}, and warm up longer" in warnings[0]
    assert "warning: these weights are of no use, the validation loss is" in said
    following = said.split("\nnext:\n")[1].splitlines()
    assert len(following) == 1 and "diagnose" in following[0], "neither predict with such weights, nor train on"
    assert "Epoch to ship: none" in (tmp_path / "runs" / "wild" / "report.html").read_text()


def test_it_is_said_once_for_as_long_as_it_lasts():
    def row(train, val):
        return {"train/box_loss": train, "val/box_loss": val}

    rows, said = [], []
    for train, val in ((1.0, 1.0), (1.0, float("nan")), (1.0, float("inf")), (1.0, 1.0), (20.0, 1.0)):
        rows.append(row(train, val))
        said.append(divergence_warning(rows, 10, "lower lr0"))
    assert [word is not None for word in said] == [False, True, False, False, True]
    assert said[-1].startswith("warning: the training loss is 20, 20 times that of the first epoch: the run diverges")
