"""A data set edited before `--resume`: said, with the files and the boxes before and after."""

import os
import shutil

import cv2
import numpy as np
import pytest

from tests.train.small_run import shapes_in
from yolofast.dataset import changes
from yolofast.dataset.changes import changes_of, encoded, read_records, record_of
from yolofast.dataset.split import read_split
from yolofast.image_index import ImageIndex


@pytest.fixture
def data(tmp_path):
    return shapes_in(tmp_path / "shapes", 12)


def records(data):
    return {split: record_of(read_split(data, split, cache=False)) for split in ("train", "val")}


def stored(data, path):
    """As a run's folder keeps them."""
    path.write_bytes(encoded(records(data)))
    return read_records(path, ("train", "val"))


def labels_of(data, split="train"):
    return sorted((data.parent / "labels" / split).glob("*.txt"))


def image_of(label):
    return label.parents[2] / "images" / label.parent.name / f"{label.stem}.jpg"


def said(before, data):
    return "\n".join(changes_of(before, records(data)))


@pytest.mark.slow
def test_nothing_is_said_of_what_is_unchanged(data, tmp_path):
    before = stored(data, tmp_path / "images.npz")
    assert changes_of(before, records(data)) == []
    assert before["train"].counts.sum() > 0


def test_boxes_that_were_added_moved_and_given_another_class(data, tmp_path):
    before = stored(data, tmp_path / "images.npz")
    added, moved, other, swapped = labels_of(data)[:4]
    boxes = len(added.read_text().split("\n")) - 1
    added.write_text(added.read_text() + "0 0.5 0.5 0.25 0.25\n")
    moved.write_text(moved.read_text() + "0 0.5 0.5 0.25 0.25\n")
    one = stored(data, tmp_path / "images.npz")
    assert said(before, data).splitlines()[1:] == [
        f"  train: {len(before['train'].names)} images, "
        f"{before['train'].counts.sum():,} → {before['train'].counts.sum() + 2:,} boxes",
        f"    2 images with other labels: {image_of(added)} ({boxes} → {boxes + 1} boxes), {image_of(moved)} "
        f"({len(moved.read_text().splitlines()) - 1} → {len(moved.read_text().splitlines())} boxes)",
    ]
    moved.write_text(moved.read_text().replace("0.5 0.5", "0.5 0.6"))
    other.write_text("1" + other.read_text()[1:] if other.read_text()[0] == "0" else "0" + other.read_text()[1:])
    lines = swapped.read_text().splitlines()
    swapped.write_text("\n".join(reversed([*lines, "0 0.5 0.5 0.25 0.25"])) + "\n")
    words = said(one, data)
    assert "3 images with other labels" in words and f"{image_of(moved)} (" in words and "boxes, other ones)" in words
    assert str(image_of(added)) not in words


def test_images_that_were_added_removed_and_written_again(data, tmp_path):
    before = stored(data, tmp_path / "images.npz")
    gone, again = labels_of(data, "val")[:2]
    new = gone.with_stem("new")
    shutil.copy(gone, new)
    image_of(gone).rename(image_of(new))
    cv2.imwrite(str(image_of(again)), np.full((64, 64, 3), 7, np.uint8))
    words = said(before, data)
    assert f"1 image more: {image_of(new)}\n" in words
    assert f"1 image fewer: {image_of(gone)}\n" in words
    assert f"1 image whose file was written since: {image_of(again)}" in words
    assert "train:" not in words


def test_a_data_set_that_was_moved_has_not_changed(data, tmp_path):
    before = stored(data, tmp_path / "images.npz")
    shutil.copytree(data.parent, tmp_path / "elsewhere", ignore=shutil.ignore_patterns(".yolofast"))
    moved = tmp_path / "elsewhere" / data.name
    moved.write_text(moved.read_text().replace(str(data.parent), str(moved.parent)))
    assert records(moved)["train"].names[0].startswith(os.fsencode(tmp_path / "elsewhere"))
    assert changes_of(before, records(moved)) == []
    first = labels_of(moved)[0]
    first.write_text(first.read_text() + "0 0.5 0.5 0.25 0.25\n")
    assert "1 image with other labels" in said(before, moved)


def test_many_are_counted(data, tmp_path):
    before = stored(data, tmp_path / "images.npz")
    for label in labels_of(data):
        label.write_text("0 0.5 0.5 0.25 0.25\n")
    assert f"and {len(labels_of(data)) - 5} more" in said(before, data)


def index_with(points, starts, box=0.5):
    count = len(starts) - 1
    return ImageIndex(
        names=("a",), files=np.array([b"/none/a.jpg"]), sizes=np.array([[4, 5]]), starts=np.array([0, count]),
        labels=np.zeros(count, np.int64), boxes=np.full((count, 4), box, np.float32),
        points=np.array(points, np.float32).reshape(-1, 2), point_starts=np.array(starts), crowd=np.zeros(count, bool),
        image_ids=np.zeros(1, int), category_ids=np.zeros(1, int),
    )  # fmt: skip


def test_polygons_count():
    seen = {
        int(record_of(index_with(points, starts)).digests[0])
        for points, starts in (([], [0, 0]), ([1, 2, 3, 4], [0, 2]), ([1, 2, 3, 5], [0, 2]), ([1, 2, 3, 4], [0, 1, 2]))
    }
    assert len(seen) == 4


@pytest.mark.parametrize("kind", ["nothing", "text", "cut", "other"])
def test_a_record_that_is_damaged_is_none(data, tmp_path, kind):
    content, path = encoded(records(data)), tmp_path / "images.npz"
    path.write_bytes({"nothing": b"", "text": b"abc"}.get(kind, content[: len(content) // 2]))
    if kind == "other":
        np.savez(path, **{f"{split}.{part}": np.zeros(3) for split in ("train", "val") for part in changes._PARTS})
    assert read_records(path, ("train", "val")) is None
    assert read_records(tmp_path / "none.npz", ("train",)) is None


def test_a_record_that_is_no_file_is_none(tmp_path):
    for name, target in (("zero.npz", "/dev/zero"), ("loop.npz", "loop.npz"), ("folder.npz", tmp_path)):
        (tmp_path / name).symlink_to(target)
        assert read_records(tmp_path / name, ("train",)) is None


def test_a_record_that_would_be_huge_is_neither_written_nor_read(data, tmp_path, monkeypatch):
    path = tmp_path / "images.npz"
    path.write_bytes(encoded(records(data)))
    monkeypatch.setattr(changes, "_MOST_BYTES", 300)
    assert read_records(path, ("train", "val")) is None
    assert encoded(records(data)) == b""
