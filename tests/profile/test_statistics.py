import pytest

from yolofast.profile.step_phases import BACKWARD, DATA_WAIT, EMA, FORWARD, GRAPH, REST
from yolofast.profile.step_statistics import covered, parallel_phase, phase_figures, spread


def test_means_spreads_and_shares_by_hand():
    steps = [{FORWARD: 2.0, DATA_WAIT: 1.0, EMA: 3.0}, {FORWARD: 4.0, DATA_WAIT: 2.0}]
    wait, forward, ema = phase_figures(steps, [{DATA_WAIT: 0.5}, {DATA_WAIT: 1.5}])
    assert [phase.name for phase in (wait, forward, ema)] == [DATA_WAIT, FORWARD, EMA]  # in the order of a step
    assert (forward.mean_ms, forward.std_ms, forward.median_ms) == (3.0, pytest.approx(2**0.5), 3.0)
    assert (ema.mean_ms, ema.share) == (1.5, pytest.approx(1.5 / 6))  # the second step moved no weights
    assert (wait.asleep_ms, forward.asleep_ms) == (1.0, 0.0)
    assert sum(phase.share for phase in (wait, forward, ema)) == pytest.approx(1)


def test_one_interrupted_step_is_no_wait_per_step():
    steps = [{FORWARD: 2.0, DATA_WAIT: 1.0}] * 3
    wait, forward = phase_figures(steps, [{FORWARD: 0.0, DATA_WAIT: 0.0}] * 2 + [{FORWARD: 2.0, DATA_WAIT: 3.0}])
    assert (wait.asleep_ms, forward.asleep_ms) == (1.0, 0.0)


def test_one_step_and_none():
    assert spread([5.0]).std == 0.0
    assert phase_figures([]) == ()
    assert phase_figures([{BACKWARD: 0.0}])[0].share == 0.0


def test_graphs_that_are_not_looked_into_tell_what_happened_around_them():
    whole, seen = {DATA_WAIT: 1.0, GRAPH: 9.0, REST: 0.5}, {DATA_WAIT: 41.0, FORWARD: 9.0, REST: 1.0}
    wait, forward, rest = phase_figures([seen], around=[whole, whole, whole])
    assert [phase.name for phase in (wait, forward, rest)] == [DATA_WAIT, FORWARD, REST]
    assert (wait.mean_ms, forward.mean_ms, rest.mean_ms) == (11.0, 9.0, 1.0)
    short = {DATA_WAIT: 1.0, FORWARD: 20.0}  # an epoch's last batch, which is not captured
    assert [phase.name for phase in phase_figures([whole, whole, short])] == [DATA_WAIT, FORWARD, GRAPH, REST]


def test_parallel_phases_are_measured_in_steps():
    assert parallel_phase("augment", [2.0, 4.0], 10.0, "elsewhere").share == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("spans", "busy"),
    [
        ([(0, 10)], 10),
        ([(0, 2), (1, 3), (8, 9)], 4),
        ([(1, 9), (2, 3), (4, 5)], 8),  # inside another
        ([(8, 9), (-1, 1)], 3),  # in any order
        ([], 0),
    ],
)
def test_overlapping_kernels_count_once(spans, busy):
    assert covered(spans) == pytest.approx(busy)
