"""`--profile-every`: what it writes, that it changes nothing, and what it costs."""

import csv
import json
import shutil
import time

import pytest
import torch

from tests.train.small_run import flags, state_of
from tests.train.small_step import small_step
from tests.train.two_ranks import small_cfg_file
from yolofast.cli import main
from yolofast.profile.step_phases import ASSIGN, AUGMENT, BACKWARD, DATA_WAIT, FORWARD, LOSS, REST, TO_DEVICE
from yolofast.train.batch_record import PHASE_COLUMNS
from yolofast.train.timing import ChosenSteps, HostClock, NoSampler, PhaseSampler

_FAST_STEP = 10e-3
"""Seconds: yolov7-tiny at 320 with a batch of 64 on an H200, the fastest step there is a figure of."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two epochs of three batches, with every second step timed and without; and the timed one resumed for a third."""
    folder = tmp_path_factory.mktemp("runs")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    for name, more in (("timed", ["--profile-every", "2"]), ("plain", [])):
        assert main(["train", *flags(folder, epochs=2, name=name, cfg=small_cfg_file(folder)), "--notest", *more]) == 0
    shutil.copytree(folder / "runs" / "timed", folder / "runs" / "resumed")
    assert main(["train", "--resume", str(folder / "runs/resumed/weights/last.pt"), "--epochs", "3"]) == 0
    torch.set_num_threads(before)
    return folder / "runs"


def rows_of(folder):
    with (folder / "resumed" / "profile.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_weights_are_the_same_bits(folder):
    timed, plain = (state_of(folder.parent, name) for name in ("timed", "plain"))
    for part in ("model", "ema"):
        assert all(torch.equal(timed[part][name], value) for name, value in plain[part].items())
    assert not (folder / "plain" / "profile.csv").exists()


@pytest.mark.slow
def test_a_row_per_timed_step_and_all_of_its_time(folder):
    rows = rows_of(folder)
    assert tuple(rows[0]) == PHASE_COLUMNS
    # Three batches an epoch, one step in two on average; the first of a process is never timed.
    chosen, begins = ChosenSteps(2), (0, 6)
    expected = [(str(n // 3), str(n % 3)) for n in range(9) if chosen.has(n) and n not in begins]
    assert len(expected) >= 3 and [(row["epoch"], row["batch"]) for row in rows] == expected
    for row in rows:
        phases = {name: float(row[name]) for name in (FORWARD, ASSIGN, LOSS, BACKWARD, DATA_WAIT, AUGMENT, TO_DEVICE)}
        total = sum(float(row[name]) for name in PHASE_COLUMNS[4 : PHASE_COLUMNS.index(REST) + 1] if row[name])
        assert min(phases.values()) >= 0 and phases[FORWARD] > 0
        assert total == pytest.approx(float(row["step"]), rel=1e-3)


@pytest.mark.slow
def test_the_summary_is_what_the_comparison_of_runs_reads(folder):
    content = json.loads((folder / "resumed" / "profile.json").read_text())
    rows = rows_of(folder)
    assert content["gear"] == "eager" and content["gpu_busy"] is None
    assert content["timed_steps"] == len(rows) and content["every"] == 2
    forward = next(phase for phase in content["phases"] if phase["name"] == FORWARD)
    assert forward["mean_ms"] == pytest.approx(sum(float(row[FORWARD]) for row in rows) / len(rows), rel=1e-4)
    assert sum(phase["share"] for phase in content["phases"]) == pytest.approx(1)
    assert content["images_per_second"] == pytest.approx(8 / content["step_ms"]["mean"] * 1e3)


def a_step_of(sampler, step, iteration):
    """The calls that a step of training makes, without the step."""
    sampler.begin(iteration, DATA_WAIT)
    for phase in (REST, TO_DEVICE, AUGMENT, REST):
        sampler.mark(phase)
    if step.probe is not None:
        for phase in (FORWARD, LOSS, ASSIGN, LOSS, BACKWARD, REST, "optimizer", "EMA", REST):
            step.probe.mark(phase)
    sampler.end()


def seconds_per_step(sampler, step, every):
    """Of processor time, the least of several over whole turns of `every` steps: what disturbs only ever adds."""
    best = float("inf")
    for turn in range(20):
        begun = time.thread_time()
        for iteration in range(turn * every, (turn + 1) * every):
            a_step_of(sampler, step, iteration)
        best = min(best, (time.thread_time() - begun) / every)
    return best


@pytest.mark.parametrize("every", [10, 50])
def test_timing_costs_less_than_a_hundredth_of_a_fast_step(every):
    step = small_step()
    sampler = PhaseSampler(step, HostClock(), every=every, in_graphs=False)
    assert seconds_per_step(sampler, step, every) < 0.01 * _FAST_STEP
    assert len(sampler.take()) == pytest.approx(20, abs=2)
    assert seconds_per_step(NoSampler(), step, every) < 0.001 * _FAST_STEP
