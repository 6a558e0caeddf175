"""What only decoding and comparing show, one kind of fault at a time, in an otherwise clean data set."""

import os
import zlib

import pytest

from tests.dataset.make import coco, damaged_png, encoded, image, png_chunk, tiff, write
from yolofast.dataset.check import check_data
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.split import read_split
from yolofast.errors import UserError


@pytest.fixture
def clean(tmp_path):
    for split, seeds in (("train", (1, 2)), ("val", (3,))):
        for seed in seeds:
            image(tmp_path / f"images/{split}/{seed}.jpg", seed=seed)
            write(tmp_path / f"labels/{split}/{seed}.txt", "0 .5 .5 .5 .5\n")
    write(tmp_path / "data.yaml", "train: images/train\nval: images/val\nnames: [cat]\n")
    return tmp_path


def faults_of(folder, **options):
    return [fault for split in check_data(folder / "data.yaml", **options) for fault in split.faults]


def test_a_clean_set_has_no_faults_and_nothing_is_written(clean):
    assert faults_of(clean) == []
    assert not (clean / ".yolofast").exists()


def test_progress_counts_every_image(clean):
    heard = []
    check_data(clean / "data.yaml", done=lambda more, total: heard.append((more, total)))
    assert sum(more for more, _ in heard) == 3
    assert {total for _, total in heard} == {3}


def test_damage_is_reported_once(clean):
    (clean / "images/train/1.jpg").write_bytes(encoded(seed=1)[:-60])
    (fault,) = faults_of(clean)
    assert (fault.kind, fault.fatal) == (FaultKind.TRUNCATED, True)


def test_damage_that_only_decoding_shows(clean):
    (clean / "images/train/4.png").write_bytes(damaged_png())
    write(clean / "labels/train/4.txt", "")
    (fault,) = faults_of(clean)
    assert (fault.kind, fault.fatal) == (FaultKind.UNREADABLE, True)


def test_decoders_say_nothing_themselves(clean, capfd):
    """Each of these makes OpenCV, or a library inside it, write to the process's standard error."""
    png = encoded(".png", 64, 48)
    short_stream = zlib.compress(bytes(2000))
    broken = {
        "a.tiff": tiff(64, 48, 1, bytes(100)),
        "b.webp": encoded(".webp", 200, 150)[:200],
        "c.png": png[:33] + png_chunk(b"IDAT", short_stream) + png_chunk(b"IEND", b""),
        "d.jpg": encoded(width=200, height=150)[:700] + b"\xff\xd9",
    }
    for name, content in broken.items():
        (clean / "images/train" / name).write_bytes(content)
    faulty = {fault.where.rpartition("/")[2] for fault in faults_of(clean) if fault.fatal}
    assert faulty >= {"a.tiff", "b.webp", "c.png"}
    read_split(clean / "data.yaml", skip_bad=True, cache=False)
    assert capfd.readouterr().err == ""
    os.write(2, b"still here")
    assert capfd.readouterr().err == "still here"


def test_a_gif_with_labels_is_named(clean):
    (clean / "images/train/9.gif").write_bytes(b"GIF89a")
    (clean / "images/train/logo.gif").write_bytes(b"GIF89a")  # no labels: may be anything
    write(clean / "labels/train/9.txt", "0 .5 .5 .5 .5")
    (fault,) = faults_of(clean)
    assert (fault.kind, fault.fatal) == (FaultKind.UNSUPPORTED, False)
    assert fault.where.endswith("9.gif") and "GIF is not supported" in fault.what and "convert" in fault.fix


def test_a_label_without_image_and_an_image_without_label(clean):
    write(clean / "labels/train/9.txt", "0 .5 .5 .5 .5")
    (clean / "labels/train/2.txt").unlink()
    faults = faults_of(clean)
    assert [(fault.kind, fault.fatal) for fault in faults] == [(FaultKind.NO_LABEL, False), (FaultKind.NO_IMAGE, False)]
    assert faults[1].where == str(clean / "labels/train/9.txt")


def test_an_image_that_another_split_lists_is_no_stranger(clean):
    write(clean / "train.txt", "./images/train/1.jpg\n")
    write(clean / "val.txt", "./images/train/2.jpg\n")
    write(clean / "data.yaml", "train: train.txt\nval: val.txt\nnames: [cat]\n")
    assert faults_of(clean) == []


def test_text_files_next_to_images_may_be_anything(tmp_path):
    image(tmp_path / "pics/1.jpg")
    write(tmp_path / "pics/1.txt", "0 .5 .5 .5 .5")
    write(tmp_path / "pics/classes.txt", "cat")
    write(tmp_path / "data.yaml", "train: pics\nnames: [cat]\n")
    assert faults_of(tmp_path) == []


def test_an_image_the_coco_file_does_not_list(tmp_path):
    image(tmp_path / "images/1.jpg", seed=1)
    image(tmp_path / "images/2.jpg", seed=2)
    coco(tmp_path / "x.json", {1: ("1.jpg", 64, 48)}, [(1, 1, [1, 1, 20, 20], {})], {1: "cat"})
    write(tmp_path / "data.yaml", "train: images\nannotations: {train: x.json}\n")
    (fault,) = faults_of(tmp_path)
    kind = FaultKind.NOT_IN_ANNOTATIONS
    assert (fault.kind, fault.where, fault.fatal) == (kind, str(tmp_path / "images/2.jpg"), False)


def test_the_same_bytes_in_two_splits_are_leakage(clean):
    (clean / "images/val/other.jpg").write_bytes((clean / "images/train/2.jpg").read_bytes())
    write(clean / "labels/val/other.txt", "0 .5 .5 .5 .5")
    (fault,) = faults_of(clean)
    assert (fault.kind, fault.fatal) == (FaultKind.LEAKAGE, True)
    assert fault.where.endswith("val/other.jpg") and "train/2.jpg" in fault.what


def test_a_file_listed_in_two_splits_is_leakage(clean):
    write(clean / "val.txt", "./images/val/3.jpg\n./images/train/1.jpg\n")
    write(clean / "data.yaml", "train: images/train\nval: val.txt\nnames: [cat]\n")
    (fault,) = faults_of(clean)
    assert (fault.kind, fault.fatal) == (FaultKind.LEAKAGE, True)


def test_naming_one_folder_twice_is_a_choice(clean):
    write(clean / "data.yaml", "train: images/train\nval: images/train\nnames: [cat]\n")
    (fault,) = faults_of(clean)
    assert (fault.kind, fault.fatal, fault.line) == (FaultKind.LEAKAGE, False, 2)


def test_one_missing_split_does_not_hide_the_others(clean):
    write(clean / "data.yaml", "train: images/nowhere\nval: images/val\ntest: images/gone\nnames: [cat]\n")
    train, val, test = check_data(clean / "data.yaml")
    assert train.index is None and test.index is None and len(val.index) == 1
    assert [fault.fatal for fault in (*train.faults, *test.faults)] == [True, False]  # a test split is optional
    assert {fault.kind for fault in (*train.faults, *test.faults)} == {FaultKind.EMPTY_SPLIT}


def test_splits_can_be_chosen(clean):
    assert [split.name for split in check_data(clean / "data.yaml", ["val"])] == ["val"]
    with pytest.raises(UserError, match="did you mean 'train'"):
        check_data(clean / "data.yaml", ["trian"])


@pytest.mark.parametrize(("yaml", "message"), [("nc: 1", "names no split"), ("train: images/train", "neither nc nor")])
def test_a_yaml_that_says_too_little(clean, yaml, message):
    write(clean / "data.yaml", yaml)
    with pytest.raises(UserError, match=message):
        check_data(clean / "data.yaml")
