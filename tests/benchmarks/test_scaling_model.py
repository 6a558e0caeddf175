"""The model of scaling: what it counts, what it must do at its limits, and that the page has what the script prints."""

from dataclasses import replace

import pytest

from benchmarks.scaling_model import CLUSTERS, GPUS, NETWORK, NVLINK, PCIE, Work, measured_ms, tables
from tests.docs.pages import ROOT

WORK = Work(step=0.01, images=64, parameters=6_000_000, norms=50, channels=7_000)


def test_the_page_has_what_the_script_prints():
    assert "\n".join(tables()) in (ROOT / "docs" / "distributed.md").read_text("utf-8"), (
        "python -m benchmarks.scaling_model"
    )


def test_the_step_is_the_measured_one():
    assert measured_ms("yolov7-tiny", "320", "ota") == 8.29 and measured_ms("yolov7", "640", "ota") == 93.68
    with pytest.raises(StopIteration):
        measured_ms("yolov7-tiny", "1280", "ota")


def test_an_all_reduce_by_hand():
    """Two pass the half of 100 MB twice, at 80 % of 12.5 GB/s: 10 ms; and two latencies."""
    assert NETWORK.all_reduce(100e6, 2) == pytest.approx(10e-3 + 2 * 15e-6)
    assert NETWORK.all_reduce(100e6, 1) == 0
    assert NVLINK.all_reduce(100e6, 8) < PCIE.all_reduce(100e6, 8) < NETWORK.all_reduce(100e6, 8)


@pytest.mark.parametrize("sync_bn", [False, True])
@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda cluster: cluster.name)
def test_more_gpus_are_never_more_efficient_and_always_slower_than_perfect(cluster, sync_bn):
    steps = [WORK.on(cluster, gpus, sync_bn=sync_bn) for gpus in GPUS]
    assert WORK.step < steps[0] and steps == sorted(steps)
    assert all(WORK.on(cluster, gpus, sync_bn=True) > WORK.on(cluster, gpus, sync_bn=False) for gpus in GPUS)


def test_what_a_long_backward_pass_hides_costs_nothing_but_the_last_bucket():
    long, longer = (replace(WORK, step=step, parameters=60_000_000) for step in (1.0, 2.0))
    costs = [work.on(CLUSTERS[0], 8, sync_bn=False) - work.step for work in (long, longer)]
    assert costs[0] == pytest.approx(costs[1]) and costs[0] < 1e-3
