"""Whatever stands in a table, there is an answer: no crash, no warning of NumPy's, JSON without nan."""

import json
import warnings

import numpy as np
import pytest

from yolofast.report.diagnose.diagnosis import as_json, diagnose
from yolofast.report.diagnose.diagnosis_picture import diagnosis_picture
from yolofast.report.logs.read_run import read_history


def odd_losses(rng, count):
    some = [np.zeros(count), np.ones(count), rng.standard_normal(count), np.full(count, np.nan)]
    some += [np.where(rng.random(count) < 0.2, np.nan, 1 + rng.random(count)), 10 ** rng.uniform(-300, 300, count)]
    return some[rng.integers(len(some))]


def odd_table(rng):
    count = int(rng.choice([1, 2, 3, 5, 8, 20, 60, 200]))
    possible = {
        "lr": [np.zeros(count), np.full(count, 0.01), rng.random(count), np.linspace(0.01, 0, count)],
        "val_loss": [rng.random(count) + 1, np.full(count, np.nan), odd_losses(rng, count)],
        "mAP": [rng.random(count), np.zeros(count), np.full(count, np.nan)],
        "epoch": [np.arange(count) // 3, np.arange(count)],
        "batch": [np.arange(count)],
        "mosaic": [rng.random(count), np.ones(count)],
        "boxes": [rng.poisson(20, count)],
        "size": [rng.choice([64, 96, 128], count), rng.choice([0.5, 0.25], count), rng.random(count)],
    }
    columns = {"loss": odd_losses(rng, count)}
    columns |= {name: some[rng.integers(len(some))] for name, some in possible.items() if rng.random() < 0.5}
    rows = "".join(",".join(f"{values[i]:.6g}" for values in columns.values()) + "\n" for i in range(count))
    return ",".join(columns) + "\n" + rows


@pytest.mark.slow
def test_any_table_gets_an_answer(tmp_path):
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(80):
            (tmp_path / "odd.csv").write_text(odd_table(rng))
            found = diagnose(read_history(tmp_path / "odd.csv"))
            json.dumps(as_json(found), allow_nan=False)
            if number % 40 == 0:
                assert diagnosis_picture(found)


@pytest.mark.slow
def test_values_next_to_nothing_are_nothing(tmp_path):
    """Dividing by them would overflow."""
    rows = [f"{i},{5 - i / 10},{5 - i / 20},0.01" for i in range(12)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for tiny in ("2,1e-320,4.9,0.01", "2,4.8,1e-320,0.01", "2,4.8,4.9,1e-320"):
            text = "\n".join(["epoch,loss,val_loss,lr", *rows[:2], tiny, *rows[3:]]) + "\n"
            (tmp_path / "odd.csv").write_text(text)
            assert diagnosis_picture(diagnose(read_history(tmp_path / "odd.csv")))
