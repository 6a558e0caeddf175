"""`yolofast trackval` on golden results: tables, JSON, page, and what is refused."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.track.golden import GOLDEN, differences, expected
from yolofast.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "tracking-scores.md"
PREPROCESSING, MULTICLASS = GOLDEN / "preprocessing", GOLDEN / "multiclass"


def flags(folder, variant, *more):
    return ["trackval", "--truth", str(folder / "gt"), "--results", str(folder / "results" / variant), *more]


def test_tables_and_files(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(flags(PREPROCESSING, "all", "--benchmark", "mot17", "--json", "t.json", "--html")) == 0
    output = capsys.readouterr().out
    wanted = expected(PREPROCESSING)["MOT17"]["all"]
    for name in ("SYNP-21", "SYNP-22", "COMBINED"):
        line = next(one for one in output.splitlines() if one.startswith(name.replace("COMBINED", "all together")))
        assert f"{100 * np.mean(wanted[name]['HOTA']['HOTA']):.3f}" in line
        assert f"{100 * wanted[name]['CLEAR']['MOTA']:.3f}" in line and f" {wanted[name]['CLEAR']['IDSW']} " in line
    assert "identities switched" in output and "written: t.json, trackval.html" in output
    written = json.loads((tmp_path / "t.json").read_text())
    assert not differences(written["scores"], wanted)
    counts = [
        sum(event["kind"] == kind for event in written["events"]) for kind in ("switched", "missed", "fragmented")
    ]
    assert counts == [wanted["COMBINED"]["CLEAR"][name] for name in ("IDSW", "CLR_FN", "Frag")]
    assert len(written["switches"]) == counts[0] and written["switches"][0]["cause"]
    page = (tmp_path / "trackval.html").read_text()
    assert "Identities over time" in page and page.endswith("<!-- yolofast trackval -->\n")
    assert main(flags(PREPROCESSING, "all", "--json", "t.json", "--html")) == 0  # its own files are replaced


def test_classes_and_their_averages(capsys):
    assert main(flags(MULTICLASS, "all", "--classes", "all")) == 0
    lines = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    mota = expected(MULTICLASS)["results"]["all"]["class_average"]["CLEAR"]["MOTA"]
    assert f"{100 * mota:.3f}" in lines["all classes, as TrackEval"]
    assert {"classes that have truth", "all boxes alike", "classes ignored", "7"} < lines.keys()


def test_json_is_printed_alone(capsys):
    assert main(flags(MULTICLASS, "perfect", "--sequences", "MC-31", "--json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed["scores"]) == ["MC-31", "COMBINED"] and printed["means"]["COMBINED"]["IDSW"] == 0


def test_a_seqmap_names_the_sequences(tmp_path, capsys):
    (tmp_path / "seqmap.txt").write_text("name\nMC-32\n")
    assert main(flags(MULTICLASS, "perfect", "--sequences", str(tmp_path / "seqmap.txt"))) == 0
    output = capsys.readouterr().out
    assert "MC-32" in output and "MC-31" not in output and "no identity switched" in output


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--json", "t.txt"], "--json is t.txt"),
        (["--html", "taken.html"], "exists and was not written by `yolofast trackval`"),
        (["--images", "."], "--images is for the page"),
        (["--classes", "car"], "--classes has 'car'"),
        (["--sequences", "MC-3"], "has no sequence MC-3, did you mean 'MC-3"),
        (["--benchmark", "mot17"], "results of class"),
    ],
)
def test_what_is_refused(more, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.html").write_text("mine")
    assert main(flags(MULTICLASS, "all", *more)) == 2
    assert message in capsys.readouterr().err


def test_faulty_rows_are_told_or_omitted(tmp_path, capsys):
    for name in ("gt", "results"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "A.txt").write_text("1,1,0,0,9,9,1\n2,1,0,0,9,9,1\n")
    with (tmp_path / "results" / "A.txt").open("a") as file:
        file.write("2,1,5,5,9,9,1\n3,1,0,0,-9,9,1\n4,1,0")
    arguments = ["trackval", "--truth", str(tmp_path / "gt"), "--results", str(tmp_path / "results")]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "3 faults" in error and "A.txt:5: 3 values instead of 7; the file may have been cut off" in error
    assert main([*arguments, "--skip-bad"]) == 0
    output = capsys.readouterr().out
    assert "100.000" in output and "remark:" in output and "1 row omitted, identity twice in a frame" in output


def test_the_examples_of_the_documentation_run_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    truth, results = Path("MOT17/train/MOT17-02-SDP/gt/gt.txt"), Path("tracks/MOT17-02-SDP.txt")
    for path, source in ((truth, "gt"), (results, "results/all")):
        path.parent.mkdir(parents=True)
        shutil.copy(PREPROCESSING / source / "SYNP-22.txt", path)
    text = PAGE.read_text(encoding="utf-8")
    (python,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(python, str(PAGE), "exec"), {})
    assert "MOT17-02-SDP" in capsys.readouterr().out
    commands = re.findall(r"^yolofast (.*)$", text, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        words = [word for word in command.split() if word not in ("--names", "pedestrian")]  # here are more classes
        assert main(words) == 0
    assert Path("trackval.html").exists() and Path("folders/MOT17-02-SDP/gt/gt.txt").exists()
