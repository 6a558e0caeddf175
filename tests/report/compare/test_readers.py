"""Run folders of several trainers, whole and damaged."""

import json

import numpy as np
import pytest

from tests.report.compare.folders import ours, published, rising, ultralytics
from tests.report.logs.logs import falling, train_log
from yolofast.errors import UserError
from yolofast.report.compare.comparison import CompareRequest, compare
from yolofast.report.compare.consistency import CONTRADICTION
from yolofast.report.compare.read_folder import read_run, read_runs, short_names


def test_ultralytics(tmp_path):
    run = read_run(ultralytics(tmp_path / "a", [0.1, 0.3, 0.2]), "a")
    assert run.format == "Ultralytics" and run.epoch.tolist() == [1, 2, 3] and run.best == 1
    assert run.at_best("mAP50") == pytest.approx(0.45) and run.last("mAP50-95") == 0.2
    assert run.settings["batch_size"] == 16 and run.settings["img_size"] == 640
    assert run.hours == pytest.approx(180 / 3600) and run.last("train/total") == pytest.approx(3.2)
    assert run.last("val/dfl") == 1.2


def test_yolox(tmp_path):
    (tmp_path / "train_log.txt").write_text(
        train_log(falling(400), np.full(400, 1e-3), 100, scores=[0.1, 0.2, 0.3, 0.25])
    )
    run = read_run(tmp_path, "x")
    assert run.format == "YOLOX" and run.at_best("mAP50-95") == 0.3 and run.at_best("mAP50") == 0.45


def test_hours_of_ours_hold_the_evaluations(tmp_path):
    run = read_run(ours(tmp_path / "a", [0.1] * 4, seconds=10, wall=60), "a")
    assert run.timing.total == 60 and run.timing.seconds.tolist() == [15, 30, 45, 60]
    assert run.timing.images_per_second == pytest.approx(100) and run.timing.images == 1000
    assert run.timing.iterations_per_second == pytest.approx(2)  # batches of 50
    resumed = read_run(ours(tmp_path / "b", [0.1] * 4, seconds=10, wall=20), "b")
    assert resumed.timing.total == 40 and "training alone" in resumed.timing.source
    slow = read_run(ours(tmp_path / "c", [0.1] * 4, seconds=10, wall=50, resume=True), "c")  # of its last process
    assert slow.timing.total == 40 and "training alone" in slow.timing.source


def test_of_equal_epochs_the_last_is_the_best_as_training_keeps_it(tmp_path):
    assert read_run(ours(tmp_path / "a", [0.0] * 3), "a").best == 2
    assert read_run(ours(tmp_path / "b", [0.1, 0.3, 0.2, 0.3, 0.1]), "b").best == 3


def test_a_clock_that_starts_again_is_added_up(tmp_path):
    folder = ultralytics(tmp_path / "a", [0.1] * 4)
    text = (folder / "results.csv").read_text().replace("\n3,180,", "\n3,50,").replace("\n4,240,", "\n4,100,")
    (folder / "results.csv").write_text(text)
    assert read_run(folder, "a").timing.seconds.tolist() == [60, 120, 170, 220]


def test_torn_last_row(tmp_path):
    folder = ultralytics(tmp_path / "a", [0.1, 0.2, 0.3])
    whole = (folder / "results.csv").read_text()
    for torn in (whole[:-40], whole.rstrip() + "e", whole + "4,2"):
        (folder / "results.csv").write_text(torn)
        assert read_run(folder, "a").epoch[-1] in (2, 3) and read_run(folder, "a").at_best("mAP50-95") >= 0.2


def test_cells_that_are_not_numbers(tmp_path):
    folder = ultralytics(tmp_path / "a", [0.1, float("nan"), 0.3, float("nan")])
    run = read_run(folder, "a")
    assert len(run.epoch) == 4 and run.best == 2 and run.last("mAP50-95") == 0.3


def test_epochs_that_were_not_evaluated_are_unknown(tmp_path):
    folder = published(tmp_path, "ota")
    lines = (folder / "results.txt").read_text().splitlines()
    lines[3] = lines[3][:80] + "         0" * 7
    (folder / "results.txt").write_text("\n".join(lines) + "\n")
    run = read_run(folder, "a")
    assert np.isnan(run.column("mAP50")[3]) and np.isfinite(run.column("mAP50")[4])
    assert np.isnan(run.column("val/total")[3]) and run.column("train/total")[3] > 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("evaluation.json", '{"per_class": 5}'),
        ("evaluation.json", '{"per_class": [1, null]}'),
        ("summary.json", '{"wall_seconds": 1%s}' % ("0" * 400)),
        ("summary.json", '{"wall_seconds": 1e400}'),
        ("summary.json", '{"wall_seconds": 1e29}'),
        ("evaluation.json", '{"per_class": {"0": {"ap50": NaN, "ap": 1e400}}}'),
        ("profile.json", '{"phases": [{"name": 3}]}'),
        ("env.json", "null"),
    ],
)
def test_values_of_another_kind_are_left_out(tmp_path, name, content):
    folder = ours(tmp_path / "a", rising(5))
    (folder / name).write_text(content)
    run = read_run(folder, "a")
    assert not run.classes and run.profile is None and 0 < run.hours < 1


@pytest.mark.parametrize(
    ("number", "said"), [("1e400", "1e400"), ("NaN", "NaN"), ("9" * 5000, "99999999… (5000 digits)")]
)
def test_a_number_that_cannot_be_measured_costs_a_remark(tmp_path, number, said):
    folder = ours(tmp_path / "a", rising(5))
    (folder / "summary.json").write_text(f'{{"wall_seconds": {number}}}')
    words = f"summary.json says {said}, which cannot be measured and is left out"
    assert read_run(folder, "a").problems == (words,)


@pytest.mark.parametrize("seconds", ["1e308", "1e29", "1e-320", "-5", "nan"])
def test_a_clock_that_cannot_be_is_unknown(tmp_path, seconds):
    folder = ours(tmp_path / "a", rising(5))
    head, *rows = (folder / "results.csv").read_text().splitlines()
    rows = [",".join([row.split(",")[0], seconds, *row.split(",")[2:]]) for row in rows]
    (folder / "results.csv").write_text("\n".join([head, *rows, ""]))
    assert read_run(folder, "a").timing.total is None


@pytest.mark.parametrize("batch", [".nan", ".inf", "0", "1.0e-306", "9" * 400, "[8, 9]"])
def test_a_batch_that_cannot_be_is_unknown(tmp_path, batch):
    folders = [ours(tmp_path / name, rising(5, top)) for name, top in (("a", 0.4), ("b", 0.41))]
    text = (folders[0] / "args.yaml").read_text()
    (folders[0] / "args.yaml").write_text(text.replace("batch_size: 50", f"batch_size: {batch}"))
    runs = read_runs([str(folder) for folder in folders])
    assert runs[0].batch is None and runs[1].batch == 50
    assert not [one for one in compare(runs, CompareRequest()).remarks if one.kind == CONTRADICTION]


def test_side_files(tmp_path):
    folder = ours(tmp_path / "a", rising(5))
    profile = {"phases": [{"name": "forward", "mean_ms": 5.0, "std_ms": 0.5, "share": 0.5}], "gpu_busy": 0.9}
    (folder / "profile.json").write_text(json.dumps(profile))
    classes = {"0": {"name": "cat", "ap50": 0.5, "ap": 0.3, "boxes": 7}, "1": {"name": "dog"}}
    (folder / "evaluation.json").write_text(json.dumps({"images": 12, "per_class": classes}))
    (folder / "summary.json").write_text("{")
    run = read_run(folder, "a")
    assert run.profile.phases[0].mean_ms == 5 and run.profile.gpu_busy == 0.9
    assert list(run.classes) == ["cat"] and run.validated == (12, 7)
    assert any("summary.json cannot be read" in problem for problem in run.problems)


def test_mistakes_cost_one_message(tmp_path):
    folder, empty = ours(tmp_path / "some_run", rising(5)), tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError, match=r"did you mean '.*/some_run'"):
        read_runs([str(folder), str(tmp_path / "somerun")])
    with pytest.raises(UserError, match="holds no results"):
        read_runs([str(folder), str(empty)])
    with pytest.raises(UserError, match="is given twice"):
        read_runs([str(folder), str(folder / ".." / "some_run" / "results.csv")])
    with pytest.raises(UserError, match="3 names for 1 runs"):
        read_runs([str(folder)], ["a", "b", "c"])
    (empty / "results.csv").write_text("")
    with pytest.raises(UserError, match="has no row"):
        read_runs([str(empty)])
    (empty / "results.csv").write_text("epoch,other\n0,1\n")
    with pytest.raises(UserError, match="no column is a training loss"):
        read_runs([str(empty)])


def test_names_are_as_short_as_they_can_be(tmp_path):
    assert short_names([tmp_path / "a" / "exp", tmp_path / "b" / "exp"]) == ["a/exp", "b/exp"]
    assert short_names([tmp_path / "a", tmp_path / "b"]) == ["a", "b"]


def batch_rows(epochs, batches, assigner):
    return "".join(f"{epoch},{batch},1.0,{assigner}\n" for epoch in epochs for batch in range(batches))


@pytest.mark.parametrize(
    ("appended", "words"),
    [
        (batch_rows(range(5), 20, "anchor"), "the log holds 2 runs, and the last one is read"),
        (batch_rows(range(2, 5), 20, "anchor"), "continued with epoch 3 after epoch 5"),
    ],
)
def test_batches_that_were_written_twice_are_counted_once(tmp_path, appended, words):
    """1,000 images in batches of 50, as a run begun again and as one that was resumed."""
    folder = ours(tmp_path / "a", rising(5))
    (folder / "batches.csv").write_text(f"epoch,batch,total,assigner\n{batch_rows(range(5), 20, 'ota')}{appended}")
    run = read_run(folder, "a")
    assert run.timing.iterations == 20 and run.timing.iterations_per_second == pytest.approx(2)
    begun_again = "2 runs" in words
    assert run.assigners == (("anchor",) if begun_again else ("ota", "anchor"))
    assert len(run.problems) == 1 and run.problems[0].startswith("batches.csv") and words in run.problems[0]


def test_batches_of_an_earlier_and_longer_run_do_not_count(tmp_path):
    folder = ours(tmp_path / "a", rising(3))
    rows = batch_rows(range(30), 7, "ota") + batch_rows(range(3), 20, "ota")
    (folder / "batches.csv").write_text(f"epoch,batch,total,assigner\n{rows}")
    assert read_run(folder, "a").timing.iterations == 20


def test_of_two_runs_in_one_file_the_last_one_is_read_and_that_is_said(tmp_path):
    folder, again = ours(tmp_path / "a", rising(30)), ours(tmp_path / "b", rising(10, 0.2))
    theirs = published(tmp_path, "ota")
    for log, rows in (
        (folder / "results.csv", (again / "results.csv").read_text().splitlines()[1:]),
        (theirs / "results.txt", (theirs / "results.txt").read_text().splitlines()[:10]),
    ):
        log.write_text(log.read_text() + "\n".join(rows) + "\n")
        run = read_run(log.parent, "a")
        assert len(run.epoch) == 10
        assert "the log holds 2 runs, and the last one is read" in run.problems[0]
