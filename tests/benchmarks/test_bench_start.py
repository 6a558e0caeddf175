"""When full speed is reached, and which starts stand in which row."""

from itertools import accumulate

import pytest

from benchmarks.bench_start import Start, full_speed, rows


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
    measured = {"this": [Start(9, 10, 11, 12), Start(3, 4, 5, 6), Start(5, 6, 7, 8)], "v1": [Start(1, 2, 3, 4)]}
    assert rows(measured, "cold")[2:] == [
        "| this | cold | 9.0 | 10.0 | 11.0 | 12.0 |",
        "| this | again, median | 4.0 | 5.0 | 6.0 | 7.0 |",
        "| v1 | cold | 1.0 | 2.0 | 3.0 | 4.0 |",
    ]
