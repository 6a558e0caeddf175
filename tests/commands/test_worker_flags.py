"""`--persistent-workers`, `--worker-tensor`, `--fast-dataloader` reach the loader of a run, or it says why not."""

import pytest

from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.loader.carriers import Ring
from yolofast.loader.device_loader import DeviceLoader
from yolofast.train import data, session

FLAGS = ["--persistent-workers", "--worker-tensor", "--fast-dataloader"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("worker flags")


@pytest.fixture
def seen(folder, monkeypatch):
    """Runs the command up to its loader: what the workers of two epochs are, and how they send batches."""

    def of(*more, **changes):
        found = {}

        def two_epochs(trainer):
            batches = found["loader"] = trainer.run.batches
            if isinstance(batches, DeviceLoader):
                return
            epochs = []
            for epoch in range(2):
                made = batches.epoch(epoch)
                next(made)
                epochs.append(batches.processes())
                list(made)
            found["same_workers"] = epochs[0] == epochs[1]
            found["ring"] = isinstance(batches._carrier, Ring)

        monkeypatch.setenv("YOLOFAST_CACHE", str(folder / "cache"))
        monkeypatch.setattr(data, "_SHORT_EPOCH", 0)  # of so few batches workers are kept in any case
        monkeypatch.setattr(session.Trainer, "fit", two_epochs)
        monkeypatch.setattr(session, "finish_run", lambda *of_a_run: None)
        assert main(["train", *flags(folder, images=16, **changes), *more]) == 0
        return found

    return of


@pytest.mark.parametrize(
    ("flag", "same_workers", "ring"),
    [((), False, False), (FLAGS[:1], True, False), (FLAGS[1:2], False, True), (FLAGS[2:], True, True)],
    ids=lambda value: " ".join(value) if isinstance(value, tuple | list) else str(value),
)
def test_each_flag_reaches_the_workers(seen, capsys, flag, same_workers, ring):
    found = seen(*flag, workers=1)
    assert (found["same_workers"], found["ring"]) == (same_workers, ring)
    assert "no effect" not in capsys.readouterr().out


@pytest.mark.parametrize("flag", FLAGS)
def test_a_run_whose_gpu_makes_the_batches_says_that_it_has_no_effect(seen, capsys, monkeypatch, flag):
    """The loader of GPUs works on the CPU too."""
    monkeypatch.setattr(data, "gpu_makes_batches", lambda config, device: config.loader != "cpu")
    assert isinstance(seen(flag, workers=1)["loader"], DeviceLoader)
    said = f"loader: {flag} has no effect, the GPU makes the batches (--loader cpu: worker processes do)"
    assert capsys.readouterr().out.splitlines().count(said) == 1


def test_nothing_is_said_without_the_flags(seen, capsys, monkeypatch):
    monkeypatch.setattr(data, "gpu_makes_batches", lambda config, device: True)
    seen(workers=1)
    assert "no effect" not in capsys.readouterr().out


def test_a_run_without_workers_says_so(seen, capsys):
    seen("--persistent-workers", "--worker-tensor", workers=0)
    words = "--persistent-workers and --worker-tensor have no effect, the training process makes the batches"
    assert f"loader: {words} (--workers 1 or more: worker processes do)" in capsys.readouterr().out
