"""What the CPU cannot show of training options: Adam in a graph, sizes in graphs, batches that are measured."""

import dataclasses
import math

import pytest
import torch

from benchmarks.trials import DataSet, Trial
from benchmarks.trials import run as run_trial
from tests.gpu.test_gears import ADDED, ADDED_UP, ALONE, SIZE, assert_close, batch, make_step, run
from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.config.train import TrainConfig
from yolofast.dataset.shapes.made_once import make_shapes
from yolofast.errors import UserError
from yolofast.optim.optimizer import build_optimizer, parameter_groups
from yolofast.train import run_pictures
from yolofast.train.families.multi_scale import MultiScale
from yolofast.train.fitting_batch import with_fitting_batch, with_smaller_batch
from yolofast.train.gears.gears import EagerGear, GraphGear

MEAN = [kind._replace(averaged=2) for kind in (ADDED, ADDED_UP)]


@pytest.mark.parametrize("name", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("kinds", [[ALONE] * 6, [ADDED, ADDED_UP] * 3, [*[ALONE] * 2, *MEAN * 2]])
def test_a_graph_follows_learning_rate_and_beta(name, kinds):
    steps = make_step(), make_step()
    for step in steps:
        step.optimizer = build_optimizer(name, parameter_groups(step.model, 0.0005))
    eager, graph = steps
    # Adam divides by the size of gradients: where they are nearly 0, rounding decides a whole step.
    assert_close(run(graph, GraphGear(graph), kinds), run(eager, EagerGear(eager), kinds), 1e-2)


def test_trials_of_one_process_leave_its_memory_to_the_next(tmp_path):
    """As the study of recipes trains them: one after the other, each with graphs and pixels of its own."""
    data = DataSet.of(make_shapes(tmp_path / "shapes", n=100))
    held = []
    for seed in range(3):
        settings = {"cfg": "yolov7-tiny", "weights": "", "img_size": 64, "batch_size": 16, "epochs": 2, "notest": True}
        course, _, error = run_trial(Trial("tiny", seed, settings, data), tmp_path / "runs" / str(seed), math.inf)
        assert course is not None and course.epochs == [1, 2] and not error
        assert math.isnan(course.maps[0]) and course.maps[1] >= 0
        held.append(torch.cuda.memory_allocated())
    assert held[2] <= held[1] + 2**24


def test_every_size_has_its_graph():
    step = make_step("bf16")
    gear, scale = GraphGear(step), MultiScale(size=SIZE, stride=32, seed=0, as_input=step.model.inputs.as_input)
    seen = [scale(batch(number), 0, number) for number in range(12)] * 2
    for one in seen:
        step.optimizer.set((1e-3, 1e-3, 1e-3), 0.9)
        gear.run(one, ALONE)
    assert gear.captured == len({one.images.shape for one in seen}) > 3
    assert step.losses.bad_steps == 0 and all(p.isfinite().all() for p in step.model.parameters())


@pytest.mark.parametrize("gear", ["eager", "graph"])
def test_a_batch_is_found_by_measuring(tmp_path, gear):
    """Few images, so that the data set is the limit and not 100 GiB of memory."""
    data = str(make_shapes(tmp_path / "shapes", n=100))
    config = TrainConfig(data=data, img_size=(64,), batch_size=-1, gear=gear, cache="disk")
    said = []
    found = with_fitting_batch(config, said.append).batch_size
    assert found % 8 == 0 and found >= 64 and str(found) in said[0]
    taken = dataclasses.replace(config, batch_size=found)
    with pytest.raises(UserError, match=r"memory ran out with a batch of \d+"):
        with_smaller_batch(taken, pytest.fail)
    smaller = with_smaller_batch(dataclasses.replace(taken, reduce_batch=True), said.append)
    assert 0 < smaller.batch_size < found
    assert torch.cuda.memory_allocated() < 2**28, "what was measured is gone"


def test_charts_of_a_run_are_drawn_by_other_processes(tmp_path, monkeypatch):
    """All of them are there when it ends, and nobody is left at work."""
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    started = []
    helper = run_pictures.Helper
    monkeypatch.setattr(run_pictures, "Helper", lambda modules: started.append(helper(modules)) or started[-1])
    assert main(["train", *flags(tmp_path, plots=True, device="0", cache="gpu"), "--notest"]) == 0
    names = {path.name for path in (tmp_path / "runs" / "exp").iterdir()}
    charts = {"PR_curve.png", "F1_curve.png", "P_curve.png", "R_curve.png", "confusion_matrix.png"}
    assert {"labels.jpg", "results.png", "predictions.jpg", "report.html", "train_batch0.jpg"} | charts <= names
    assert len(started) == 3 and all(one._process.poll() is not None for one in started)
