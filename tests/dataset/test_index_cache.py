"""A cached reading is used while nothing changed, and never when something did."""

import os
import stat
import tracemalloc

import numpy as np
import pytest

from tests.dataset.make import coco, damaged_png, image, write
from yolofast.dataset import image_facts, index_cache, yolo_labels
from yolofast.dataset import split as split_module
from yolofast.dataset.image_facts import Look
from yolofast.dataset.index_cache import Classes
from yolofast.dataset.split import read_split, read_split_report
from yolofast.files.atomic_file import user_cache_folder


@pytest.fixture
def readings(monkeypatch):
    """Counts how often labels are really read."""
    count = []
    for name in ("read_yolo", "read_coco"):
        real = getattr(split_module, name)
        monkeypatch.setattr(split_module, name, lambda *args, real=real: count.append(1) or real(*args))
    return count


@pytest.fixture
def decoded(monkeypatch):
    """Counts the images that are decoded whole."""
    count = []
    real = image_facts.require_decodable
    monkeypatch.setattr(image_facts, "require_decodable", lambda *args: count.append(1) or real(*args))
    return count


def cache_of(root):
    (file,) = (root / ".yolofast").iterdir()
    return file


def same(one, other):
    for name in ("files", "sizes", "starts", "labels", "boxes", "points", "point_starts", "crowd", "image_ids"):
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype, name
        np.testing.assert_array_equal(a, b)
    assert (one.names, one.annotations) == (other.names, other.annotations)


def test_the_second_time_nothing_is_parsed_and_everything_is_the_same(root, readings):
    write(root / "labels/train/c.txt", "1 .1 .2 .3 .2 .3 .6 .1 .6\n1 .1 .2 .3 .2 .3 .6 .1 .6")
    first = read_split_report(root / "data.yaml")
    second = read_split_report(root / "data.yaml")
    assert len(readings) == 1
    same(first.index, second.index)
    assert first.faults == second.faults and len(first.faults) == 2


def test_a_label_changed_within_its_size_and_time_is_seen(root, readings):
    label = root / "labels/train/a.txt"
    before = label.stat()
    assert read_split(root / "data.yaml").labels[0] == 0
    label.write_text(label.read_text().replace("0 .5", "1 .5", 1))
    os.utime(label, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (label.stat().st_size, label.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert read_split(root / "data.yaml").labels[0] == 1
    assert len(readings) == 2


def change_label(root):
    write(root / "labels/train/a.txt", "0 .5 .5 .2 .4")


def add_label(root):
    write(root / "labels/train/b.txt", "1 .5 .5 .2 .4")


def remove_label(root):
    (root / "labels/train/a.txt").unlink()


def add_image(root):
    image(root / "images/train/e.jpg")


def remove_image(root):
    (root / "images/train/c.jpg").unlink()


def change_image(root):
    image(root / "images/train/c.jpg", 40, 30)


def rename_image(root):
    (root / "images/train/c.jpg").rename(root / "images/train/f.jpg")


def change_names(root):
    write(root / "data.yaml", "train: images/train\nnames: [cat, cow]\n")


@pytest.mark.parametrize(
    "change",
    [change_label, add_label, remove_label, add_image, remove_image, change_image, rename_image, change_names],
)
def test_every_change_is_seen(root, readings, change):
    read_split(root / "data.yaml")
    change(root)
    after = read_split(root / "data.yaml")
    assert len(readings) == 2
    same(after, read_split(root / "data.yaml", cache=False))


def test_each_way_of_reading_has_its_own(root, readings):
    for _ in range(2):
        assert len(read_split(root / "data.yaml")) == 4
        assert read_split(root / "data.yaml", single_cls=True).names == ("item",)
        assert len(read_split(root / "data.yaml", fraction=0.5)) == 2
    assert len(readings) == 3
    assert len(list((root / ".yolofast").iterdir())) == 3


def test_every_image_is_decoded_once_until_it_changes(root, decoded, readings):
    (root / "images/train/b.PNG").write_bytes(damaged_png())

    def skipped():
        report = read_split_report(root / "data.yaml", skip_bad=True)
        return [path.name for path in report.skipped]

    assert skipped() == skipped() == ["b.PNG"]
    assert (len(decoded), len(readings)) == (4, 1)
    change_label(root)
    assert skipped() == ["b.PNG"]
    assert (len(decoded), len(readings)) == (4, 2)  # labels are read anew, known images are not
    image(root / "images/train/b.PNG", 40, 30)
    assert skipped() == []
    assert (len(decoded), len(readings)) == (5, 3)
    same(read_split(root / "data.yaml", skip_bad=True), read_split(root / "data.yaml", skip_bad=True, cache=False))


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[: len(b) // 2], lambda b: b[:200] + b"x" * 20 + b[220:]])
def test_a_damaged_cache_is_made_anew_in_silence(root, readings, damage):
    good = read_split(root / "data.yaml")
    file = cache_of(root)
    file.write_bytes(damage(file.read_bytes()))
    same(good, read_split(root / "data.yaml"))
    same(good, read_split(root / "data.yaml"))
    assert len(readings) == 2


def test_a_pickle_is_never_opened(root, tmp_path, readings):
    good = read_split(root / "data.yaml")
    file = cache_of(root)

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    with file.open("wb") as out:
        np.savez(out, about=np.array([Trap()], dtype=object))
    same(good, read_split(root / "data.yaml"))
    assert not (tmp_path / "sprung").exists()


def test_a_folder_marked_read_only_is_left_alone(root, readings):
    mode = root.stat().st_mode
    root.chmod(stat.S_IRUSR | stat.S_IXUSR)  # even an administrator, who could write there, respects it
    try:
        read_split(root / "data.yaml")
        read_split(root / "data.yaml")
    finally:
        root.chmod(mode)
    assert len(readings) == 1
    assert not (root / ".yolofast").exists()
    assert len(list((user_cache_folder() / "index").iterdir())) == 1


def test_nowhere_to_write_is_no_reason_to_fail(root, monkeypatch, readings):
    write(root / ".yolofast", "a file, where the folder would be")
    write(root / "file", "")
    monkeypatch.setenv("YOLOFAST_CACHE", str(root / "file"))
    assert len(read_split(root / "data.yaml")) == 4
    assert len(read_split(root / "data.yaml")) == 4
    assert len(readings) == 2


def test_nothing_temporary_is_left(root):
    read_split(root / "data.yaml")
    assert cache_of(root).name.endswith(".index.npz")


def test_coco_files_are_compared_by_content_too(tmp_path, readings):
    image(tmp_path / "images/a.jpg")
    file = coco(tmp_path / "x.json", {1: ("a.jpg", 64, 48)}, [(1, 5, [0, 0, 32, 24], {})], {5: "cat"})
    write(tmp_path / "data.yaml", "val: x.json")
    before = file.stat()
    first = read_split(tmp_path / "data.yaml", "val")
    same(first, read_split(tmp_path / "data.yaml", "val"))
    assert len(readings) == 1
    file.write_text(file.read_text().replace("[0, 0, 32, 24]", "[0, 0, 16, 24]"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read_split(tmp_path / "data.yaml", "val").boxes[0, 2] == 0.25
    image(tmp_path / "images/a.jpg", 128, 96)
    assert read_split(tmp_path / "data.yaml", "val").sizes.tolist() == [[128, 96]]


def test_read_in_parts_it_is_the_same(root, monkeypatch):
    """Boxes, polygons, faults and the key, whatever the number of images that are read at a time."""
    write(root / "labels/train/c.txt", "1 .1 .2 .3 .2 .3 .6 .1 .6\n1 .1 .2 .3 .2 .3 .6 .1 .6")
    for number in range(5):
        image(root / f"images/train/more{number}.png")
        write(root / f"labels/train/more{number}.txt", f"0 .5 .5 .2 .{number + 1}\n" * (number % 3))
    whole = read_split_report(root / "data.yaml")
    (root / ".yolofast").rename(root / "kept")
    monkeypatch.setattr("yolofast.dataset.index_cache.CHUNK", 2)
    monkeypatch.setattr("yolofast.dataset.yolo_labels.CHUNK", 2)
    parts = read_split_report(root / "data.yaml")
    same(whole.index, parts.index)
    assert whole.faults == parts.faults
    folders = (root / ".yolofast", root / "kept")
    keys = [index_cache._decode(next(folder.iterdir()).open("rb")).key for folder in folders]
    assert len(set(keys)) == 1


def test_an_index_that_is_trusted_is_not_compared(root, readings):
    read_split(root / "data.yaml", trust=True)
    assert len(readings) == 1, "there was none yet"
    write(root / "labels/train/a.txt", "1 .5 .5 .9 .9")
    (root / "images/train").rename(root / "away")
    trusted = read_split(root / "data.yaml", trust=True)
    assert len(readings) == 1 and trusted.labels[0] == 0
    (root / "away").rename(root / "images/train")
    assert read_split(root / "data.yaml").labels[0] == 1


@pytest.mark.slow
def test_a_reading_holds_little_more_than_it_keeps(tmp_path, monkeypatch):
    """Of a million images the peak counts: here of three thousand, read in parts of a hundred."""
    images, count = [str(tmp_path / f"{number:05}.jpg") for number in range(3000)], 15
    text = "".join(f"{box} .5 .5 .{box + 1:02} .3\n" for box in range(count))
    monkeypatch.setattr(yolo_labels, "CHUNK", 100)
    monkeypatch.setattr(yolo_labels, "file_stamps", lambda images: np.ones((len(images), 2), np.int64))
    monkeypatch.setattr(
        yolo_labels, "read_image_facts", lambda images, *_: (np.full((len(images), 2), 640, np.int64), [])
    )
    rows = lambda image, nc: (b"digest", yolo_labels.parse_labels(text, nc, image, image))  # noqa: E731
    monkeypatch.setattr(yolo_labels, "_read_label_file", rows)
    classes = Classes(tuple(map(str, range(count))), np.arange(count))
    tracemalloc.start()
    try:
        index = yolo_labels.read_yolo(images, classes, False, "", Look()).index
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(index.labels) == count * len(images)
    assert peak / len(images) < 1500, "8 kB when all rows were kept"
