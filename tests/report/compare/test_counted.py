"""Which runs count, and between which kinds accuracies decide."""

import json
import shutil

import numpy as np
import pytest

from tests.report.compare.folders import ours, rising
from yolofast.report.compare.comparability import accuracies
from yolofast.report.compare.comparison import CompareRequest, compare
from yolofast.report.compare.conclusion import CAUTION, SAME
from yolofast.report.compare.kinds import schedule_is_over
from yolofast.report.compare.read_folder import read_runs


def compared(*folders, **requested):
    return compare(read_runs([str(folder) for folder in folders]), CompareRequest(**requested))


def row(found, name="mAP50-95"):
    return next(row for row in found.summary if row.name == name)


def copy(folder, name):
    return shutil.copytree(folder, folder.parent / name)


def pair(folder, name, tops, **args):
    return [ours(folder / f"{name}_{i}", rising(12, top), seed=i, **args) for i, top in enumerate(tops)]


def reported(found):
    return "\n".join(remark.text for remark in found.remarks)


def test_copies_do_not_make_a_difference_sure(tmp_path):
    """Counted twice, two runs of each differ with p < 0.05; they do not."""
    ones, others = pair(tmp_path, "a", [0.400, 0.405]), pair(tmp_path, "b", [0.408, 0.413], mixup=0.1)
    found = compared(*ones, copy(ones[0], "a_2"), copy(ones[1], "a_3"), *others, copy(others[0], "b_2"))
    assert [len(group) for group in found.groups] == [2, 2] and found.conclusions[0].kind == SAME
    assert found.left_out == {"a_2": "a copy of a_0", "a_3": "a copy of a_1", "b_2": "a copy of b_0"}
    assert row(found).values[0].n == 2 and "a_2 has the same results as a_0" in reported(found)


def test_a_kind_of_nothing_but_copies_has_one_run(tmp_path):
    one, other = ours(tmp_path / "a_0", rising(12)), ours(tmp_path / "b_0", rising(12, 0.45), mixup=0.1)
    found = compared(one, copy(one, "a_1"), other, copy(other, "b_1"))
    assert found.conclusions[0].kind == CAUTION and "from one run of each" in found.conclusions[0].text


def test_a_copy_as_a_kind_of_its_own_wins_nothing(tmp_path):
    ones = pair(tmp_path, "a", [0.40, 0.45])
    again = copy(ones[1], "b")
    (again / "args.yaml").write_text((again / "args.yaml").read_text() + "mixup: 0.1\n")
    found = compared(*ones, again)
    assert all(line.winner is None for line in found.summary) and row(found).remark == "a copy"
    assert "a copy of those of a" in found.conclusions[0].text and "three seeds" not in found.conclusions[0].text


def test_the_same_learned_at_another_pace_is_no_copy(tmp_path):
    one, other = ours(tmp_path / "a", rising(12)), ours(tmp_path / "b", rising(12), seconds=5, workers=9)
    assert row(compared(one, other), "hours").winner == 1


def test_a_run_that_is_not_over_is_left_out_of_its_kind(tmp_path):
    whole = pair(tmp_path, "a", [0.40, 0.41])
    short = ours(tmp_path / "a_2", rising(12, 0.4)[:8], seed=2, epochs=12)
    found = compared(*whole, short, ours(tmp_path / "b", rising(12, 0.42), mixup=0.1))
    assert row(found).values[0].n == 2 and len(found.curves[0].epoch) == 12
    assert found.left_out == {"a_2": "not finished"} and "left out of the means and tests of a" in reported(found)


def test_a_kind_that_is_not_over_is_not_judged(tmp_path):
    whole = pair(tmp_path, "a", [0.40, 0.41])
    short = ours(tmp_path / "b", rising(12, 0.5)[:8], epochs=12, mixup=0.1)
    found = compared(*whole, short, price=2.5)
    for name in ("mAP50-95", "hours", "cost at 2.5 per hour"):
        assert row(found, name).winner is None and row(found, name).remark == "not finished"
    assert "b is not finished" in found.conclusions[0].text and "seeds" not in found.conclusions[0].text
    # Both at the same place of the same plan: equally far.
    other = ours(tmp_path / "c", rising(12, 0.4)[:8], epochs=12, mixup=0.2)
    assert row(compared(short, other)).winner == 0


def test_a_run_that_stopped_for_getting_no_better_is_over(tmp_path):
    scores = [*rising(6), 0.1, 0.1, 0.1]
    (stopped,) = read_runs([str(ours(tmp_path / "a", scores, epochs=100, patience=3))])
    (killed,) = read_runs([str(ours(tmp_path / "b", scores, epochs=100, patience=5))])
    assert not stopped.unfinished and killed.unfinished


@pytest.mark.parametrize("args", [{"data": "coco.yaml"}, {"img_size": 640}])
def test_nobody_wins_on_different_images(tmp_path, args):
    ones = pair(tmp_path, "a", [0.40, 0.41], img_size=320)
    others = pair(tmp_path, "b", [0.50, 0.51], **{"img_size": 320, **args})
    found = compared(*ones, *others)
    assert all(line.winner is None for line in found.summary if line.name in accuracies())
    assert row(found).remark == "not comparable" and not any(found.overtakings.values())
    assert not any(cost.on_front for cost in found.costs)
    (conclusion,) = found.conclusions
    assert conclusion.kind == CAUTION and "same images" in conclusion.text and "seeds" not in conclusion.text


def test_validation_images_are_counted_too(tmp_path):
    folders = [ours(tmp_path / name, rising(5, top)) for name, top in (("a", 0.4), ("b", 0.5))]
    for images, folder in zip((800, 801), folders, strict=True):
        (folder / "evaluation.json").write_text(json.dumps({"images": images, "per_class": {}}))
    assert row(compared(*folders, groups=("none",))).winner is None


def test_where_a_schedule_is_over(tmp_path):
    folder = ours(tmp_path / "a", rising(20))
    (constant,) = read_runs([str(folder)])
    rates = 0.01 * (1 + np.cos(np.linspace(0, np.pi, 20))) / 2
    lines = (folder / "results.csv").read_text().splitlines()
    falling = [line.split(",") for line in lines[1:]]
    place = lines[0].split(",").index("lr/pg0")
    for cells, rate in zip(falling, rates, strict=True):
        cells[place] = f"{rate:g}"
    (folder / "results.csv").write_text("\n".join([lines[0], *map(",".join, falling), ""]))
    (cosine,) = read_runs([str(folder)])
    assert schedule_is_over(cosine) and not schedule_is_over(constant)
