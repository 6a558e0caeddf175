"""`report.html` of a real run: every part is there, it can be made again from the folder, and it may fail."""

import dataclasses
import errno
import json
import shlex
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from tests.pages.whole_page import Reader
from tests.train.small_run import flags
from yolofast.cli import main, parse
from yolofast.config.flags import from_args, parse_flags
from yolofast.config.settings import choices, is_switch, settings_of
from yolofast.config.train import TrainConfig
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.evaluate.image_faults import ImageFaults, judge
from yolofast.evaluate.matching import GroundTruth, ground_truth
from yolofast.media.pictures import read_picture
from yolofast.pages.elements import Bar, BarChart, Callout, Code, Figures, LineChart, Matrix, Picture, Table
from yolofast.pages.html import render_page
from yolofast.pages.markdown import render_markdown
from yolofast.report.diagnose.dialect import Change
from yolofast.report.run import evaluation_files
from yolofast.report.run.evaluation_files import drawn, save_samples
from yolofast.report.run.run_page import diagnosis, leave_report, report_page, write_report
from yolofast.report.run.what_ran import repeat_command
from yolofast.runs.reader import RunFolder
from yolofast.structures import Detections
from yolofast.train.record import Recorder

SECTIONS = [
    "Summary", "Curves", "What the curves say", "Classes", "Precision and recall", "Confusion", "Worst misses",
    "Time and memory", "Batches", "Repeat it", "Settings", "Environment",
]  # fmt: skip


@pytest.fixture(scope="module")
def made(trained_folder, tmp_path_factory):
    folder = shutil.copytree(trained_folder, tmp_path_factory.mktemp("report") / "copy")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more cost time on images this small
    run = (folder / "runs" / "run").rename(folder / "runs" / "<b>run")
    (run / "args.yaml").write_text((run / "args.yaml").read_text().replace("name: run", f"name: {run.name}"))
    save_samples(run, index_of(folder), made_up_faults(index_of(folder)))
    write_report(run)
    yield run
    torch.set_num_threads(threads)


def index_of(folder):
    return read_split(folder / "shapes" / "data.yaml", "val")


WRONG = (1, 9, 0, 4)


def made_up_faults(index):
    """The run's own are counted too (evaluation.json); these are known: boxes that are nowhere, two classes on each."""
    faults = ImageFaults()
    found = [
        Detections(np.full((count, 4), 1.0, np.float32), np.full(count, 0.5, np.float32), np.arange(count) % 2)
        for count in WRONG
    ]
    faults.add(found, ground_truth(index, range(4)), np.arange(4))
    return faults


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made, tmp_path / "copy", ignore=shutil.ignore_patterns("weights", "*.png"))


def elements(page, title, kind):
    section = next(section for section in page.sections if section.title == title)
    return [element for element in section.elements if isinstance(element, kind)]


def test_a_run_leaves_all_parts(made):
    page = report_page(made)
    assert [section.title for section in page.sections] == SECTIONS
    assert not [one for section in page.sections for one in section.elements if isinstance(one, Callout)]
    written = (made / "report.html").read_text()
    assert len(written) < 3_000_000 and "Run &lt;b&gt;run" in written and "<b>" not in written
    assert not [value for _, name, value in Reader(written).attributes if name in ("src", "href") and "://" in value]


def test_curves_are_those_of_the_table(made):
    rows = (made / "results.csv").read_text().splitlines()
    column = rows[0].split(",").index("train/box_loss")
    chart = next(one for one in elements(report_page(made), "Curves", LineChart) if one.title == "Loss: box")
    assert chart.series[0].x == (1, 2, 3) and [one.name for one in chart.series] == ["training", "validation"]
    assert chart.series[0].y == tuple(float(row.split(",")[column]) for row in rows[1:])


def test_scores_are_those_of_the_evaluation(made):
    scores = json.loads((made / "evaluation.json").read_text())
    best = json.loads((made / "summary.json").read_text())["best"]
    assert scores["map50"] == pytest.approx(best["metrics/mAP50(B)"]) and scores["images"] == 4
    page = report_page(made)
    (table,) = elements(page, "Classes", Table)
    assert [row[0] for row in table.rows] == [one["name"] for one in scores["per_class"].values()]
    assert sum(row[1] for row in table.rows) == sum(one["boxes"] for one in scores["per_class"].values()) > 0
    (matrix,) = elements(page, "Confusion", Matrix)
    assert np.sum(matrix.values) == sum(count for _, _, count in scores["confusion"])
    assert matrix.rows[-1] == "background" and len(matrix.rows) == len(scores["names"]) + 1


def test_shares_say_of_what(copy):
    """Of 8 true a boxes 2 are taken for b and 4 missed; of 5 boxes that are nowhere 3 are called a."""
    scores = json.loads((copy / "evaluation.json").read_text())
    scores |= {"names": ["a", "b"], "confusion": [[0, 0, 2], [1, 0, 2], [2, 0, 4], [0, 2, 3], [1, 2, 2]]}
    (copy / "evaluation.json").write_text(json.dumps(scores))
    (table,) = elements(report_page(copy), "Confusion", Table)
    assert table.columns == ("most frequent mistakes", "times", "share of") and table.rows[:3] == (
        ("a: missed", 4, "50.0% of 8 true a boxes"),
        ("a: seen where nothing is", 3, "60.0% of 5 boxes seen where nothing is"),
        ("a: taken for b", 2, "25.0% of 8 true a boxes"),
    )


def test_advice_is_spelled_as_diagnose_spells_it():
    changes = [Change("multi_scale", True, False), Change("lr0", None, 0.003)]
    assert [str(change) for change in changes] == ["multi_scale: true -> false", "lr0: ? -> 0.003"]


def test_samples_begin_with_the_worst(made):
    """What is drawn and said is what they are ranked by."""
    index = index_of(made.parent.parent)
    rows = json.loads((made / "samples" / "samples.json").read_text())
    ranked = made_up_faults(index).per_image().tolist()
    assert [[row["image"], row["missed"], row["wrong"]] for row in rows] == [
        [index.path(place).name, missed, wrong] for place, missed, wrong in ranked
    ]
    faults = [row["missed"] + row["wrong"] for row in rows]
    assert faults == sorted(faults, reverse=True) and sorted(row["wrong"] for row in rows) == sorted(WRONG)
    pictures = elements(report_page(made), "Worst misses", Picture)
    assert len(pictures) == 4 and pictures[0].caption.startswith(rows[0]["image"])
    assert all(cv2.imdecode(np.frombuffer(one.content, np.uint8), 1).std() > 0 for one in pictures)


def test_right_wrong_and_missed_boxes_differ():
    picture = np.full((100, 200, 3), 128, np.uint8)
    boxes = np.float32([[20, 30, 60, 90], [80, 30, 120, 90]])
    found = Detections(boxes, np.float32([0.9, 0.8]), np.array([0, 1]))
    truth = GroundTruth(np.float32([[20, 30, 60, 90], [140, 30, 180, 90]]), np.array([0, 1]))
    image = cv2.imdecode(np.frombuffer(drawn(picture, judge(found, truth), ("a", "b")), np.uint8), 1).astype(int)
    scale = image.shape[1] / 200
    assert scale > 2  # small pictures are enlarged
    blue, orange, magenta = (image[int(60 * scale), int(x * scale) - 3 : int(x * scale) + 4] for x in (60, 120, 180))
    assert (blue[:, 0] - blue[:, 2]).max() > 40  # blue first
    assert (orange[:, 2] - orange[:, 0]).max() > 60 and (orange[:, 1] - orange[:, 0]).max() > 40
    assert (magenta[:, 2] - magenta[:, 1]).max() > 60


def test_two_names_of_one_box_do_not_hide_one_another():
    picture = np.full((100, 200, 3), 128, np.uint8)
    box = np.float32([[20, 30, 60, 90]] * 2)
    both = judge(Detections(box, np.float32([0.9, 0.8]), np.array([0, 1])), GroundTruth(box[:1], np.array([0])))
    image = cv2.imdecode(np.frombuffer(drawn(picture, both, ("a", "b")), np.uint8), 1).astype(int)
    names = image[:, 60:90]  # scaled by 2.6 the box begins at 52
    assert ((names[..., 0] - names[..., 2]).max(axis=1) > 80).sum() > 8, "rows of the right one in blue"
    assert ((names[..., 2] - names[..., 0]).max(axis=1) > 80).sum() > 8, "below it the wrong one in orange"


def test_the_command_repeats_the_run(made):
    (code,) = elements(report_page(made), "Repeat it", Code)
    words = shlex.split(code.text)
    assert words[:2] == ["yolofast", "train"]
    config = from_args(TrainConfig, parse(words[1:]))
    assert (config.cfg, config.epochs, config.name, config.img_size) == ("mini", 3, "<b>run", (64,))


@pytest.mark.slow
@pytest.mark.parametrize("faithful", [False, True])
def test_every_setting_can_be_repeated(faithful):
    """Each set to something else than its default, one at a time."""
    base = TrainConfig.published() if faithful else TrainConfig()
    tried = 0
    for name in settings_of(TrainConfig):
        try:
            config = dataclasses.replace(base, **{name: _another(base, name)})
        except UserError:  # not without others
            continue
        if name in ("resume", "explain", "exist_ok", "faithful"):
            continue
        words = shlex.split(repeat_command(config))
        assert from_args(TrainConfig, parse_flags(TrainConfig, base, words[2:], "train")) == config, name
        tried += 1
    assert tried > 50


def _another(config, name):
    value = getattr(config, name)
    if is_switch(TrainConfig, name):
        return not value
    if words := choices(TrainConfig, name):
        return next(word for word in words if word != value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if value >= 1 else value / 2
    if isinstance(value, tuple):
        return (*value, value[-1]) if value else ("a b",)
    return "it's a 'name'"


def test_it_is_made_again_from_the_folder(copy, tmp_path, capsys):
    before = (copy / "report.html").read_text()
    (copy / "report.html").unlink()
    assert main(["report", str(copy), "--markdown", str(tmp_path / "report.md")]) == 0
    assert main(["report", str(copy), "--markdown", str(tmp_path / "report.md")]) == 0  # its own may be replaced
    (tmp_path / "mine.md").write_text("mine")
    assert main(["report", str(copy), "--markdown", str(tmp_path / "mine.md")]) == 2
    assert (tmp_path / "mine.md").read_text() == "mine"
    assert (copy / "report.html").read_text() == before.replace("Run &lt;b&gt;run", "Run copy")
    assert "report.html" in capsys.readouterr().out
    assert all(f"## {title}" in (tmp_path / "report.md").read_text() for title in SECTIONS)


def test_torn_and_foreign_files_cost_a_remark(copy):
    (copy / "evaluation.json").write_text('{"per_class": {"0": {}}, "confusion": 3}')
    (copy / "samples" / "samples.json").write_text('[{"file": "../../x.jpg", "image": "", "missed": 0, "wrong": 0}]')
    (copy / "env.json").write_text("{")
    (copy / "args.yaml").write_text("epochs: many\n")
    (copy / "profile.json").write_text('{"gear": "eager", "phases": [{"name": "forward", "mean_ms": 1.5}]}')
    page = report_page(copy)
    assert any("env.json" in one.text for one in elements(page, "Summary", Callout))
    assert elements(page, "Classes", Callout) and elements(page, "Confusion", Callout)
    assert elements(page, "Repeat it", Callout) and elements(page, "Curves", LineChart)
    assert "Environment" not in [section.title for section in page.sections]


def remarks(page):
    return [one.text for section in page.sections for one in section.elements if isinstance(one, Callout)]


@pytest.mark.parametrize("seconds", ["1e308", "1e400", "-5", "nan"])
def test_a_time_that_cannot_be_is_unknown(copy, seconds):
    head, *rows = (copy / "results.csv").read_text().splitlines()
    rows = [",".join([row.split(",")[0], seconds, *row.split(",")[2:]]) for row in rows]
    (copy / "results.csv").write_text("\n".join([head, *rows, ""]))
    page = report_page(copy)
    assert ("training time", "unknown") in elements(page, "Summary", Figures)[0].items
    assert not remarks(page) and render_page(page) and render_markdown(page)


@pytest.mark.parametrize(
    ("name", "content", "section"),
    [
        ("summary.json", '{"wall_seconds": 1e400}', "Summary"),
        ("profile.json", '{"gpu_busy": NaN}', "Summary"),
        ("env.json", '{"a": ' + "[" * 500 + "]" * 500 + "}", "Summary"),
        ("batches.csv", "epoch,batch,batch\n", "Summary"),
        ("evaluation.json", '{"precision_at_recall": {"mean": ["x"]}, "per_class": {}, "map50": 1}', "Precision"),
        ("evaluation.json", '{"precision_at_recall": {"mean": [1], "0": []}, "per_class": {}}', "Precision"),
        ("evaluation.json", '{"precision_at_recall": {"mean": 5}, "per_class": {}}', "Precision"),
    ],
)
def test_a_file_that_cannot_be_true_costs_a_remark(copy, name, content, section):
    (copy / name).write_text(content)
    page = report_page(copy)
    said = [title.title for title in page.sections if any(isinstance(one, Callout) for one in title.elements)]
    assert len(said) == 1 and said[0].startswith(section) and render_page(page) and render_markdown(page)


def test_pictures_that_cannot_be_read_cost_a_remark(copy, monkeypatch):
    first, second, *_ = sorted((copy / "samples").glob("*.jpg"))
    first.unlink()
    first.mkdir()
    really = Path.read_bytes

    def refuse(path):
        if path == second:
            raise PermissionError(errno.EACCES, "Permission denied")
        return really(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    page = report_page(copy)
    said = [f"samples/{first.name} is not a file", f"samples/{second.name} cannot be read: Permission denied"]
    assert remarks(page) == said and elements(page, "Worst misses", Picture)


def test_what_runs_parallel_to_a_step_is_no_part_of_it(copy):
    phases = [
        {"name": "host→device", "mean_ms": 0.1}, {"name": "forward", "mean_ms": 5.0},
        {"name": "host→device", "mean_ms": 1.2, "beside": "on the GPU's side stream"},
    ]  # fmt: skip
    (copy / "profile.json").write_text(json.dumps({"gear": "graph", "phases": phases}))
    step, parallel = elements(report_page(copy), "Time and memory", BarChart)[0].bars
    assert step == Bar("gear graph", (("host→device", 0.1), ("forward", 5.0)))
    assert parallel == Bar("parallel to it, on the GPU's side stream", (("host→device", 1.2),))


def test_the_summary_of_an_earlier_end_is_not_believed(copy):
    """As a run has it that was resumed for more epochs, and killed."""
    said = json.loads((copy / "summary.json").read_text())
    (copy / "summary.json").write_text(json.dumps({**said, "epochs": said["epochs"] - 1}))
    page = report_page(copy)
    assert any("not come to its end" in one.text for one in elements(page, "Summary", Callout))
    assert "last process" not in str(elements(page, "Time and memory", Table))


def interrupted_run(folder, monkeypatch, **changes):
    """Ctrl+C when the second epoch is to be written down."""

    def stop(recorder, row):
        if recorder.rows:
            raise KeyboardInterrupt
        return record(recorder, row)

    record = Recorder.epoch
    monkeypatch.setattr(Recorder, "epoch", stop)
    monkeypatch.setenv("YOLOFAST_CACHE", str(folder / "cache"))
    assert main(["train", *flags(folder, epochs=2, **changes), "--exist-ok"]) == 130
    return folder / "runs" / changes["name"]


def test_an_interrupted_run_has_a_report_of_its_own(made, monkeypatch):
    """In the folder of a run that was finished, of which nothing is left to be taken for its own."""
    folder = made.parent.parent
    old = shutil.copytree(made, folder / "runs" / "again")
    interrupted_run(folder, monkeypatch, name="again")
    page = report_page(old)
    assert any("not come to its end" in one.text for one in elements(page, "Summary", Callout))
    assert elements(page, "Classes", Table) and not (old / "samples").exists()
    assert "of 1" in (old / "report.html").read_text()


def test_an_interrupted_run_shows_its_worst_misses(made, monkeypatch, capsys):
    run = interrupted_run(made.parent.parent, monkeypatch, name="shown", plots=True)
    scores, listed = (json.loads((run / name).read_text()) for name in ("evaluation.json", "samples/samples.json"))
    pictures = elements(report_page(run), "Worst misses", Picture)
    assert len(pictures) == len(listed) == scores["images"] == 4
    assert sum(row["missed"] + row["wrong"] > 0 for row in listed) == scores["images_with_faults"]
    assert (run / "report.html").read_text().count("data:image/jpeg") == 4
    assert f"train --resume {run}" in capsys.readouterr().out


@pytest.fixture
def interrupted_drawing(monkeypatch):
    """Ctrl+C at the second picture that is drawn; the list of those begun."""
    begun = []

    def stop(path):
        begun.append(path)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return read_picture(path)

    monkeypatch.setattr(evaluation_files, "read_picture", stop)
    return begun


def test_a_second_interrupt_ends_at_once(made, monkeypatch, interrupted_drawing, capsys):
    run = interrupted_run(made.parent.parent, monkeypatch, name="twice", plots=True)
    assert len(interrupted_drawing) == 2 and not (run / "report.html").exists()
    assert (run / "weights" / "last.pt").is_file() and f"train --resume {run}" in capsys.readouterr().out


def test_no_picture_gets_the_caption_of_an_earlier_one(made, copy, interrupted_drawing):
    index = index_of(made.parent.parent)
    with pytest.raises(KeyboardInterrupt):
        save_samples(copy, index, made_up_faults(index))
    assert "Worst misses" not in [section.title for section in report_page(copy).sections]


def test_an_unfinished_run_says_so(copy):
    for name in ("summary.json", "evaluation.json", "batches.csv", "hyp.yaml"):
        (copy / name).unlink()
    shutil.rmtree(copy / "samples")
    page = report_page(copy)
    assert any("not come to its end" in one.text for one in elements(page, "Summary", Callout))


def test_mistakes_are_named(tmp_path, capsys):
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert main(["report", str(folder)]) == 2
    assert capsys.readouterr().err.count("fix: ") == 2


def test_no_report_is_worth_a_run(copy):
    said = []
    (copy / "report.html").unlink()
    (copy / "report.html").mkdir()
    leave_report(copy, None, (), said.append)
    assert len(said) == 1 and said[0].startswith("warning: report.html could not be written")


def test_what_diagnose_remarks_is_in_the_report_too(tmp_path):
    head = ",".join(f"{split}/{term}_loss" for split in ("train", "val") for term in ("box", "obj", "cls"))
    rows = [f"{n},1,1,1,1,{9000 if n == 0 else 1},1" for n in range(20)]
    (tmp_path / "results.csv").write_text("\n".join([f"epoch,{head}", *rows]) + "\n")
    texts = [str(element) for element in diagnosis(RunFolder(tmp_path))]
    assert any("Note: the validation loss was 9002 in epoch 1" in text for text in texts)
