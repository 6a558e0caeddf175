"""`yolofast trackval` on golden results: tables, JSON, page, and what is refused."""

import json
import re
import shlex
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_classes_and_their_averages(capsys):
    assert main(flags(MULTICLASS, "all", "--classes", "all")) == 0
    lines = {line.split("  ")[0]: line for line in capsys.readouterr().out.splitlines()}
    mota = expected(MULTICLASS)["results"]["all"]["class_average"]["CLEAR"]["MOTA"]
    assert f"{100 * mota:.3f}" in lines["all classes, as TrackEval"]
    assert {"classes that have truth", "all boxes alike", "classes ignored", "7"} < lines.keys()


@pytest.mark.slow
def test_classes_by_name(tmp_path, capsys):
    """Of `--names`, or of the truth's categories."""
    truth, results = MULTICLASS / "gt", str(MULTICLASS / "results" / "all")
    for words in ("--classes 2 7", "--classes bus van --names car bus bike - - - van"):
        assert main(["trackval", "--truth", str(truth), "--results", results, *words.split(), "--json"]) == 0
    by_number, by_name = capsys.readouterr().out.split('{\n "made_by"')[1:]
    one, two = (json.loads('{"made_by"' + text) for text in (by_number, by_name))
    assert one["scores"] == two["scores"] and list(two["scores"]["per_class"]) == ["2", "7"]
    assert two["class_names"]["7"] == "van" and not one["class_names"]
    file = str(tmp_path / "truth.json")
    assert main(["convert", str(truth), "--to", "tao", "--out", file, "--names", *"abcdefgh"]) == 0
    assert "classes: 1 a, 2 b, 3 c, 5 e, 6 f, 7 g" in capsys.readouterr().out
    assert main(["trackval", "--truth", file, "--results", results, "--classes", "b", "g"]) == 0
    lines = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert "2 b" in lines and "7 g" in lines


def test_truth_without_classes_is_no_truth_of_pedestrians(tmp_path, capsys):
    for name, ending in (("gt", "-1,1"), ("results", "-1,-1,-1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "A.txt").write_text(f"1,1,0,0,9,9,1,{ending}\n2,1,0,0,9,9,1,{ending}\n")
    arguments = ["trackval", "--truth", str(tmp_path / "gt"), "--results", str(tmp_path / "results")]
    assert main([*arguments, "--benchmark", "mot20"]) == 0
    output = capsys.readouterr().out
    assert "A.txt: it has no classes (column 8), and mot20 counts class 1" in output and "--benchmark none" in output
    assert main(arguments) == 0 and "remark" not in capsys.readouterr().out


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
        (["--images", "nowhere", "--html"], "nowhere: --images: no such folder"),
        (["--classes", "car"], "class 'car' is unknown; the truth has no names of classes"),
        (["--classes", "cars", "--names", *"abcdef", "car"], "class 'cars' is unknown, did you mean 'car'?"),
        (["--names", "car"], "1 name for the classes 1 2 3 4 5 6 7: class 2 has no name"),
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


def test_faults_of_all_files_are_told_together(tmp_path, capsys):
    for name in ("gt", "results"):
        (tmp_path / name).mkdir()
        for sequence in "ABC":
            bad = "" if (name, sequence) == ("gt", "C") else "3,1,0,0,-9,9,1\n" * 4
            (tmp_path / name / f"{sequence}.txt").write_text(f"1,1,0,0,9,9,1\n{bad}")
    arguments = ["trackval", "--truth", str(tmp_path / "gt"), "--results", str(tmp_path / "results")]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert "20 faults in 5 places" in error and "… and 10 more" in error and error.count("9 high") == 10
    assert main(["convert", str(tmp_path / "gt"), "--to", "tao", "--out", str(tmp_path / "x.json")]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / 'gt'}: 8 faults in 2 places" in error and "B.txt:2" in error
    assert not (tmp_path / "x.json").exists()


@pytest.mark.slow
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
    assert len(commands) == 5
    assert main(["dataset", "shapes-video", "--out", "moving", "--frames", "3"]) == 0
    for command in commands:
        words = shlex.split(command, comments=True)
        words = [word for word in words if word not in ("--names", "pedestrian")]  # here are more classes
        assert main(words) == 0
    assert Path("trackval.html").exists() and Path("folders/MOT17-02-SDP/gt/gt.txt").exists()
