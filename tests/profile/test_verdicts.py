"""The right bottleneck is named, with its evidence and a flag that helps; and a healthy run is called so."""

from dataclasses import replace

import pytest

from tests.profile.figures import HEALTHY, ON_CPU, ON_GPU, made_up
from yolofast.profile.bottlenecks import verdicts
from yolofast.profile.records import (
    ASSIGNMENT,
    BETWEEN,
    DATA,
    HOST,
    LOSSES,
    NOTHING,
    SHARED,
    TRANSFER,
    UPDATE,
    WAIT,
    PhaseFigures,
    WaitPlace,
    Waits,
)
from yolofast.profile.step_phases import (
    ASSIGN,
    AUGMENT,
    BACKWARD,
    DATA_WAIT,
    EMA,
    FORWARD,
    FUSED,
    LOSS,
    OPTIMIZER,
    REST,
    TO_DEVICE,
)

EAGER = replace(ON_GPU, gear="eager", captured=False, compiled=False)
WORKERS = replace(ON_GPU, loader="workers", cache="disk")
HERE = replace(ON_CPU, loader="main process", workers=0)
NO_GRAPH = replace(EAGER, graph_failed="AcceleratorError: operation not permitted when stream is capturing")


def waits(phase, count):
    return Waits((WaitPlace(phase, "somewhere/a.py:7", count),))


def test_a_shared_machine_is_no_limit_of_the_network():
    """Eight cores, of which a program has seven: the step would be six times as fast without it."""
    usage = {"main_cpu": 90.0, "worker_cpu": 50.0, "others_cpu": 660.0}
    (only,) = verdicts(made_up(ON_CPU, usage=usage))
    assert only.kind == SHARED and "other programs use 6.6 of its 8 cores, training has 1.4" in only.text
    assert "5.71× as fast" in only.gain
    idle = usage | {"others_cpu": 400.0}  # there is room for both
    few = usage | {"main_cpu": 700.0, "others_cpu": 60.0}
    others = [made_up(ON_CPU, usage=idle), made_up(ON_CPU, usage=few), made_up(ON_GPU, usage=usage)]
    assert [verdicts(one)[0].kind for one in others] == [NOTHING] * 3


@pytest.mark.parametrize("setup", [ON_GPU, ON_CPU])
def test_a_healthy_run_is_called_so(setup):
    (only,) = verdicts(made_up(setup))
    assert only.kind == NOTHING
    assert only.text.startswith("nothing is wrong")
    assert "nearest limit: arithmetic, 50% of it used" in only.text  # 4 of 800 TFLOP/s: 5 of 10 ms
    assert ("97%" in only.text) == setup.on_gpu
    assert only.gain == ""


@pytest.mark.parametrize(
    ("profile", "kind", "flag"),
    [
        (made_up(WORKERS, phases={DATA_WAIT: 10.0}), DATA, "--loader gpu"),
        (made_up(replace(ON_GPU, cache="ram"), phases={DATA_WAIT: 10.0}), DATA, "--cache gpu"),
        (made_up(HERE, phases={AUGMENT: 10.0}), DATA, "--workers 7"),
        (made_up(replace(HERE, cores=1), phases={AUGMENT: 10.0}), DATA, "--cache ram"),
        (made_up(ON_CPU, phases={DATA_WAIT: 10.0}, usage={"worker_cpu": 390.0}), DATA, "--workers 7"),
        (made_up(replace(ON_CPU, cache="off"), phases={DATA_WAIT: 10.0}), DATA, "--cache ram"),
        (made_up(ON_CPU, phases={DATA_WAIT: 10.0}, medians={DATA_WAIT: 0.1}), DATA, "--persistent-workers"),
        (made_up(replace(ON_CPU, workers=7), phases={DATA_WAIT: 9.0}, usage={"worker_cpu": 700.0}), DATA, "--fast"),
        (made_up(WORKERS, phases={TO_DEVICE: 4.0}), TRANSFER, "--loader gpu"),
        (made_up(EAGER, phases={ASSIGN: 60.0}, usage={"gpu_busy": 0.2}), ASSIGNMENT, "--gear graph"),
        (made_up(ON_GPU, phases={ASSIGN: 60.0}), ASSIGNMENT, "--assigner anchor"),
        (made_up(replace(ON_CPU, assigner="simota"), phases={ASSIGN: 60.0}), ASSIGNMENT, "--assigner tal"),
        (made_up(EAGER, phases={LOSS: 30.0}), LOSSES, "--gear graph"),
        (made_up(ON_CPU, phases={LOSS: 30.0}, asleep={LOSS: 29.0}), LOSSES, "--trace"),
        (made_up(ON_CPU, phases={REST: 20.0}, asleep={REST: 20.0}), WAIT, "--trace"),
        (made_up(ON_CPU, phases={REST: 20.0}), BETWEEN, "--trace"),
        (made_up(ON_CPU, phases={EMA: 20.0}, asleep={EMA: 20.0}), WAIT, "--trace"),
        (made_up(EAGER, usage={"gpu_busy": 0.4}), HOST, "--gear graph"),
        (made_up(ON_GPU, usage={"gpu_busy": 0.4}), HOST, "--batch-size 128"),
        (made_up(EAGER, usage={"gpu_busy": 0.4}, waits=waits(FORWARD, 2.0)), WAIT, ".item()"),
        # A value that is read every fifty steps: the GPU does not idle for that.
        (made_up(EAGER, usage={"gpu_busy": 0.4}, waits=waits(FORWARD, 0.02)), HOST, "--gear"),
        (made_up(NO_GRAPH, usage={"gpu_busy": 0.4}), HOST, "launches (a faster gear failed: Acc"),
        (made_up(ON_GPU, phases={OPTIMIZER: 3.0, EMA: 2.0}), UPDATE, "--batch-size 128"),
    ],
)  # fmt: skip
def test_the_bottleneck_is_named_with_a_flag(profile, kind, flag):
    first = verdicts(profile)[0]
    assert (first.kind, flag in first.change) == (kind, True), first
    assert "→" in first.gain


def test_the_evidence_of_an_assignment_that_keeps_the_gpu_waiting():
    profile = made_up(EAGER, phases={ASSIGN: 60.0}, usage={"gpu_busy": 0.14}, waits=waits(ASSIGN, 883.0))
    text = verdicts(profile)[0].text
    assert "label assignment takes 86% of the step" in text
    assert "the GPU waits for the host: it is busy 14% of the time" in text
    assert "883 times a step (somewhere/a.py:7)" in text


def test_the_gain_is_what_is_left_without_the_bottleneck():
    first = verdicts(made_up(WORKERS, phases={DATA_WAIT: 9.9}))[0]  # and 9.9 ms of everything else
    assert first.saved_ms == pytest.approx(9.9)
    assert first.gain == "at best 19.8 → 9.9 ms per step, 2.00× as fast"


def test_workers_cannot_deliver_faster_than_they_make_batches():
    """300 ms to make a batch, 60 ms for the rest of the step; on two cores one worker is all that can compute."""
    healthy = sum(HEALTHY.values()) - HEALTHY[DATA_WAIT] - HEALTHY[FORWARD]
    phases = {DATA_WAIT: 0.0, AUGMENT: 300.0, FORWARD: 60.0 - healthy}
    computing = verdicts(made_up(replace(HERE, cores=2), phases=phases))[0]
    assert computing.change.startswith("--workers 1 makes them in a process")
    assert computing.gain == "at best 360.0 → 300.0 ms per step, 1.20× as fast"
    waiting = verdicts(made_up(replace(HERE, cores=2), phases=phases, asleep={AUGMENT: 295.0}))[0]
    assert waiting.change.startswith("--workers 5 ")  # 60 ms per batch: more would not be felt
    assert waiting.gain == "at best 360.0 → 60.0 ms per step, 6.00× as fast"


def test_workers_that_wait_want_more_workers_not_more_cores():
    one = replace(ON_CPU, workers=1, cores=2)
    first = verdicts(made_up(one, phases={DATA_WAIT: 240.0, FORWARD: 53.6}, usage={"worker_cpu": 2.0}))[0]
    assert "the worker uses 2 % of a core" in first.text and "1 workers" not in first.text
    assert first.change.startswith("--workers 5: ") and "cores" not in first.change
    assert first.gain.startswith("at best 300.0 → 60.0 ms")
    many = replace(ON_CPU, workers=16)
    assert "find what" in verdicts(made_up(many, phases={DATA_WAIT: 240.0}, usage={"worker_cpu": 30.0}))[0].change


def test_of_two_bottlenecks_the_costlier_comes_first():
    both = made_up(ON_CPU, phases={DATA_WAIT: 8.0, LOSS: 20.0})
    assert [verdict.kind for verdict in verdicts(both)] == [LOSSES, DATA]
    other = made_up(ON_CPU, phases={DATA_WAIT: 28.0, LOSS: 20.0})
    assert [verdict.kind for verdict in verdicts(other)] == [DATA, LOSSES]


def test_a_gpu_that_idles_longer_than_it_waits_for_data_has_two_bottlenecks():
    """Measured on one: of 82.5 ms it waited 9.4 for workers, and was busy for 17 %."""
    phases = {DATA_WAIT: 9.4, FORWARD: 14.8, ASSIGN: 14.5, LOSS: 9.8, BACKWARD: 27.4}
    loader = replace(EAGER, loader="workers")
    host, data = verdicts(made_up(loader, phases=phases, usage={"gpu_busy": 0.17}))
    assert (host.kind, data.kind) == (HOST, DATA)
    idle = 0.83 * made_up(loader, phases=phases).step.mean - 9.4
    assert host.saved_ms == pytest.approx(idle)
    assert [one.kind for one in verdicts(made_up(loader, phases=phases, usage={"gpu_busy": 0.8}))] == [DATA]


def test_idleness_that_a_phase_explains_is_not_the_hosts():
    between = made_up(EAGER, phases={REST: 30.0}, usage={"gpu_busy": 0.2})
    assert [one.kind for one in verdicts(between)] == [BETWEEN], "a graph would not shorten it"
    waiting = made_up(ON_GPU, phases={DATA_WAIT: 0.9}, usage={"gpu_busy": 0.84})  # 8 % of the step
    assert verdicts(waiting)[0].kind == NOTHING, "without the data 7 % are idle"


def test_waits_in_a_slow_loss_do_not_explain_idleness_elsewhere():
    """The loss waits; as long a time goes into launching the rest, which a graph would shorten."""
    loss, host = verdicts(made_up(EAGER, phases={LOSS: 10.0}, usage={"gpu_busy": 0.06}, waits=waits(LOSS, 3.0)))
    assert (loss.kind, host.kind) == (LOSSES, HOST)
    assert "3 times a step" in loss.text and "times a step" not in host.text
    assert ".item()" in loss.change and "--gear graph" in host.change


@pytest.mark.parametrize(("phase", "kind"), [(LOSS, LOSSES), (ASSIGN, ASSIGNMENT), (FORWARD, WAIT)])
def test_a_wait_that_prevents_a_graph_costs_all_that_a_graph_saves(phase, kind):
    profile = made_up(NO_GRAPH, phases={phase: 9.0}, usage={"gpu_busy": 0.06}, waits=waits(phase, 3.0))
    (only,) = verdicts(profile)
    assert only.kind == kind and "3 times a step (somewhere/a.py:7)" in only.text
    assert "cannot be captured" in only.change and "--gear" not in only.change
    assert only.saved_ms == pytest.approx(0.94 * profile.step.mean - profile.phase_ms(DATA_WAIT, AUGMENT))


def test_a_gear_that_failed_is_not_advised():
    captured = replace(ON_GPU, compiled=False, compile_failed="BackendCompilerFailed: no compiler")
    assert "--gear" not in verdicts(made_up(captured))[0].change
    assert "--gear" not in verdicts(made_up(NO_GRAPH, phases={LOSS: 30.0}))[0].change
    not_compiled = replace(EAGER, compile_failed="InductorError: no C compiler")  # --gear compile: no graph was tried
    assert "--gear graph" in verdicts(made_up(not_compiled, usage={"gpu_busy": 0.26}))[0].change
    loss, host = verdicts(made_up(not_compiled, phases={LOSS: 10.0}, usage={"gpu_busy": 0.1}, waits=waits(LOSS, 1.0)))
    assert loss.saved_ms == 10.0 and "once a step" in loss.text and host.kind == HOST


@pytest.mark.parametrize(
    ("setup", "busy", "phases", "waiting", "kinds"),
    [
        (EAGER, 0.2, {REST: 30.0}, REST, {WAIT: 31.82}),
        (EAGER, 0.1, {REST: 15.0}, FORWARD, {BETWEEN: 15.0, WAIT: 7.31}),  # no wait in the forward pass takes them
        (EAGER, 0.3, {OPTIMIZER: 20.0}, OPTIMIZER, {WAIT: 20.69}),
        (WORKERS, 0.2, {TO_DEVICE: 4.0}, TO_DEVICE, {HOST: 7.1, TRANSFER: 4.0}),
        (replace(WORKERS, captured=False), 0.2, {DATA_WAIT: 9.0}, DATA_WAIT, {DATA: 9.0, HOST: 6.12}),
        (NO_GRAPH, 0.1, {LOSS: 30.0, ASSIGN: 30.0}, LOSS, {LOSSES: 32.18, ASSIGNMENT: 30.0}),
    ],
)  # fmt: skip
def test_no_time_is_reported_twice(setup, busy, phases, waiting, kinds):
    profile = made_up(setup, phases=phases, usage={"gpu_busy": busy}, waits=waits(waiting, 2.0))
    found = {one.kind: one.saved_ms for one in verdicts(profile)}
    assert found == pytest.approx(kinds, abs=0.005)
    assert sum(found.values()) <= profile.step.mean


def test_waits_in_two_phases_prevent_a_graph_together():
    both = Waits((WaitPlace(LOSS, "a.py:1", 1.0), WaitPlace(ASSIGN, "a.py:1", 1.0)))
    profile = made_up(NO_GRAPH, phases={LOSS: 30.0, ASSIGN: 30.0}, usage={"gpu_busy": 0.1}, waits=both)
    assert all(one.saved_ms == 30.0 for one in verdicts(profile))


def test_waits_matter_where_nobody_knows_how_busy_the_gpu_is():
    (only,) = verdicts(made_up(EAGER, usage={"gpu_busy": None}, waits=waits(FORWARD, 5.0)))
    assert only.kind == WAIT and "5 times a step (somewhere/a.py:7)" in only.text and only.gain == ""


def test_sleep_in_a_compiled_loss_is_reported_with_the_loss():
    part = {"mean_ms": 0.0, "std_ms": 0.0, "median_ms": 0.0}
    split = (PhaseFigures(name=ASSIGN, share=0.1, **part), PhaseFigures(name=LOSS, share=0.9, **part))
    phases = {ASSIGN: 0.0, LOSS: 0.0, FUSED: 20.0}
    found = verdicts(made_up(ON_CPU, phases=phases, asleep={FUSED: 18.0}, split=split, split_of=FUSED))
    assert [one.kind for one in found] == [LOSSES]


def test_a_graph_whose_host_rests_has_short_kernels():
    resting, busy = (
        verdicts(made_up(ON_GPU, usage={"gpu_busy": 0.7, "main_cpu": used}))[0].text for used in (30.0, 99.0)
    )
    assert resting.startswith("short kernels: the GPU is busy 70% of the time") and "30 % of a core" in resting
    assert busy.startswith("the GPU waits for the host")


def test_a_compiled_region_is_judged_by_its_twin():
    part = {"std_ms": 0.0, "median_ms": 0.0}
    split = (
        PhaseFigures(name=ASSIGN, mean_ms=35.0, share=0.7, **part),
        PhaseFigures(name=LOSS, mean_ms=15.0, share=0.3, **part),
    )
    phases = {ASSIGN: 0.0, LOSS: 0.0, FUSED: 20.0}
    first = verdicts(made_up(ON_GPU, phases=phases, split=split, split_of=FUSED))[0]
    assert first.kind == ASSIGNMENT
    assert first.saved_ms == pytest.approx(14.0)


def test_what_runs_parallel_to_the_step_costs_it_nothing():
    profile = made_up(ON_GPU)
    beside = PhaseFigures(name=AUGMENT, mean_ms=9.0, std_ms=0.0, median_ms=9.0, share=0.9, beside="a side stream")
    assert verdicts(replace(profile, phases=(*profile.phases, beside)))[0].kind == NOTHING
