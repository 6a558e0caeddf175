"""Trials for Ray Tune: with a stand-in that calls them as Tune does, and with Ray itself where it is installed."""

import contextlib
import importlib.util
import pickle
import re
import shutil
import sys
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

import yolofast.sweep.tune as module
from tests.docs.pages import ROOT
from tests.sweep.test_queue import one_core, place  # noqa: F401 - fixtures
from tests.train.small_run import NETWORK, flags, state_of
from tests.train.test_resume import assert_same_state
from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.sweep.tune import trainable

pytestmark = pytest.mark.slow
SMALL = {"img": 64, "batch": 8, "workers": 0, "cache": "off", "plots": False}


class StoppedError(Exception):
    """As Tune ends a trial: where it reports."""


class Tune(ModuleType):
    """One trial at a time, whose checkpoints are copied as Tune copies them."""

    def __init__(self, folder):
        super().__init__("ray.tune")
        self.folder, self.reports, self.kept, self.stop_after, self.trial = folder, [], None, None, "yolofast_0"
        self.Checkpoint = SimpleNamespace(from_directory=Path)

    def get_context(self):
        return SimpleNamespace(get_trial_name=lambda: self.trial)

    def get_checkpoint(self):
        return self.kept and SimpleNamespace(as_directory=lambda: contextlib.nullcontext(str(self.kept)))

    def report(self, figures, *, checkpoint):
        self.kept = self.folder / f"checkpoint_{len(self.reports)}"
        shutil.copytree(checkpoint, self.kept)
        self.reports.append(figures)
        if len(self.reports) == self.stop_after:
            raise StoppedError


@pytest.fixture
def tune(place, monkeypatch):  # noqa: F811
    found = Tune(place / "kept")
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    monkeypatch.setitem(sys.modules, "ray.tune", found)

    def run(words, cwd, **_):
        with contextlib.chdir(cwd):
            return CompletedProcess(words, main(words[3:]))

    monkeypatch.setattr(module, "subprocess", SimpleNamespace(DEVNULL=-3, STDOUT=-2, run=run))
    return found


def small(epochs=2, **more):
    return trainable(data="shapes/data.yaml", cfg=NETWORK, epochs=epochs, device="cpu", **SMALL, **more)


def test_a_trial_that_loses_its_machine_ends_in_the_same_bits(tune, place, monkeypatch):  # noqa: F811
    """It is stopped after its first report and its folder is gone; another process has the checkpoint alone. Tune has
    trials work in folders of its own."""
    trial, tune.stop_after = small(), 1
    (place / "of tune").mkdir()
    monkeypatch.chdir(place / "of tune")
    with pytest.raises(StoppedError):
        trial({"lr0": 0.002})
    shutil.rmtree(place / "runs" / "tune" / "yolofast_0")
    trial({"lr0": 0.002})
    assert [report["epoch"] for report in tune.reports] == [1, 2]
    assert {"map", "map50", "fitness", "train/box_loss"} <= tune.reports[0].keys()
    assert main(["train", *flags(place, epochs=2, name="plain"), "lr0=0.002"]) == 0
    ours = torch.load(place / "runs" / "tune" / "yolofast_0" / "weights" / "last.pt")
    assert_same_state(ours, state_of(place, "plain"))


def test_a_copy_continues_from_another_trial_with_other_values(tune, place):  # noqa: F811
    """As PBT of Tune: the checkpoint of one trial, the configuration of another one."""
    trial, tune.stop_after = small(), 1
    with pytest.raises(StoppedError):
        trial({"lr0": 0.002})
    tune.trial = "yolofast_1"
    trial({"lr0": np.float64(0.00412345678901234)})
    run = module.RunFolder(place / "runs" / "tune" / "yolofast_1")
    assert run.hyp["lr0"] == 0.00412345678901234 and len(run.results) == 2
    first = module.RunFolder(place / "runs" / "tune" / "yolofast_0").results
    assert run.results.text["train/box_loss"][0] == first.text["train/box_loss"][0], "its parent's"
    with pytest.raises(UserError, match="cannot continue with other settings than its parent's: batch_size is 8"):
        trial({"lr0": 0.004, "batch_size": 4})


def test_it_travels_to_other_processes(tune, place, monkeypatch):  # noqa: F811
    """Ray sends functions by value; the data lie where the program was started, and Tune changes the folder."""
    cloudpickle = pytest.importorskip("cloudpickle")
    sent = cloudpickle.dumps(small(epochs=1))
    (place / "elsewhere").mkdir()
    monkeypatch.setattr(module.subprocess, "run", lambda words, cwd, **_: CompletedProcess(words, 2 + (cwd == place)))
    monkeypatch.chdir(place / "elsewhere")
    with pytest.raises(UserError, match=f"{place}/runs/tune/yolofast_0.txt: exit code 3"):
        pickle.loads(sent)({"lr0": 0.002})


def test_what_tune_is_told_when_a_trial_fails(tune):
    trial = small()
    with pytest.raises(UserError, match=r"exit code 2"):
        trial({"lr0": 0.002, "weights": "gone.pt"})
    assert not tune.reports
    with pytest.raises(UserError, match="every is 0"):
        small(every=0)
    with pytest.raises(UserError, match="did you mean 'shapes'"):
        trainable(data="shpaes")


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra yolofast[sweep] is not installed")
def test_the_example_of_the_page_runs_on_ray(place, monkeypatch):  # noqa: F811
    """As printed, at a small size."""
    page = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "trainable(" in block)
    for large, little in (
        ('data="data.yaml", cfg="yolov7-tiny", epochs=30',
         f'data="shapes/data.yaml", cfg={str(NETWORK)!r}, epochs=4, device="cpu", img=64, batch=8, workers=0'),
        ('{"gpu": 0.5}', '{"cpu": 1}'), ("num_samples=20", "num_samples=2"), ("max_t=30", "max_t=4"),
    ):  # fmt: skip
        assert large in code
        code = code.replace(large, little)
    import ray

    ray.init(num_cpus=2, include_dashboard=False)
    given = {}
    try:
        exec(compile(code, "sweep.md", "exec"), given)
    finally:
        ray.shutdown()
    assert given["found"].num_errors == 0 and len(given["found"]) == 2
    assert (Path(given["best"].checkpoint.path) / "weights" / "last.pt").is_file()
