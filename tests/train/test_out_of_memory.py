"""A step that does not fit: a message names a batch that does, or the run continues with it from the epoch's start."""

import pytest
import torch

from tests.train.small_run import flags, state_of
from tests.train.test_resume import assert_same_state
from tests.train.test_training_options import run_to_first_checkpoint
from yolofast.cli import main
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.train.checkpoints import on_host
from yolofast.train.fitting_batch import with_fitting_batch
from yolofast.train.step import TrainStep


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("memory")


@pytest.fixture(autouse=True)
def _own_cache(folder, monkeypatch):
    monkeypatch.setenv("YOLOFAST_CACHE", str(folder / "cache"))


def run_out_of_memory(monkeypatch, after_steps=0, images=4):
    """Steps with more images than that do not fit, once there were `after_steps`."""
    run, steps = TrainStep.run, []

    def run_small_batches(self, batch, *more):
        steps.append(len(batch))
        if len(batch) > images and len(steps) > after_steps:
            raise torch.OutOfMemoryError
        run(self, batch, *more)

    monkeypatch.setattr(TrainStep, "run", run_small_batches)


def train(folder, *more, epochs=1, **changes):
    return main(["train", *flags(folder, epochs=epochs, **changes), "--no-plots", *more])


@pytest.mark.slow
def test_the_message_names_a_smaller_batch(folder, monkeypatch, capsys):
    run_out_of_memory(monkeypatch)
    assert train(folder, name="message") == 2
    error = capsys.readouterr().err
    assert "memory ran out with a batch of 8" in error and "--batch-size 4" in error and "--reduce-batch" in error
    assert "Traceback" not in error


@pytest.mark.slow
def test_the_first_epoch_starts_again_with_a_smaller_batch(folder, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        run_out_of_memory(patch)
        assert train(folder, "--reduce-batch", name="reduced") == 0
    assert "starts again with 4" in capsys.readouterr().out
    assert "batch_size: 4" in (folder / "runs" / "reduced" / "args.yaml").read_text()
    assert train(folder, name="small", **{"batch-size": 4}) == 0
    assert_same_state(state_of(folder, "reduced"), state_of(folder, "small"))


@pytest.mark.slow
def test_a_later_epoch_starts_again_from_its_own_start(folder, monkeypatch):
    """As a run that was stopped before the epoch and continued with smaller batches."""
    with monkeypatch.context() as patch:
        run_out_of_memory(patch, after_steps=4)  # of three in an epoch
        assert train(folder, "--reduce-batch", name="later", epochs=2) == 0
    run_to_first_checkpoint(monkeypatch, ["train", *flags(folder, epochs=2, name="by_hand"), "--no-plots"])
    last = folder / "runs" / "by_hand" / "weights" / "last.pt"
    state = torch.load(last, weights_only=True)
    state["config"]["batch_size"] = 4
    torch.save(state, last)
    assert main(["train", "--resume", str(last), "--no-plots"]) == 0
    assert_same_state(state_of(folder, "later"), state_of(folder, "by_hand"))


@pytest.mark.slow
def test_no_batch_fits(folder, monkeypatch, capsys):
    run_out_of_memory(monkeypatch, images=0)
    assert train(folder, "--reduce-batch", name="none") == 2
    assert "no smaller one fits" in capsys.readouterr().err


def test_nothing_is_measured_on_the_cpu():
    with pytest.raises(UserError, match=r"(?s)this run is on the CPU.*--batch-size 16"):
        with_fitting_batch(TrainConfig(batch_size=-1, device="cpu"), pytest.fail)
    config = TrainConfig(batch_size=8, device="cpu")
    assert with_fitting_batch(config, pytest.fail) is config


def test_a_copy_on_the_host_is_a_copy():
    tensor = torch.ones(2)
    copied = on_host({"a": [tensor], "b": (tensor, 3)})
    tensor.zero_()
    assert copied["a"][0].tolist() == [1, 1] and copied["b"][1] == 3
