"""`yolofast predict` as typed, on pictures and videos."""

import json
import os
import re
import signal
import threading

import cv2
import pytest

from tests.detect.seeing import picture, save_seeing, save_video, video_facts
from tests.patience import wait_until
from yolofast import Detector
from yolofast.cli import main
from yolofast.commands.predict import _Totals
from yolofast.evaluate.result_files import category_ids, image_id
from yolofast.structures import Detections


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return save_seeing(tmp_path_factory.mktemp("weights") / "some.pt", img_size=64)


def predict(weights, source, project, *more):
    words = ["--weights", str(weights), "--source", str(source), "--project", str(project), "--device", "cpu"]
    return main(["predict", *words, "--conf", "0.05", "--max-det", "5", *more])


@pytest.mark.slow
def test_a_video_becomes_a_video(weights, tmp_path, capsys):
    video = save_video(tmp_path / "street.mp4", frames=7, fps=12)
    assert predict(weights, video, tmp_path / "out", "--save-txt", "--save-json", "--batch-size", "3") == 0
    count, fps = video_facts(tmp_path / "out" / "exp" / "street.mp4")
    assert count == 7 and fps == pytest.approx(12)
    assert "street.mp4 7/7: " in capsys.readouterr().out
    labels = sorted(p.name for p in (tmp_path / "out" / "exp" / "labels").iterdir())
    assert labels == [f"street_{n}.txt" for n in range(7)]
    rows = json.loads((tmp_path / "out" / "exp" / "predictions.json").read_text())
    assert {row["frame"] for row in rows} == set(range(7))
    assert predict(weights, video, tmp_path / "thin", "--vid-stride", "3") == 0
    assert video_facts(tmp_path / "thin" / "exp" / "street.mp4") == (3, pytest.approx(4))


def test_pictures_of_one_name_are_distinguished_and_damaged_ones_named(weights, tmp_path, capfd):
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        cv2.imwrite(str(tmp_path / place / "street.png"), picture(ord(place)))
    (tmp_path / "b" / "torn.png").write_bytes(b"nothing")
    (tmp_path / "b" / "torn.mp4").write_bytes(b"nothing")
    assert predict(weights, tmp_path / "*" / "*.*", tmp_path / "out") == 0
    made = sorted(p.name for p in (tmp_path / "out" / "exp").iterdir())
    assert made == ["street.jpg", "street_2.jpg"]
    said = capfd.readouterr()
    assert said.out.count("warning: ") == 2 and "2 sources could not be read" in said.out and not said.err


def test_nothing_readable_is_an_error_that_leaves_nothing_behind(weights, tmp_path, capsys):
    (tmp_path / "torn.png").write_bytes(b"nothing")
    assert predict(weights, tmp_path / "torn.png", tmp_path / "out") == 2
    assert "torn.png: nothing could be read" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_the_end_sums_up(weights, tmp_path, capsys):
    for number in range(3):
        cv2.imwrite(str(tmp_path / f"{number}.png"), picture(number))
    assert predict(weights, tmp_path, tmp_path / "out", "--save-json") == 0
    boxes = len(json.loads((tmp_path / "out" / "exp" / "predictions.json").read_text()))
    said = capsys.readouterr().out
    assert re.search(rf"^3 images, {boxes} boxes, [\d.]+ ms each, reading", said, re.MULTILINE)
    assert "highest" not in said


@pytest.mark.slow
def test_nothing_found_says_how_near_it_came(weights, tmp_path, capsys):
    for number in range(2):
        cv2.imwrite(str(tmp_path / f"{number}.png"), picture(number))
    highest = max(found.scores[0] for found in Detector(weights, device="cpu").predict(tmp_path, conf=0.01))
    assert predict(weights, tmp_path, tmp_path / "out", "--conf", "0.99", "--nosave") == 0
    said = capsys.readouterr().out
    assert "2 images, 0 boxes" in said
    assert f"nothing has a score above 0.99; the highest was {highest:.2g}; --conf {0.9 * highest:.2g} would" in said
    (cow,) = Detector(weights, device="cpu").predict(tmp_path / "0.png", conf=0.0001, classes="cow", most=1)
    assert predict(weights, tmp_path / "0.png", tmp_path / "out", "--conf", "0.99", "--classes", "cow", "--nosave") == 0
    assert f"the highest was {cow.scores[0]:.2g}" in capsys.readouterr().out


def test_a_folder_of_folders_names_them(weights, tmp_path, capsys):
    (tmp_path / "images" / "val").mkdir(parents=True)
    cv2.imwrite(str(tmp_path / "images" / "val" / "a.png"), picture(0))
    assert predict(weights, tmp_path / "images", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "holds no image itself, but its folders do: val" in said
    glob = re.search(r"all below: '(.*)'", said)[1]
    assert predict(weights, glob, tmp_path / "out") == 0 and "1 image, " in capsys.readouterr().out


@pytest.mark.slow
def test_an_interrupted_video_can_be_played(weights, tmp_path):
    video = save_video(tmp_path / "long.mp4", frames=4000)
    target = tmp_path / "out" / "exp" / "long.mp4"

    def interrupt():
        wait_until(
            lambda: any(part.stat().st_size > 1000 for part in target.parent.glob(".long.mp4.*.tmp.mp4"))
        )  # more than one without pictures has
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    assert predict(weights, video, tmp_path / "out", "--save-coco") == 130
    count, _ = video_facts(target)
    assert 0 < count < 4000
    assert json.loads((tmp_path / "out" / "exp" / "coco_predictions.json").read_text())


def test_coco_results_crops_and_no_window(weights, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    cv2.imwrite(str(tmp_path / "000042.png"), picture(1))
    flags = ("--save-coco", "--save-crop", "--view-img", "--augment", "--line-width", "3", "--update", "--no-trace")
    assert predict(weights, tmp_path / "000042.png", tmp_path / "out", *flags) == 0
    assert "--view-img shows nothing" in capsys.readouterr().out
    rows = json.loads((tmp_path / "out" / "exp" / "coco_predictions.json").read_text())
    assert len(rows) == 5 and set(rows[0]) == {"image_id", "category_id", "bbox", "score"}
    assert {row["image_id"] for row in rows} == {42} and {row["category_id"] for row in rows} <= {0, 1, 2}
    assert len(list((tmp_path / "out" / "exp" / "crops").rglob("*.jpg"))) == 5


@pytest.mark.slow
def test_several_networks_form_an_ensemble(weights, tmp_path, capsys):
    cv2.imwrite(str(tmp_path / "a.png"), picture(1))
    other = save_seeing(tmp_path / "other.pt", img_size=64, seed=1)
    scores = {}
    for name, files in {"one": [weights], "two": [other], "both": [weights, other]}.items():
        words = [word for file in files for word in [str(file)]]
        more = ["--save-json", "--device", "cpu", "--conf", "0", "--max-det", "1", "--project", str(tmp_path / name)]
        assert main(["predict", "--weights", *words, "--source", str(tmp_path / "a.png"), *more]) == 0
        scores[name] = json.loads((tmp_path / name / "exp" / "predictions.json").read_text())[0]["score"]
    assert scores["both"] == pytest.approx(max(scores["one"], scores["two"]), abs=1e-4)
    stranger = save_seeing(tmp_path / "stranger.pt", names=("a", "b", "c"))
    assert main(["predict", "--weights", str(weights), str(stranger), "--source", str(tmp_path / "a.png")]) == 2
    assert "has other classes" in capsys.readouterr().err


def test_numbers_of_a_coco_file():
    from yolofast.files.yaml_file import read_yaml
    from yolofast.resources import find_resource

    names = read_yaml(find_resource("data/coco.yaml", "data")).values["names"]
    coco = category_ids(tuple(names.values() if isinstance(names, dict) else names))
    assert len(coco) == 80 and coco[0] == 1 and coco[11] == 13 and coco[79] == 90
    assert category_ids(("cat", "dog")) == [0, 1]
    assert image_id("000000397133") == 397133 and image_id("street_3") == "street_3"


@pytest.mark.parametrize("highest", [0.0017, 0.0111, 0.0249, 0.2])
def test_the_conf_that_is_named_shows_what_was_seen(highest):
    totals = _Totals(None)
    totals.add(Detections.none())
    totals._highest = highest
    assert 0.5 * highest < float(totals.in_words(0.25).split("--conf ")[1].split()[0]) < highest
