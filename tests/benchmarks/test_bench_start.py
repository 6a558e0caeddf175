"""When full speed is reached, and which starts stand in which row."""

from itertools import accumulate

import pytest

from benchmarks import bench_start
from benchmarks.bench_start import Start, Version, full_speed, measure, rows


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([1.0] * 100, 0.0),
        ([5.0] * 20 + [1.0] * 100, 5.0 * 13),  # of the next 16 steps more than half are fast
        ([1.0] * 40 + [30.0] + [1.0] * 59, 0.0),  # an epoch ends: one long step is none of the usual ones
        ([5.0] * 20 + [2.0] * 20 + [1.0] * 100, 5.0 * 20 + 2.0 * 13),
        ([3.0, 1.0], 0.0 + 3.0),
        ([], 0.0),
    ],
)
def test_full_speed(steps, expected):
    ends = list(accumulate(steps, initial=0.0))
    assert full_speed(ends) == pytest.approx(expected)


def test_the_first_start_has_a_row_of_its_own():
    warm = [Start(3, 4, 5, 6, 7), Start(5, 6, 7, 8, 9)]
    measured = {"this": [Start(9, 10, 11, 12, 13), *warm], "v1": [Start(1, 2, 3, 4, 5)]}
    assert rows(measured)[2:] == [
        "| this | new machine | 9.0 | 10.0 | 11.0 | 12.0 | 13.0 |",
        "| this | warm, median | 4.0 | 5.0 | 6.0 | 7.0 | 8.0 |",
        "| v1 | new machine | 1.0 | 2.0 | 3.0 | 4.0 | 5.0 |",
    ]


class Stand:
    """A training of ten seconds, by its own clock."""

    def __init__(self, folder, clock):
        self.folder, self.clock, self.started = folder, clock, []

    def forget_the_store(self):
        self.started.append("forgotten")

    def start(self, version, caches):
        self.clock.now += 10
        self.started.append((version.plans, caches.name))
        return Start(1, 2, 3, 4, 5)


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


def test_versions_run_in_turn_and_no_round_begins_too_late(tmp_path, monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr(bench_start, "time", clock)
    starter = Stand(tmp_path, clock)
    tried = {"this": Version(tmp_path, ""), "this, 3 plans": Version(tmp_path, "3")}
    found = measure(starter, tried, rounds=4, budget=55.0)
    first, second = ("", "caches of this"), ("3", "caches of this, 3 plans")
    assert starter.started == ["forgotten", first, "forgotten", second, second, first, first]
    assert {name: len(starts) for name, starts in found.items()} == {"this": 3, "this, 3 plans": 2}
    assert capsys.readouterr().out.count("no time is left") == 3
