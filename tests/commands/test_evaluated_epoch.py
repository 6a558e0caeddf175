"""A detailed evaluation of an earlier epoch is never shown as that of the best one, whatever ended the run."""

import csv
import json
import signal

import numpy as np
import pytest

from tests.report.compare.folders import ours, rising
from tests.train.small_run import flags, killed_at, start
from yolofast.cli import main
from yolofast.interrupts import EXIT_INTERRUPTED
from yolofast.pages.elements import Callout
from yolofast.report.compare.comparison import CompareRequest, compare
from yolofast.report.compare.read_folder import read_runs
from yolofast.report.run.run_page import report_page
from yolofast.runs.reader import epoch_of, of_another_epoch
from yolofast.train.checkpoints import Checkpoints

OF_EVALUATION = ["Classes", "Precision and recall", "Confusion"]


def best_epoch(run):
    """From 0, by the rule of `best.pt`."""
    with (run / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    return max(
        (0.1 * float(row["metrics/mAP50(B)"]) + 0.9 * float(row["metrics/mAP50-95(B)"]), int(row["epoch"]))
        for row in rows
    )[1]


def better(run, epoch):
    """As if that epoch had been a good one: so early all are equally bad."""
    head, *rows = (run / "results.csv").read_text().splitlines()
    cells = dict(zip(head.split(","), rows[epoch].split(","), strict=True)) | {"metrics/mAP50-95(B)": "0.8"}
    rows[epoch] = ",".join(cells.values())
    (run / "results.csv").write_text("\n".join([head, *rows, ""]))


def remarks(run):
    """Section -> what it says of its epoch."""
    return {
        section.title: element.text
        for section in report_page(run).sections
        for element in section.elements
        if isinstance(element, Callout) and "of epoch" in element.text
    }


def interrupt_after_saving(monkeypatch):
    """Ctrl+C as soon as there is a checkpoint."""
    save = Checkpoints.save

    def save_and_stop(self, content, *names):
        save(self, content, *names)
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, "save", save_and_stop)


@pytest.mark.slow
def test_interrupted_then_better_then_killed(tmp_path, monkeypatch, one_thread):
    run = tmp_path / "runs" / "exp"
    with monkeypatch.context() as patches:
        interrupt_after_saving(patches)
        assert main(["train", *flags(tmp_path, plots=True)]) == EXIT_INTERRUPTED
    scores, (sample, *_) = (
        json.loads((run / name).read_text()) for name in ("evaluation.json", "samples/samples.json")
    )
    assert scores["epoch"] == sample["epoch"] == best_epoch(run) + 1 and not remarks(run)
    process = start(tmp_path, "--resume", str(run), plots=True, program=killed_at("epoch", 2))
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    better(run, 1)
    assert main(["report", str(run)]) == 0
    reported = f"This is of epoch {scores['epoch']} and not of epoch {best_epoch(run) + 1}, the best one in results.csv"
    assert list(remarks(run)) == [*OF_EVALUATION, "Worst misses"]
    assert all(text.startswith(reported) and "train --resume" in text for text in remarks(run).values())
    assert (run / "report.html").read_text().count(reported) >= 4


@pytest.mark.slow
def test_with_nosave_it_is_of_the_last_epoch(tmp_path, one_thread):
    assert main(["train", *flags(tmp_path, epochs=2), "--nosave"]) == 0
    run = tmp_path / "runs" / "exp"
    assert json.loads((run / "evaluation.json").read_text())["epoch"] == 2
    better(run, 0)
    reported = (
        "This is of epoch 2 and not of epoch 1, the best one in results.csv: --nosave keeps the last weights alone."
    )
    assert remarks(run) == dict.fromkeys(OF_EVALUATION, reported)


def with_classes(folder, **said):
    """Whose mean is not mAP50."""
    rows = {"0": {"name": "cat", "ap50": 0.2, "ap": 0.1}}
    (folder / "evaluation.json").write_text(json.dumps({"images": 8, "per_class": rows, **said}))
    return folder


def reported(*folders):
    found = compare(read_runs([str(folder) for folder in folders]), CompareRequest(groups=("none",)))
    return [f"{remark.kind}: {remark.text}" for remark in found.remarks if "class" in remark.text]


def test_compare_says_it_of_the_classes(tmp_path):
    older = with_classes(ours(tmp_path / "a", rising(5)), epoch=2)
    last = with_classes(ours(tmp_path / "b", [0.1, 0.3, 0.2], nosave=True), epoch=2)
    assert reported(older, last) == [
        "incomplete: a: its scores per class are of epoch 3 and not of epoch 5, the best one in results.csv: the run "
        "has not ended since (train --resume).",
        "incomplete: b: its scores per class are of epoch 3 and not of epoch 2, the best one in results.csv: --nosave "
        "keeps the last weights alone.",
    ]


@pytest.mark.parametrize(
    ("said", "epoch"),
    [
        ({"epoch": 2}, 3),
        ({"epoch": 2, "epochs_counted_from": 0}, 3),
        ({"epoch": 2, "epochs_counted_from": 1}, 2),
        ({"epoch": 0, "epochs_counted_from": 1}, None),
        ({"epoch": 2, "epochs_counted_from": "1"}, None),
    ],
)
def test_files_count_from_where_they_say(said, epoch):
    """Those of earlier versions from 0, which some of them say."""
    assert epoch_of(said) == epoch


@pytest.mark.parametrize("said", [{}, {"epoch": None}, {"epoch": "4"}, {"epoch": True}, {"epoch": -4}, {"epoch": 4}])
def test_files_that_do_not_say_it_or_are_of_the_best_epoch(tmp_path, said):
    """Then only the scores themselves can contradict one another, as they do here."""
    one, other = (
        with_classes(ours(tmp_path / name, rising(5, top)), **said) for name, top in (("a", 0.4), ("b", 0.41))
    )
    assert len(reported(one, other)) == 2 and all(
        "the mean of its classes is 0.2" in text for text in reported(one, other)
    )


@pytest.mark.parametrize(
    ("last", "words"),
    [(0.3, "the mean of its"), (0.300001, "the mean of its"), (0.31, "of epoch 2 and not of epoch 5")],
)
def test_epochs_that_are_equal_and_those_that_rounding_may_have_changed(tmp_path, last, words):
    """The sixth digit of results.csv says nothing."""
    folders = [with_classes(ours(tmp_path / name, [0.1, 0.3, 0.2, 0.2, last]), epoch=1) for name in ("a", "b")]
    assert len(reported(*folders)) == 2 and all(words in text for text in reported(*folders))


def test_equal_epochs_in_results_csv_raise_no_doubt():
    """They have six digits, training compared more: epoch 2 may have been the better one and kept."""
    epochs, scores = np.array([1, 2, 3]), np.array([0.1, 0.312345, 0.312345])
    assert of_another_epoch(2, epochs, scores, nosave=False) == ""
    assert of_another_epoch(1, epochs, scores, nosave=False).startswith("of epoch 1 and not of epoch 3")
    assert of_another_epoch(1, epochs, np.zeros(3), nosave=False) == "", "as while nothing is found yet"
