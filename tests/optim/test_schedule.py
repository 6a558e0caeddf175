import dataclasses
import json
import math
from pathlib import Path

import pytest

from yolofast.optim.schedule import YoloV7Schedule, YoloXSchedule, auto_lr, scaled_decay

GOLDEN = Path(__file__).parents[1] / "golden" / "yolox_schedule.json"
TINY = {
    "lr": 0.01, "final_share": 0.01, "momentum": 0.937, "warmup_epochs": 3.0, "warmup_momentum": 0.8,
    "warmup_bias_lr": 0.1,
}  # fmt: skip


def schedule(**changes):
    return YoloV7Schedule(**({"epochs": 100, "batches": 500, "batch_size": 64} | TINY | changes))


def test_warm_up_is_linear_and_lasts_three_epochs():
    s = schedule()
    assert s.warmup == 1500
    start = s.at(0, 0)
    assert (start.lr, start.momentum, start.accumulate) == ((0.0, 0.0, 0.1), 0.8, 1)
    half = s.at(1, 250)
    target = 0.01 * s.factor(1)
    assert half.lr == pytest.approx((target / 2, target / 2, (0.1 + target) / 2))
    assert half.momentum == pytest.approx((0.8 + 0.937) / 2)
    assert s.at(3, 1).lr == (0.01 * s.factor(3),) * 3
    assert s.at(3, 1).momentum == 0.937


def test_warm_up_of_a_short_run_is_not_cut():
    assert schedule(batches=10).warmup == 1000
    assert schedule(warmup_epochs=0).warmup == 0
    assert schedule(warmup_epochs=0).at(0, 0).lr == (0.01,) * 3


@pytest.mark.parametrize(("batch", "final"), [(64, 1), (32, 2), (16, 4), (8, 8), (384, 1), (40, 2)])
def test_accumulation_reaches_the_nominal_batch(batch, final):
    s = schedule(batch_size=batch)
    assert s.at(0, 0).accumulate == 1
    assert s.at(50, 0).accumulate == final
    counts = [s.at(0, i).accumulate for i in range(500)]
    assert counts == sorted(counts)


@pytest.mark.parametrize(("batch_size", "summed"), [(64, 1), (32, 2)])
def test_larger_updates_late_are_means_that_leave_the_rates(batch_size, summed):
    settings = {"epochs": 4, "batches": 10, "batch_size": batch_size, "warmup_epochs": 0.0}
    plain, late = schedule(**settings), schedule(**settings, update_batches=(1, 1, 3, 3))
    assert late.at(1, 9) == plain.at(1, 9) and late.at(2, 0).lr == plain.at(2, 0).lr
    found = late.at(2, 0)
    assert (found.accumulate, found.averaged) == (3 * summed, 3)
    moves = [found.updates(20 + n, n, 10) for n in range(10)]
    ends = {1: [2, 5, 8, 9], 2: [5, 9]}[summed]
    assert [n for n, moved in enumerate(moves) if moved] == ends, "counted within the epoch; its end is one, too"
    alone = plain.at(1, 0)
    assert [alone.updates(10 + n, n, 10) for n in range(4)] == [True, summed == 1, True, summed == 1]
    yolox = YoloXSchedule(epochs=4, batches=10, lr=0.01, momentum=0.9, plain_epochs=0, update_batches=(1, 1, 3, 3))
    assert (yolox.at(1, 0).accumulate, yolox.at(2, 0).accumulate, yolox.at(2, 0).averaged) == (1, 3, 3)


def test_shapes():
    cosine, linear = schedule(), schedule(shape="linear")
    assert cosine.factor(0) == 1 and cosine.factor(100) == pytest.approx(0.01)
    assert cosine.factor(50) == pytest.approx(0.505)
    assert cosine.factor(25) == pytest.approx((1 - math.cos(math.pi / 4)) / 2 * -0.99 + 1)
    assert linear.factor(0) == 1 and linear.factor(99) == pytest.approx(0.01)
    flat = schedule(shape="flat_cosine")
    assert flat.factor(50) == 1 and flat.factor(75) == pytest.approx(0.505) and flat.factor(100) == pytest.approx(0.01)


def test_published_yolox_rates():
    for case in json.loads(GOLDEN.read_text()).values():
        s = YoloXSchedule(
            epochs=case["epochs"], batches=case["iters"], lr=case["lr"], momentum=0.9, min_share=case["minr"],
            warmup_epochs=case["warm"], plain_epochs=case["noaug"],
        )  # fmt: skip
        for iteration, rate in case["points"]:
            assert s.rate(iteration) == pytest.approx(rate, rel=1e-12)
        assert s.at(0, 0).lr[0] == pytest.approx(case["points"][0][1], rel=1e-12)


def test_decay_and_learning_rate_of_large_batches():
    assert scaled_decay(0.0005, 64) == 0.0005
    assert scaled_decay(0.0005, 384) == pytest.approx(0.003)
    assert scaled_decay(0.0005, 16) == 0.0005
    assert auto_lr(0.01, 3, 64) == (0.01, 3)
    assert [round(auto_lr(0.01, 3, b)[0], 4) for b in (128, 256, 384)] == [0.0141, 0.02, 0.0245]
    assert auto_lr(0.01, 3, 128)[1] == 5 and auto_lr(0.01, 8, 256)[1] == 8 and auto_lr(0.01, 3, 96)[1] == 3


def test_one_cycle_goes_up_and_down_in_lines_and_never_stands_still():
    for family, first in ((one_cycle_of_yolov7(), 0.0), (one_cycle_of_yolox(), 0.25)):
        rates = [family.at(n // 4, n % 4).lr[1] for n in range(12)]
        up, down = rates[:4], rates[4:]
        assert up == pytest.approx([first + n / 4 for n in range(4)])
        assert down == pytest.approx([1 - 0.8 * n / 8 for n in range(8)])
        assert rates[-1] > 0.2


def one_cycle_of_yolov7():
    return YoloV7Schedule(
        epochs=3, batches=4, batch_size=64, lr=1.0, final_share=0.2, momentum=0.9, warmup_epochs=3,
        warmup_momentum=0.9, warmup_bias_lr=0.1, shape="one_cycle", warmup_iterations=4,
    )  # fmt: skip


def one_cycle_of_yolox():
    return YoloXSchedule(
        epochs=3, batches=4, lr=1.0, momentum=0.9, min_share=0.2, warmup_epochs=1, plain_epochs=1,
        warmup_iterations=4, one_cycle=True,
    )  # fmt: skip


def test_a_warm_up_in_iterations_takes_the_place_of_epochs():
    published = YoloXSchedule(epochs=9, batches=10, lr=1.0, momentum=0.9, warmup_epochs=5, plain_epochs=1)
    shorter = dataclasses.replace(published, warmup_iterations=7)
    assert (published.warmup, shorter.warmup) == (50, 7)
    assert shorter.rate(7) == pytest.approx(1.0) and published.rate(7) == pytest.approx((7 / 50) ** 2)
