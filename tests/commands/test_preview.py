"""`yolofast preview` as a user types it."""

import cv2
import numpy as np
import pytest

from yolofast.cli import main
from yolofast.commands.preview import _colour as preview_colour
from yolofast.evaluate.mosaic_picture import ink_on, stable_colour
from yolofast.resources import find_resource


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Six dark pictures with one box each."""
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    for kind in ("images", "labels"):
        (tmp_path / kind / "train").mkdir(parents=True)
    for number in range(6):
        image = np.random.default_rng(number).integers(0, 60, (60, 80, 3), np.uint8)
        cv2.imwrite(str(tmp_path / f"images/train/{number}.png"), image)
        (tmp_path / f"labels/train/{number}.txt").write_text(f"{number % 2} 0.5 0.5 0.6 0.6\n")
    yaml = tmp_path / "data.yaml"
    yaml.write_text("path: .\ntrain: images/train\nval: images/train\nnc: 2\nnames: [cat, dog]\n")
    return yaml


def run(capsys, *args):
    try:
        code = main(["preview", *map(str, args)])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def picture(path):
    return cv2.imread(str(path))


def test_draws_a_grid(capsys, data, tmp_path):
    out = tmp_path / "new folder" / "preview.png"
    code, said, err = run(capsys, "--data", data, "--out", out, "--img", 96, "--n", 5)
    assert code == 0, err
    assert "5 images of epoch 0 with " in said and str(out) in said
    image = picture(out)
    side = 2 * 96 + 4
    assert image.shape == (2 * side + 4, 3 * side + 4, 3), "three columns, two rows, twice as large"
    assert (image[side + 4 :, 2 * side + 4 :] == 255).all(), "the sixth place stays empty"
    assert not list(out.parent.glob("*.tmp"))


def test_boxes_are_drawn_where_the_objects_are(capsys, data, tmp_path):
    """Without any augmentation: a frame around the middle of the letterboxed picture."""
    hyp = tmp_path / "still.yaml"
    still = ("mosaic", "translate", "scale", "fliplr", "hsv_h", "hsv_s", "hsv_v", "paste_in")
    hyp.write_text("".join(f"{key}: 0\n" for key in still))
    out = tmp_path / "preview.png"
    code, said, _ = run(capsys, "--data", data, "--out", out, "--img", 80, "--n", 1, "--hyp", hyp, "--seed", 2)
    assert code == 0
    assert "1 images of epoch 0 with 1 boxes" in said
    shown = picture(out)
    assert shown.shape == (3 * 80 + 8, 3 * 80 + 8, 3), "small images are shown three times as large"
    bright = shown[5:245:3, 5:245:3].max(axis=-1) > 200
    # The scale is up to a tenth larger in YOLOv7's recipe, even with a spread of 0.
    for x, y in ((16, 40), (64, 40), (40, 58)):
        assert bright[y - 4 : y + 5, x - 4 : x + 5].any(), "left, right and lower edge of the frame"
    assert not bright[40:50, 25:55].any(), "nothing in the middle"


@pytest.mark.slow
def test_the_same_picture_every_time_and_another_for_another_seed_or_epoch(capsys, data, tmp_path):
    first, again, seed, epoch = (tmp_path / f"{name}.png" for name in ("first", "again", "seed", "epoch"))
    for out, more in ((first, ()), (again, ()), (seed, ("--seed", 1)), (epoch, ("--epoch", 1))):
        assert run(capsys, "--data", data, "--out", out, "--img", 64, "--n", 4, *more)[0] == 0
    assert first.read_bytes() == again.read_bytes()
    assert first.read_bytes() != seed.read_bytes()
    assert first.read_bytes() != epoch.read_bytes()


@pytest.mark.parametrize("more", [("--style", "yolox"), ("--hyp", "hyp.scratch.p5"), ("--img", 48, 96)])
def test_other_recipes_and_shapes(capsys, data, tmp_path, more):
    out = tmp_path / "preview.jpg"
    code, _, err = run(capsys, "--data", data, "--out", out, *(() if "--img" in more else ("--img", 64)), *more)
    assert code == 0, err
    height, width = (48, 96) if "--img" in more else (64, 64)
    height, width = ((times := 256 // max(height, width)) * height, times * width)
    assert picture(out).shape == (2 * (height + 4) + 4, 3 * (width + 4) + 4, 3), "six images, not more than there are"


@pytest.mark.parametrize("label", range(40))
def test_names_can_be_read_on_every_colour(label):
    """By the contrast that web pages are held to: at least 4.5."""

    def luminance(colour):
        shares = [(level / 255) ** 2.2 for level in colour]
        return 0.0722 * shares[0] + 0.7152 * shares[1] + 0.2126 * shares[2]

    for colour in (preview_colour(label), stable_colour(label)):
        low, high = sorted((luminance(colour), luminance(ink_on(colour))))
        assert (high + 0.05) / (low + 0.05) >= 4.5, colour


@pytest.mark.slow
def test_large_pictures_are_made_smaller(capsys, data, tmp_path):
    out = tmp_path / "preview.jpg"
    assert run(capsys, "--data", data, "--out", out, "--img", 1280, "--n", 5)[0] == 0
    assert picture(out).shape[1] <= 2560 + 16


def test_the_default_recipe_is_packaged():
    assert find_resource("data/hyp.scratch.tiny.yaml", "hyp").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--out", "p.gif"), "end the name in .jpg"),
        (("--n", 0), "--n is 0"),
        (("--n", 10**6), "1 to 400"),
        (("--seed", -1), "--seed is -1"),
        (("--epoch", -1), "--epoch -1"),
        (("--style", "yolov5"), "did you mean 'yolov7'"),
        (("--style", "yolox", "--hyp", "x.yaml"), "omit --hyp"),
        (("--hyp", "nowhere.yaml"), "no such file"),
        (("--split", "test"), "there is no split 'test'"),
        (("--data", "nowhere.yaml"), "no such file"),
    ],
)
def test_mistakes(capsys, data, tmp_path, more, message):
    before = set(tmp_path.iterdir())
    code, _, err = run(capsys, "--data", data, "--out", tmp_path / "preview.jpg", *more)
    assert code == 2
    assert message in err
    assert set(tmp_path.iterdir()) - before <= {tmp_path / "cache", tmp_path / ".yolofast"}


def test_a_bad_hyper_parameter_is_named_with_its_line(capsys, data, tmp_path):
    hyp = tmp_path / "hyp.yaml"
    hyp.write_text("lr0: 0.01\nmosaic: 1.0\nfliplr: 1.5\n")
    code, _, err = run(capsys, "--data", data, "--out", tmp_path / "preview.jpg", "--hyp", hyp)
    assert code == 2
    assert f"{hyp}:3: fliplr is 1.5" in err
    assert "from 0 to 1" in err


def test_a_misspelt_hyper_parameter_is_named_with_its_line(capsys, data, tmp_path):
    hyp = tmp_path / "hyp.yaml"
    hyp.write_text("lr0: 0.01\nmosaik: 1.0\n")
    code, _, err = run(capsys, "--data", data, "--out", tmp_path / "preview.jpg", "--hyp", hyp)
    assert code == 2
    assert f"{hyp}:2: there is no hyper-parameter 'mosaik', did you mean 'mosaic'?" in err
    assert not (tmp_path / "preview.jpg").exists()


@pytest.mark.slow
def test_what_a_file_does_not_name_is_as_in_training(capsys, data, tmp_path):
    hyp = tmp_path / "hyp.yaml"
    pictures = []
    for name, text in (("default", ""), ("one key", "lr0: 0.5\n"), ("another", "fliplr: 1.0\n")):
        hyp.write_text(text or "mosaic: 1.0\n")  # the value of yolov7-tiny
        out = tmp_path / f"{name}.png"
        given = ("--hyp", hyp) if text else ()
        assert run(capsys, "--data", data, "--out", out, "--img", 64, "--n", 4, *given)[0] == 0
        pictures.append(out.read_bytes())
    assert pictures[0] == pictures[1] != pictures[2]
