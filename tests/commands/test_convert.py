"""`yolofast convert` of labelled images, as a user types it."""

import json
import os
import shlex

import pytest

from tests.dataset.formats import samples
from tests.dataset.make import write
from yolofast.cli import main


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def call(words):
        try:
            code = main(shlex.split(words))
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_what_was_left_out_is_said_and_the_next_command(run, tmp_path):
    samples.visdrone(tmp_path / "drone")
    code, out, err = run(
        "convert drone --from visdrone --to coco --out made --map car=vehicle van=vehicle --names vehicle"
    )
    assert (code, err) == (0, "")
    for line in (
        "read: 3 images of VisDrone labels",
        "left out: ignored regions (1)",
        "left out: objects of the category others (1)",
        "COCO JSON, 3 images, 1 class\n",
        "check --data made/data.yaml",
    ):
        assert line in out
    assert ["0", "vehicle", "2", "1"] in [line.split() for line in out.splitlines()]
    report = json.loads((tmp_path / "made/conversion.json").read_text())
    assert report["splits"]["train"] == {
        "images": 2,
        "boxes": 2,
        "outlines": 0,
        "background": 1,
        "classes": {"vehicle": 2},
    }
    assert run("check --data made")[0] == 0


@pytest.mark.slow
def test_images_are_linked_or_copied(run, tmp_path):
    samples.voc(tmp_path / "voc")
    assert run("convert voc --out linked")[0] == run("convert voc --out copied --copy")[0] == 0
    assert os.path.realpath(tmp_path / "linked/images/train/a.jpg") == str(tmp_path / "voc/JPEGImages/a.jpg")
    assert not (tmp_path / "copied/images/train/a.jpg").is_symlink()


def test_skip_bad_lists_what_it_leaves_out(run, tmp_path):
    samples.voc(tmp_path / "voc")
    path = tmp_path / "voc/Annotations/a.xml"
    write(path, path.read_text().replace("<xmax>24<", "<xmax>4<"))
    code, _, err = run("convert voc --out made")
    assert code == 2 and f"{path}:5: the box ends before it begins" in err and "--skip-bad" in err
    assert not (tmp_path / "made").exists()
    code, out, _ = run("convert voc --out made --skip-bad")
    assert code == 0 and f"left out: impossible box (1)\n  {path}:5:" in out


def test_classes_from_a_file(run, tmp_path):
    samples.voc(tmp_path / "voc")
    write(tmp_path / "map.yaml", "cat: pet\ndog:\n")
    assert run("convert voc --out made --map map.yaml")[0] == 0
    assert "names: [pet]" in (tmp_path / "made/data.yaml").read_text()
    write(tmp_path / "map.yaml", "cat: [1]\n")
    code, _, err = run("convert voc --out again --map map.yaml")
    assert code == 2 and "map.yaml:1: 'cat': [1] are not two names" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("convert --out x", "convert needs SOURCE"),
        ("convert voc --from vco --out x", "did you mean 'voc'"),
        ("convert voc --from voc --to mot --out x", "--to is mot, which images are not converted to"),
        ("convert voc --from voc --to voc --out x", "invalid choice: 'voc'"),
        ("convert voc --from voc --kind results --out x", "--kind is not for images, but for sequences"),
        ("convert voc --to mot --group video --out x", "--group is not for sequences, but for images"),
        ("convert voc --from nuscenes --root x --out x", "is not for tables"),
        ("convert --from nuscenes --root x --copy --out x", "--copy is not for tables, but for images"),
        ("convert voc --drop hard --out x", "--drop is hard"),
        ("convert voc --map cat --out x", "--map is 'cat'"),
        ("convert voc --map cta=x --out x", "did you mean 'cat'"),
        ("convert voc --split trian=1 --out x", "did you mean 'train'"),
        ("convert voc --images nowhere --out x", "nowhere: is not a folder"),
        ("convert vco --out x", "did you mean 'voc'"),
        ("convert voc --out voc", "is not empty"),
        ("convert voc --from labelme --out x", "holds no labels of LabelMe JSON for 3 images"),
    ],
)
def test_mistakes(run, tmp_path, words, message):
    samples.voc(tmp_path / "voc")
    code, out, err = run(words)
    assert code == 2 and message in err, out + err
    assert sorted(os.listdir(tmp_path)) == ["voc"]


def test_sequences_become_a_data_set_without_leaks(run, tmp_path):
    """MOTChallenge to COCO with videos, that to YOLO: every video is in one split."""
    assert run("dataset shapes-video --out moving --sequences 3 --frames 2 --size 96x64")[0] == 0
    assert run("convert moving --to coco-video --out moving.json")[0] == 0
    code, _, err = run("convert moving.json --from coco --to yolo --out made --images moving")
    assert code == 0, err

    def videos(split):
        links = (tmp_path / f"made/images/{split}").rglob("*.jpg")
        return {os.path.realpath(link).split(os.sep)[-3] for link in links}

    assert (len(videos("train")), len(videos("val"))) == (2, 1) and not videos("train") & videos("val")
