"""`yolofast pack` as a user types it."""

import os

import cv2
import numpy as np
import pytest

from tests.store.made_up import announcing_png
from yolofast.cli import main


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Five images to train on and two to validate."""
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    for split, count in (("train", 5), ("val", 2)):
        for kind in ("images", "labels"):
            (tmp_path / "set" / kind / split).mkdir(parents=True)
        for number in range(count):
            image = np.random.default_rng(number).integers(0, 255, (40, 80, 3), np.uint8)
            cv2.imwrite(str(tmp_path / f"set/images/{split}/{number}.png"), image)
            (tmp_path / f"set/labels/{split}/{number}.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    yaml = tmp_path / "set" / "data.yaml"
    yaml.write_text("path: .\ntrain: images/train\nval: images/val\nnc: 1\nnames: [thing]\n")
    return yaml


def run(capsys, *args):
    try:
        code = main(["pack", *map(str, args)])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_packs_both_splits_then_finds_them_done(capsys, data):
    code, out, err = run(capsys, "--data", data, "--img", 32, "--workers", 2, "--verify")
    assert code == 0, err
    assert "train: 5 images, 7.7 kB, 5 packed in" in out and "img/s" in out
    assert "val: 2 images, 3.1 kB, 2 packed in" in out
    assert "all 5 checksums are right" in out
    stores = sorted(file.name[:12] for file in (data.parent / ".yolofast").glob("*.pixels"))
    assert stores == ["32x32-area-" + stores[0][11], "32x32-linear"], "val is resized for evaluation"
    code, out, _ = run(capsys, "--data", data, "--img", 32)
    assert code == 0
    assert out.count("already packed") == 2


def test_jpeg_in_a_folder_of_ones_own(capsys, data, tmp_path):
    code, out, err = run(
        capsys, "--data", data, "--img", 24, 32, "--cache", "jpeg", "--splits", "val", "--out", tmp_path / "own"
    )
    assert code == 0, err
    assert "train" not in out
    (store,) = (tmp_path / "own").glob("32x24-area-*.jpeg")
    assert str(store) in out


@pytest.mark.slow
def test_verify_names_the_damaged_image(capsys, data):
    run(capsys, "--data", data, "--img", 32, "--splits", "train")
    (store,) = (data.parent / ".yolofast").glob("*.pixels")
    content = bytearray(store.read_bytes())
    content[2 * 32 * 16 * 3] ^= 1
    store.write_bytes(content)
    code, _, err = run(capsys, "--data", data, "--img", 32, "--splits", "train", "--verify")
    assert code == 2
    assert "1 of 5 stored images are damaged" in err
    assert str(data.parent / "images" / "train" / "2.png") in err
    store.unlink()
    code, out, _ = run(capsys, "--data", data, "--img", 32, "--splits", "train", "--verify")
    assert code == 0, "the fix in the message works"
    assert "all 5 checksums are right" in out


def test_an_image_that_cannot_be_decoded_is_named(capsys, data):
    bad = data.parent / "images" / "train" / "3.png"
    os.truncate(bad, bad.stat().st_size // 2)
    code, _, err = run(capsys, "--data", data, "--img", 32)
    assert code == 2
    assert str(bad) in err


@pytest.mark.parametrize("cache", ["disk", "jpeg"])
def test_an_image_too_large_to_decode_is_named_and_nothing_stays(capsys, data, cache):
    bad = data.parent / "images" / "train" / "3.png"
    bad.write_bytes(announcing_png(60_000, 60_000))
    code, _, err = run(capsys, "--data", data, "--img", 32, "--cache", cache, "--splits", "train")
    assert code == 2
    assert str(bad) in err and "60000×60000" in err and "0.png" not in err
    left = {file.suffix for file in (data.parent / ".yolofast").glob("*")}
    assert not left & {".partial", ".journal", ".index", ".pixels", ".jpeg"}


@pytest.mark.parametrize("workers", [-3, 0, "many"])
def test_a_number_of_workers_that_cannot_be(capsys, data, workers):
    code, _, err = run(capsys, "--data", data, "--img", 32, "--workers", workers)
    assert code == 2
    assert "--workers" in err and ("of at least 1" in err or "invalid int value: 'many'" in err)
    assert not (data.parent / ".yolofast").exists()
