"""`yolofast check` as a user types it."""

import json
import re

import cv2
import pytest

from tests.dataset.make import coco, image, write
from yolofast.cli import main


@pytest.fixture
def data(tmp_path):
    """Two classes; train has a background image and more bad rows than are shown."""
    for split, count in (("train", 3), ("val", 2)):
        for i in range(count):
            image(tmp_path / f"images/{split}/{i}.jpg", seed=10 * count + i)
            write(tmp_path / f"labels/{split}/{i}.txt", "0 .5 .5 .5 .5\n" if i else "")
    write(tmp_path / "data.yaml", "train: images/train\nval: images/val\nnames: ['[/b] cat', dog]\n")
    return tmp_path / "data.yaml"


def run(capsys, *args):
    try:
        code = main(["check", *map(str, args)])
    except SystemExit as error:
        code = error.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def spoil(data, rows=25):
    write(data.parent / "labels/train/1.txt", "0 .5 .5 .5 .5\n" + "7 .5 .5 .5 .5\n" * rows)


def test_a_clean_set(capsys, data):
    code, out, err = run(capsys, "--data", data)
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert ["train", "3", "2", "1", "1", "of", "2", "0", "0"] in rows
    assert ["val", "2", "1", "1", "1", "of", "2", "0", "0"] in rows
    assert ["0", "[/b]", "cat", "2", "1"] in rows
    assert "no faults" in out


def test_names_do_not_steer_the_terminal(capsys, data):
    write(data, data.read_text().replace("'[/b] cat'", '"\\e[2Jcat 車"'))
    image(data.parent / "images/train/\x1b]0;x\x07.jpg", seed=5)
    write(data.parent / "labels/train/\x1b]0;x\x07.txt", "0 .5 .5 9 .5\n")
    code, out, err = run(capsys, "--data", data)
    assert code == 1 and "\x1b" not in out + err
    assert r"\x1b[2Jcat 車" in out and r"labels/train/\x1b]0;x\x07.txt:1:" in out


def test_faults_are_shown_with_file_line_and_fix_and_the_code_is_1(capsys, data):
    spoil(data)
    code, out, _ = run(capsys, "--data", data)
    assert code == 1
    label = data.parent / "labels/train/1.txt"
    assert f"{label}:2: class 7 is not a whole number from 0 to 1\n" in out
    assert out.count(f"{label}:") == 20
    assert "… and 5 more" in out
    assert "fix: correct the label, or nc and names" in out
    assert "25 faults" in out and "--skip-bad" in out


@pytest.mark.slow
def test_background_is_no_failure_but_warnings_are(capsys, data):
    (data.parent / "labels/val/0.txt").unlink()
    code, out, _ = run(capsys, "--data", data, "--splits", "train")
    assert (code, "warning:" in out) == (0, False)
    code, out, _ = run(capsys, "--data", data)
    assert (code, "warning: image without label (1)" in out) == (0, True)
    write(data.parent / "labels/val/1.txt", "1 .5 .5 .01 .5\n")
    code, out, _ = run(capsys, "--data", data)
    assert code == 1
    assert re.search(r"warning: box under 2 pixels \(1\)\n  .*1\.txt:1: the box is 0\.64×24 pixels", out)
    assert "warning: image without label (1)" in out


def test_json_lists_all(capsys, data):
    spoil(data)
    code, out, _ = run(capsys, "--data", data, "--json")
    found = json.loads(out)
    assert (code, found["ok"]) == (1, False)
    assert len(found["faults"]) == 25
    first = found["faults"][0]
    assert (first["split"], first["kind"], first["line"], first["fatal"]) == ("train", "unknown class", 2, True)
    assert first["where"].endswith("1.txt") and first["fix"]
    assert found["splits"]["train"]["faults"] == 25
    assert found["splits"]["val"]["classes"] == {"0 [/b] cat": 1, "1 dog": 0}


def test_single_cls_has_no_unknown_classes(capsys, data):
    spoil(data, rows=1)
    assert run(capsys, "--data", data, "--single-cls")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["labels.jpg", "deeper/labels.png"])
def test_the_picture(capsys, data, tmp_path, name):
    code, out, _ = run(capsys, "--data", data, "--plot", tmp_path / name)
    assert code == 0
    assert str(tmp_path / name) in out
    picture = cv2.imread(str(tmp_path / name))
    assert picture.shape == (1000, 1200, 3)
    assert picture.std() > 20  # something is drawn


@pytest.mark.slow
def test_a_picture_of_background_alone(capsys, data, tmp_path):
    for label in data.parent.glob("labels/*/*.txt"):
        label.write_text("")
    code, out, _ = run(capsys, "--data", data, "--plot", tmp_path / "x.png")
    assert code == 1
    assert "none of the 3 train images has a box" in out
    assert "1 fault of a whole split: training stops, with --skip-bad too" in out
    assert (tmp_path / "x.png").exists()


def test_the_closing_words_tell_what_training_does(capsys, data):
    (data.parent / "images/val/1.jpg").write_bytes((data.parent / "images/train/1.jpg").read_bytes())
    code, out, _ = run(capsys, "--data", data)
    assert code == 1
    assert out.endswith(
        f"{data}: 1 fault, no warnings\n1 image in two splits: training does not check that, so correct it before\n"
    )
    spoil(data, rows=1)
    out = run(capsys, "--data", data)[1]
    assert ": 2 faults, no warnings\n1 fault: training stops, or with --skip-bad omits what is named\n" in out


def test_an_image_that_the_coco_file_does_not_list_counts(capsys, tmp_path):
    for i in (1, 2):
        image(tmp_path / f"images/{i}.jpg", seed=i)
    coco(tmp_path / "x.json", {1: ("1.jpg", 64, 48)}, [(1, 1, [1, 1, 20, 20], {})], {1: "cat"})
    write(tmp_path / "data.yaml", "train: images\nannotations: {train: x.json}\n")
    code, out, _ = run(capsys, "--data", tmp_path / "data.yaml")
    assert code == 1
    assert "warning: image missing in the COCO file (1)" in out and "no faults, 1 warning\n" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--data", "missing.yaml"], "missing.yaml"),
        ([], "--data"),
        (["--data", "{data}", "--splits", "vla"], "did you mean 'val'"),
        (["--data", "{data}", "--plot", "labels.txt"], "end the name in .jpg"),
        (["--data", "{data}", "--plots", "x.jpg"], "did you mean '--plot'"),
    ],
)
def test_bad_usage_is_code_2(capsys, data, args, message):
    code, _, err = run(capsys, *(arg.format(data=data) for arg in args))
    assert code == 2
    assert message in err
