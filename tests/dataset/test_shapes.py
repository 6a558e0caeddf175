"""The built-in data set: the same everywhere, labels that describe the pixels, and a folder that is whole or absent."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import pytest

from tests.patience import PATIENCE
from tests.programs import Program
from yolofast.dataset.shapes import files as shapes_files
from yolofast.dataset.shapes.files import scene
from yolofast.dataset.shapes.made_once import is_made, make_shapes, shapes_data_yaml
from yolofast.dataset.shapes.outline import FULL, NAMES, rasterise
from yolofast.dataset.shapes.paint import blend
from yolofast.dataset.shapes.scene import LARGEST, LEAST_SIDE, MOST_SHAPES, SIZES, _Canvas
from yolofast.errors import UserError
from yolofast.files.yaml_file import read_yaml


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "shapes"
    assert make_shapes(folder, n=12, seed=3) == folder / "data.yaml"
    return folder


@pytest.fixture(scope="module")
def scenes():
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda number: scene("train", number, 0), range(150)))


def content(folder):
    """Every file but the pictures as bytes, the pictures decoded."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): cv2.imread(str(path)).tobytes() if path.suffix == ".jpg" else path.read_bytes()
        for path in files
    }


def rows_of(path):
    return np.array([[float(field) for field in row.split()] for row in path.read_text().splitlines()]).reshape(-1, 5)


def mask_of(polygons, height, width):
    """Filled at eight times the size, averaged."""
    large = np.zeros((height * 8, width * 8), np.uint8)
    for polygon in polygons:
        cv2.fillPoly(large, [np.rint(np.array(polygon).reshape(-1, 2) * 8 - 0.5).astype(np.int32)], 255)
    return cv2.resize(large, (width, height), interpolation=cv2.INTER_AREA) > 127


def test_layout(made):
    names = set(content(made))
    expected = {"data.yaml", "annotations/instances_train.json", "annotations/instances_val.json"}
    for split, count in (("train", 12), ("val", 2)):
        for i in range(count):
            expected |= {f"images/{split}/{i:06d}.jpg", f"labels/{split}/{i:06d}.txt"}
    assert {name.replace(os.sep, "/") for name in names} == expected
    values = read_yaml(made / "data.yaml").values
    assert values == {"path": ".", "train": "images/train", "val": "images/val", "nc": 8, "names": list(NAMES)}
    assert [path.name for path in made.parent.iterdir()] == ["shapes"], "nothing temporary is left"


@pytest.mark.slow
def test_same_request_same_data_set(made, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # with another number of threads
    make_shapes(tmp_path / "again", n=12, seed=3)
    assert content(tmp_path / "again") == content(made)


def test_pixels_and_labels_are_those_of_version_2():
    """Numbers from the day the version was made: a change in them needs a new version, or caches keep old pictures."""
    drawn = scene("train", 0, 0)
    assert drawn.image.shape == (240, 320, 3)
    assert [(NAMES[shape.label], shape.box) for shape in drawn.shapes[:2]] == [
        ("crescent", (28, 62, 120, 125)),
        ("arrow", (78, 129, 87, 55)),
    ]
    assert int(drawn.image.sum()) == 17_580_891


@pytest.mark.slow
def test_seed_number_and_split_make_other_pictures_and_n_does_not(made, tmp_path):
    make_shapes(tmp_path / "longer", n=14, seed=3)
    longer, shorter = content(tmp_path / "longer"), content(made)
    pictures = [name for name in shorter if name.endswith((".jpg", ".txt"))]
    assert all(longer[name] == shorter[name] for name in pictures)
    several = [scene(*which).image for which in (("train", 0, 3), ("train", 1, 3), ("val", 0, 3), ("train", 0, 4))]
    assert len({image.tobytes() for image in several}) == 4


def test_both_kinds_of_labels_agree(made):
    for split in ("train", "val"):
        coco = json.loads((made / "annotations" / f"instances_{split}.json").read_text())
        assert [category["name"] for category in coco["categories"]] == list(NAMES)
        assert [annotation["id"] for annotation in coco["annotations"]] == list(range(1, len(coco["annotations"]) + 1))
        for image in coco["images"]:
            height, width = cv2.imread(str(made / "images" / split / image["file_name"])).shape[:2]
            assert (image["width"], image["height"]) == (width, height)
            own = [annotation for annotation in coco["annotations"] if annotation["image_id"] == image["id"]]
            rows = rows_of(made / "labels" / split / f"{image['id']:06d}.txt")
            assert [annotation["category_id"] for annotation in own] == rows[:, 0].tolist()
            size = rows[:, 3:] * (width, height)
            corner = rows[:, 1:3] * (width, height) - size / 2
            np.testing.assert_allclose([annotation["bbox"] for annotation in own], np.hstack((corner, size)), atol=1e-3)
            assert all(annotation["iscrowd"] == 0 for annotation in own)


@pytest.mark.slow
def test_boxes_areas_and_polygons_describe_the_same_pixels(scenes):
    ratios = []
    for drawn in scenes:
        height, width = drawn.image.shape[:2]
        for shape in drawn.shapes:
            left, top, box_width, box_height = shape.box
            assert left >= 0 and top >= 0 and left + box_width <= width and top + box_height <= height
            assert min(box_width, box_height) >= LEAST_SIDE
            corners = np.concatenate([np.array(polygon).reshape(-1, 2) for polygon in shape.polygons])
            found = np.concatenate((corners.min(0), corners.max(0)))
            np.testing.assert_allclose(found, (left, top, left + box_width, top + box_height), atol=1)
            filled = mask_of(shape.polygons, height, width).sum()
            # The outline, about 2 (w + h) long, is a quarter of a pixel too far inside and strays by another quarter.
            assert filled >= shape.area - (box_width + box_height)
            if NAMES[shape.label] != "ring":  # polygons have no holes
                ratios.append(filled / shape.area)
    assert 0.97 < np.median(ratios) < 1.01
    assert np.percentile(ratios, 95) < 1.1, "only shapes with others inside them have larger polygons"


def test_the_box_is_tight_around_the_changed_pixels():
    """Without help of our own masks: what differs from the background is the shape."""
    for label in range(len(NAMES)):
        rng = np.random.default_rng(label)
        canvas = _Canvas(np.full((120, 160, 3), 128, np.uint8))
        canvas.add(rng, label, rasterise(label, 60.0, 0.1 * label, 0.9), left=20, top=30)
        changed = np.abs(canvas.image.astype(int) - 128).sum(2) > 0
        rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
        seen = np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])
        (shape,) = canvas.visible_shapes()
        left, top, width, height = shape.box
        # Sharp tips cover less than half of their last pixels.
        assert np.abs(seen - (left, top, left + width, top + height)).max() <= 2
        assert 58 <= max(width, height) <= 60


def test_areas_of_simple_shapes():
    def expected(area, outline):
        return pytest.approx(area, abs=outline / 6)  # outlines are drawn an eighth of a pixel too far out

    solid = {name: (rasterise(i, 100.0, 0.0, 1.0) / FULL).sum() for i, name in enumerate(NAMES)}
    assert solid["circle"] == expected(np.pi * 50**2, np.pi * 100)
    assert solid["square"] == expected(100**2, 400)
    assert solid["ring"] == expected(np.pi * 50**2 * (1 - 0.55**2), np.pi * 155)
    assert solid["cross"] == expected(100**2 * 5 / 9, 400)
    assert solid["triangle"] == expected(100**2 * np.sqrt(3) / 4, 300)
    turned = (rasterise(NAMES.index("square"), 100.0, 0.125, 1.0) / FULL).sum()
    assert turned == expected(100**2 / 2, 283)


def test_a_shape_covers_others_only_so_far():
    square, rng = NAMES.index("square"), np.random.default_rng(0)
    mask = rasterise(square, 50.0, 0.0, 1.0)
    canvas = _Canvas(np.zeros((100, 200, 3), np.uint8))
    canvas.add(rng, square, mask, left=0, top=0)
    assert not canvas.leaves_enough(mask, left=0, top=0)
    assert not canvas.leaves_enough(mask, left=14, top=0), "28 % would be left"
    assert canvas.leaves_enough(mask, left=16, top=0), "32 % are left"
    assert not canvas.leaves_enough(mask, left=186, top=0), "28 % would be inside the picture"
    canvas.add(rng, square, mask, left=16, top=0)
    first, second = canvas.visible_shapes()
    assert first.box == (0, 0, 16, 50)
    assert first.area == 16 * 50
    assert second.box == (16, 0, 50, 50)


def test_pictures_are_varied(scenes):
    assert {drawn.image.shape[1::-1] for drawn in scenes} == set(SIZES)
    counts = [len(drawn.shapes) for drawn in scenes]
    assert min(counts) == 1 and max(counts) == MOST_SHAPES
    per_class = np.bincount([shape.label for drawn in scenes for shape in drawn.shapes], minlength=len(NAMES))
    assert per_class.min() > 0.7 * per_class.mean()
    shares = [max(shape.box[2:]) / min(drawn.image.shape[:2]) for drawn in scenes for shape in drawn.shapes]
    assert min(shares) < 0.2 and 0.5 < max(shares) <= LARGEST + 0.01
    assert 0.25 < np.median(shares) < 0.45, "large enough to be learned from few pictures"


def test_shapes_hide_one_another(scenes):
    """A circle fills π/4 of its box, whatever its stretch and turn allow; one of which much less is seen is covered."""
    circles = [shape for drawn in scenes for shape in drawn.shapes if NAMES[shape.label] == "circle"]
    filled = np.array([shape.area / (shape.box[2] * shape.box[3]) for shape in circles])
    assert 0.05 < (filled < 0.65).mean() < 0.5
    parts = [len(shape.polygons) for drawn in scenes for shape in drawn.shapes]
    assert min(parts) == 1 and max(parts) > 1, "some are cut in two"


def test_specks_do_not_widen_the_box():
    square, rng = NAMES.index("square"), np.random.default_rng(0)
    canvas = _Canvas(np.zeros((100, 200, 3), np.uint8))
    canvas.add(rng, square, rasterise(square, 60.0, 0.0, 1.0), left=10, top=10)
    canvas.owner[:, 40:68] = 0  # as if covered, up to a strip of two columns at the right,
    canvas.owner[:55, 68:] = 0  # 15 rows of which are left
    (shape,) = canvas.visible_shapes()
    assert shape.box == (10, 10, 30, 60), "the strip is 30 of 1830 pixels"


def test_colours_hint_at_the_class_but_do_not_tell_it(scenes):
    """Going by the colour in the middle, one is right far more often than by chance, and often enough wrong."""
    colours, labels = [], []
    for drawn in scenes:
        for shape in drawn.shapes:
            left, top, width, height = shape.box
            colours.append(drawn.image[top + height // 2, left + width // 2].astype(float))
            labels.append(shape.label)
    means = np.array([np.median([c for c, own in zip(colours, labels, strict=True) if own == k], 0) for k in range(8)])
    guesses = np.abs(np.array(colours)[:, None] - means).sum(-1).argmin(1)
    assert 0.3 < (guesses == np.array(labels)).mean() < 0.8


def test_blend():
    under, over = np.uint8([[[0, 100, 255]]]), np.uint8([[[240, 100, 0]]])
    for share, expected in ((0, under), (FULL, over), (FULL // 2, [[[120, 100, 128]]])):
        np.testing.assert_array_equal(blend(under, over, np.uint8([[share]])), expected)


def test_a_finished_data_set_is_not_made_again(made):
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    assert is_made(made, 12, 3)
    assert make_shapes(made, n=12, seed=3) == made / "data.yaml"
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before


def test_what_is_there_is_never_replaced(made, tmp_path):
    with pytest.raises(UserError, match="made with other settings"):
        make_shapes(made, n=12, seed=4)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        make_shapes(tmp_path / "thesis", n=1)
    with pytest.raises(UserError, match="is a file"):
        make_shapes(tmp_path / "thesis" / "chapter.txt", n=1)
    with pytest.raises(UserError, match="could not be written"):
        make_shapes(tmp_path / "thesis" / "chapter.txt" / "below", n=1)
    assert [path.name for path in tmp_path.rglob("*")] == ["thesis", "chapter.txt"]


def test_missing_and_emptied_pictures_are_noticed(tmp_path):
    data_yaml = make_shapes(tmp_path / "shapes", n=2)
    picture = tmp_path / "shapes" / "images" / "train" / "000001.jpg"
    picture.write_bytes(b"")
    with pytest.raises(UserError, match="incomplete"):
        make_shapes(data_yaml.parent, n=2)
    picture.unlink()
    assert not is_made(data_yaml.parent, 2)


def test_an_empty_folder_is_filled_but_not_the_current_one(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    assert make_shapes(tmp_path / "empty", n=1).is_file()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UserError, match="current folder"):
        make_shapes(".", n=1)
    assert make_shapes("inside", n=1) == tmp_path / "here" / "inside" / "data.yaml"


@pytest.mark.parametrize("request_", [{"n": 0}, {"n": -5}, {"n": 10**7}, {"seed": -1}, {"seed": 2**64}])
def test_impossible_requests(request_, tmp_path):
    with pytest.raises(UserError, match="must be from"):
        make_shapes(tmp_path / "out", **request_)
    assert not list(tmp_path.iterdir())


def test_the_largest_seed(tmp_path):
    assert make_shapes(tmp_path / "out", n=1, seed=2**64 - 1).is_file()


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    def full_disk(records):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shapes_files, "_coco", full_disk)
    with pytest.raises(UserError, match="No space left"):
        make_shapes(tmp_path / "out", n=3)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    first = shapes_data_yaml(n=2)
    assert first.is_relative_to(tmp_path / "cache")
    assert shapes_data_yaml(n=2) == first
    assert len({first, shapes_data_yaml(n=3), shapes_data_yaml(n=2, seed=1)}) == 3


@pytest.mark.slow
def test_two_processes_at_once(tmp_path):
    code = "from yolofast.dataset.shapes.made_once import shapes_data_yaml; print(shapes_data_yaml(n=5))"
    environment = {**os.environ, "YOLOFAST_CACHE": str(tmp_path)}
    running = [
        Program([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    printed = {process.communicate(timeout=PATIENCE)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    (folder,) = tmp_path.iterdir()
    assert printed == {str(folder / "data.yaml")}
    assert is_made(folder, 5)


def test_late_to_the_finish(tmp_path, monkeypatch):
    """Another process finishes the same data set while this one is still drawing."""
    write = shapes_files.write_files

    def overtaken(folder, n, seed):
        write(folder, n, seed)
        (tmp_path / "out").mkdir()
        write(tmp_path / "out", n, seed)

    monkeypatch.setattr("yolofast.dataset.shapes.made_once.write_files", overtaken)
    assert make_shapes(tmp_path / "out", n=1).is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
