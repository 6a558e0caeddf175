"""What is written down about an epoch that was undone, because its loss was NaN."""

import csv
import dataclasses

import pytest
import torch

from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.train.step import RunningLosses

pytestmark = pytest.mark.slow


def test_its_row_has_no_losses_and_every_column(tmp_path, monkeypatch, capsys):
    """The second of three epochs; nothing else about the run is unusual."""
    add, steps = RunningLosses.add, []

    def add_one_that_is_none(losses, terms, images):
        steps.append(1)
        bad = (
            terms
            if len(steps) != 4
            else dataclasses.replace(terms, parts={**terms.parts, "obj": terms.obj * torch.nan})
        )
        add(losses, bad, images)

    monkeypatch.setattr(RunningLosses, "add", add_one_that_is_none)
    assert main(["train", *flags(tmp_path)]) == 0
    assert len(steps) == 3 * 3
    with (tmp_path / "runs" / "exp" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    for row in rows:
        losses = [row[f"train/{name}_loss"] for name in ("box", "obj", "cls")]
        assert losses == ["", "", ""] if row["epoch"] == "1" else all(float(loss) >= 0 for loss in losses)
        assert None not in row.values() and "nan" not in row.values()
    header, *lines = [line for line in capsys.readouterr().out.splitlines() if "/3 " in line or "mAP50  " in line]
    assert len({len(line) for line in (header, *lines)}) == 1 and lines[1].split()[:4] == ["2/3", "-", "-", "-"]
