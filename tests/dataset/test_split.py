"""A split from its data yaml to the index: what is read, what is refused and what is skipped."""

import json
import os
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataset.make import damaged_png, encoded, image, png_of_many_pixels, with_exif, write
from tests.sample_data import sample
from yolofast.dataset.data_yaml import label_path
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.split import inspect_split, read_split, read_split_report
from yolofast.errors import UserError


def names_of(index):
    return [index.path(i).name for i in range(len(index))]


def test_a_folder_is_read_with_everything_below_it(root):
    index = read_split(root / "data.yaml")
    assert names_of(index) == ["a.jpg", "b.PNG", "c.jpg", "d.jpg"]
    assert index.image_of_box().tolist() == [0, 0, 3]  # b has no label file, c an empty one: both background
    assert index.labels.tolist() == [0, 1, 1]
    np.testing.assert_array_equal(index.boxes[1], np.float32([0.25, 0.25, 0.5, 0.5]))
    assert index.names == ("cat", "dog")
    assert index.sizes.tolist() == [[64, 48]] * 4
    assert index.path(0).is_absolute()
    assert not index.crowd.any() and len(index.points) == 0
    assert index.category_ids.tolist() == [0, 1]
    assert index.image_ids.tolist() == [0, 1, 2, 3]
    assert index.annotations is None


@pytest.mark.parametrize(
    "yaml",
    [
        "train: images/train",  # below the yaml's folder, the current one having no such entry
        "train: set/images/train",  # below the current folder
        "path: .\ntrain: images/train",  # `.` is the yaml's own folder
        "path: set\ntrain: images/train",  # no set/set: below the current folder
        "path: {root}\ntrain: images/train",
        "path: /nowhere\ntrain: {root}/images/train",  # absolute entries ignore `path`
        "train: list.txt",
        "train: [images/train/deeper, list_of_abc.txt]",
    ],
)
def test_every_way_to_name_the_images(root, yaml):
    write(root / "list.txt", "./images/train/a.jpg\n\n./images/train/b.PNG\nset/images/train/c.jpg\r\n")
    with (root / "list.txt").open("a") as file:
        file.write(f"{root}/images/train/deeper/d.jpg")  # no newline at the end
    write(root / "list_of_abc.txt", "".join(f"images/train/{name}\n" for name in ("a.jpg", "b.PNG", "c.jpg")))
    write(root / "data.yaml", yaml.format(root=root) + "\nnc: 2\n")
    index = read_split(root / "data.yaml")
    assert sorted(names_of(index)) == ["a.jpg", "b.PNG", "c.jpg", "d.jpg"]
    assert len(index.labels) == 3


def test_a_list_may_start_with_a_byte_order_mark(root):
    (root / "list.txt").write_bytes(b"\xef\xbb\xbf./images/train/a.jpg\n")
    (root / "labels" / "train" / "a.txt").write_bytes(b"\xef\xbb\xbf0 .5 .5 .5 .5\n")
    write(root / "data.yaml", "train: list.txt\nnc: 2\n")
    assert read_split(root / "data.yaml").labels.tolist() == [0]


def test_dot_slash_in_a_list_means_the_list_file_even_if_the_current_folder_has_it_too(root, tmp_path):
    write(root / "list.txt", "./images/train/a.jpg")
    image(tmp_path / "images" / "train" / "a.jpg")
    write(root / "data.yaml", "train: list.txt\nnc: 2\n")
    assert read_split(root / "data.yaml").path(0) == root / "images" / "train" / "a.jpg"


@pytest.mark.parametrize(
    ("image_file", "label"),
    [
        ("/x/images/train/a.jpg", "/x/labels/train/a.txt"),
        ("/images/x/images/a.b.jpg", "/images/x/labels/a.b.txt"),  # only the last one, only the last suffix
        ("/x/my_images/a.jpg", "/x/my_images/a.txt"),  # not a folder called images: beside the image
    ],
)
def test_label_path(image_file, label):
    assert label_path(image_file) == label


def test_polygons_are_in_the_index(root):
    write(root / "labels/train/a.txt", "0 .1 .2 .3 .2 .3 .6 .1 .6\n1 0 0 1 0 .5 .5")
    index = read_split(root / "data.yaml")
    np.testing.assert_allclose(index.boxes[:2], [[0.2, 0.4, 0.2, 0.4], [0.5, 0.25, 1, 0.5]], atol=1e-6)
    assert np.diff(index.point_starts).tolist() == [4, 3, 0]  # d's box has none
    np.testing.assert_allclose(index.points[4:], [[0, 0], [1, 0], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("train: images/train", "neither nc nor names"),
        ("train: images/train\nnc: 0", "nc must be"),
        ("train: images/train\nnc: true", "nc must be"),
        ("train: images/train\nnc: 1000000000", "nc must be"),  # must not be used to build a list
        ("train: images/train\nnc: 3\nnames: [a, b]", "nc is 3 but names has 2"),
        ("train: images/train\nnames: {0: a, 2: b}", "none for class 1"),
        ("train: images/train\nnames: [cat, no]", "False is not text"),  # yaml reads no as false
        ("train: images/train\nnames: cat", "names must be"),
        ("train: images/train\nnc: 2\ncategory_ids: [1]", "category_ids must be 2 different"),
        ("train: images/train\nnc: 2\ncategory_ids: [1, 1]", "category_ids must be 2 different"),
        ("train: images/train\nnc: 2\nannotations: x.json", "annotations must name a file for each split"),
        ("train: images/train\nnc: 2\nannotations: {train: x.json}", "no such file or folder: 'x.json'"),
        ("train: [images/train, x.json]\nnc: 2", "a COCO file together with other entries"),
        ("val: images/train\nnc: 2", "no split 'train'"),
        ("train: 3\nnc: 2", "train must be"),
        ("train: images/absent\nnc: 2", "no such file or folder: 'images/absent'"),
        ("train: labels\nnc: 2", "holds no image"),
        ("train: []\nnc: 2", "holds no image"),
        ("path: 3\ntrain: images/train\nnc: 2", "path must be"),
        ("train: list.txt\nnc: 2", r"list\.txt:2: no such file"),
        ("train: dot.txt\nnc: 2", r"dot\.txt:1: no such image"),
        ("train: gif.txt\nnc: 2", r"gif\.txt:1: 'a\.gif': GIF is not supported"),
        ("train: data.yaml\nnc: 2", r"data\.yaml:1: .* is not an image"),  # a list file that is none
        ("train: images/train/deeper/..\nnc: 1", r"a\.txt:2: class 1"),
        ("train: images/unlabelled\nnc: 2", "none of the 1 train images has a label file"),
        ("[", "not valid YAML"),
    ],
)
def test_data_faults_are_named(root, yaml, message):
    write(root / "list.txt", "images/train/a.jpg\nimages/train/z.jpg\n")
    write(root / "dot.txt", "./z.jpg")
    write(root / "gif.txt", "a.gif")
    image(root / "images" / "unlabelled" / "x.jpg")
    write(root / "data.yaml", yaml)
    with pytest.raises(UserError, match=message) as caught:
        read_split(root / "data.yaml")
    assert caught.value.fix


def test_a_refusal_shows_the_first_faults_counts_all_and_names_the_ways_out(root):
    write(root / "labels/train/a.txt", "\n".join("9 .5 .5 .5 .5" for _ in range(12)))
    with pytest.raises(UserError) as caught:
        read_split(root / "data.yaml")
    text = str(caught.value)
    assert "the train split has 12 faults" in text
    assert text.count("a.txt:") == 5
    assert "… and 7 more" in text
    assert "yolofast check --data" in text and "--skip-bad" in text


def test_skip_bad_leaves_out_the_named_images_and_says_which(root):
    write(root / "labels/train/a.txt", "0 .5 .5 .5 .5\n5 .5 .5 .5 .5\n")  # one good row does not save it
    (root / "images/train/c.jpg").write_bytes(b"")
    write(
        root / "list.txt",
        "".join(f"./images/train/{name}\n" for name in ("a.jpg", "gone.jpg", "c.jpg", "deeper/d.jpg")),
    )
    write(root / "data.yaml", "train: list.txt\nnc: 2\n")
    report = read_split_report(root / "data.yaml", skip_bad=True)
    assert names_of(report.index) == ["d.jpg"]
    assert report.index.labels.tolist() == [1]
    assert [path.name for path in report.skipped] == ["a.jpg", "c.jpg"]
    kinds = {fault.kind for fault in report.faults if fault.fatal}
    assert kinds == {FaultKind.MISSING_IMAGE, FaultKind.UNKNOWN_CLASS, FaultKind.EMPTY_FILE}


def test_skip_bad_finds_damage_inside_an_image(root):
    (root / "images/train/b.PNG").write_bytes(damaged_png())
    assert len(read_split(root / "data.yaml")) == 4  # headers alone do not show it
    for _ in range(2):  # read, then from the cache
        report = read_split_report(root / "data.yaml", skip_bad=True)
        assert [path.name for path in report.skipped] == ["b.PNG"]
        assert names_of(report.index) == ["a.jpg", "c.jpg", "d.jpg"]
    (fault,) = (fault for fault in report.faults if fault.fatal)
    assert fault.kind is FaultKind.UNREADABLE


def test_skip_bad_does_not_leave_a_split_without_boxes(root):
    for name in ("a", "deeper/d"):
        write(root / f"labels/train/{name}.txt", "5 .5 .5 .5 .5")
    with pytest.raises(UserError, match="no usable image of the train split has a box"):
        read_split(root / "data.yaml", skip_bad=True)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_nothing_to_train_on_is_refused(root, skip_bad):
    for name in ("a", "deeper/d"):
        write(root / f"labels/train/{name}.txt", "\n")
    write(root / "data.yaml", "train: images/train\nval: images/train\ntest: images/train\nnc: 2")
    with pytest.raises(UserError, match="none of the 4 train images has a box") as caught:
        read_split(root / "data.yaml", skip_bad=skip_bad)
    assert "--skip-bad" not in str(caught.value)  # it would not help
    assert len(read_split(root / "data.yaml", "test", skip_bad=skip_bad)) == 4
    report = read_split_report(root / "data.yaml", "val", skip_bad=skip_bad)  # background, which is odd
    (fault,) = (fault for fault in report.faults if fault.kind is FaultKind.EMPTY_SPLIT)
    assert len(report.index) == 4 and not fault.fatal and "none of the 4 val images has a box" in fault.what


def test_images_without_label_files_are_background_to_validate_on(root):
    image(root / "images" / "unlabelled" / "x.jpg")
    write(root / "data.yaml", "train: images/train\nval: images/unlabelled\nnc: 2")
    report = read_split_report(root / "data.yaml", "val")
    (fault,) = (fault for fault in report.faults if fault.kind is FaultKind.EMPTY_SPLIT)
    assert len(report.index) == 1 and not fault.fatal and "none of the 1 val images has a label file" in fault.what


def test_skip_bad_does_not_make_a_split_of_nothing(root):
    for name in ("a.jpg", "b.PNG", "c.jpg", "deeper/d.jpg"):
        (root / "images/train" / name).write_bytes(b"")
    with pytest.raises(UserError, match="no image of the train split is usable"):
        read_split(root / "data.yaml", skip_bad=True)


@pytest.mark.parametrize(
    ("content", "kind", "fatal"),
    [
        (b"", FaultKind.EMPTY_FILE, True),
        (b"hello, I am a text", FaultKind.UNREADABLE, True),
        (encoded()[:-40], FaultKind.TRUNCATED, True),
        (png_of_many_pixels(), FaultKind.UNREADABLE, True),
        (encoded(width=64, height=9), FaultKind.TOO_SMALL, True),
        (with_exif(encoded(), 6), FaultKind.ROTATED, False),
    ],
)
def test_image_faults(root, content, kind, fatal):
    path = root / "images/train/a.jpg"
    path.write_bytes(content)
    faults = [fault for fault in inspect_split(root / "data.yaml", "train").faults if fault.image == str(path)]
    assert [(fault.kind, fault.fatal, fault.where) for fault in faults] == [(kind, fatal, str(path))]


def test_a_rotated_image_has_the_size_it_is_shown_in(root):
    path = root / "images/train/a.jpg"
    path.write_bytes(with_exif(encoded(width=64, height=48), 6))
    assert read_split(root / "data.yaml").sizes[0].tolist() == [48, 64]
    assert cv2.imread(str(path)).shape[:2] == (64, 48)


def test_a_pipe_among_the_files_is_a_fault(root):
    for file in ("images/train/pipe.jpg", "labels/train/c.txt"):
        (root / file).unlink(missing_ok=True)
        os.mkfifo(root / file)
    faults = [fault for fault in inspect_split(root / "data.yaml", "train").faults if fault.fatal]
    assert [Path(fault.where).name for fault in faults] == ["pipe.jpg", "c.txt"]
    assert all("a pipe or a device" in fault.what for fault in faults)


def test_linked_folders_are_followed(root, tmp_path):
    image(tmp_path / "elsewhere/deep/e.jpg")
    write(root / "labels/train/linked/deep/e.txt", "0 .5 .5 .5 .5")
    train = root / "images/train"
    (train / "linked").symlink_to(tmp_path / "elsewhere")
    (train / "again").symlink_to(train / "deeper")  # reached by its own name already
    (tmp_path / "elsewhere/round").symlink_to(root / "images")  # and back to where it all began
    (train / "deeper/up").symlink_to("..")
    index = read_split(root / "data.yaml")
    below = [str(index.path(i).relative_to(train)) for i in range(len(index))]
    assert below == ["a.jpg", "b.PNG", "c.jpg", "deeper/d.jpg", "linked/deep/e.jpg"]
    assert len(index.labels) == 4


def test_a_repeated_image_names_both_lines(root):
    write(root / "list.txt", "./images/train/a.jpg\n./images/train/c.jpg\n\n./images/train/a.jpg\n")
    write(root / "data.yaml", "train: list.txt\nnc: 2\n")
    (fault,) = read_split_report(root / "data.yaml").faults
    assert (fault.kind, fault.where, fault.line) == (FaultKind.LISTED_TWICE, str(root / "list.txt"), 4)
    assert f"first in {root / 'list.txt'}:1" in fault.what


def test_warnings_do_not_stop_anything(root):
    write(root / "labels/train/a.txt", "0 .5 .5 .02 .5\n")  # 1.3 pixels
    write(root / "list.txt", "./images/train/a.jpg\n./images/train/b.PNG\n./images/train/a.jpg\n")
    write(root / "data.yaml", "train: list.txt\nnc: 2\n")
    report = read_split_report(root / "data.yaml")
    kinds = sorted(fault.kind for fault in report.faults)
    assert kinds == sorted([FaultKind.TINY_BOX] * 2 + [FaultKind.NO_LABEL, FaultKind.LISTED_TWICE])
    assert len(report.index) == 3  # counting an image twice may be meant
    tiny = next(fault for fault in report.faults if fault.kind is FaultKind.TINY_BOX)
    assert (Path(tiny.where).name, tiny.line) == ("a.txt", 1)


def test_a_test_split_needs_no_labels(root):
    image(root / "images" / "test" / "x.jpg")
    write(root / "data.yaml", "test: images/test\nnc: 2\n")
    assert len(read_split(root / "data.yaml", "test")) == 1


def test_single_cls(root):
    write(root / "labels/train/a.txt", "0 .5 .5 .2 .4\n7 0.25 0.25 0.5 0.5\n")  # more classes than names
    index = read_split(root / "data.yaml", single_cls=True)
    assert index.labels.tolist() == [0, 0, 0]
    assert (index.names, index.category_ids.tolist()) == (("item",), [0])


@pytest.mark.parametrize(("fraction", "count"), [(1.0, 4), (0.5, 2), (0.75, 3), (0.01, 1)])
def test_a_fraction_is_the_first_share(root, fraction, count):
    index = read_split(root / "data.yaml", fraction=fraction)
    assert names_of(index) == ["a.jpg", "b.PNG", "c.jpg", "d.jpg"][:count]


@pytest.mark.parametrize("fraction", [0, -1, 1.1, float("nan")])
def test_a_fraction_out_of_range(root, fraction):
    with pytest.raises(UserError, match="fraction must be"):
        read_split(root / "data.yaml", fraction=fraction)


@pytest.mark.parametrize(
    ("files", "ids"),
    [
        (["000000000139.jpg", "000000000285.jpg"], [139, 285]),
        (["1.jpg", "deeper/1.jpg"], [0, 1]),  # the same number twice
        (["1.jpg", "x2.jpg"], [0, 1]),
        ([f"{'9' * 30}.jpg"], [0]),  # more than 64 bits hold
    ],
)
def test_image_ids(tmp_path, files, ids):
    for name in files:
        image(tmp_path / "images" / name)
        write(tmp_path / "labels" / name.replace(".jpg", ".txt"), "0 .5 .5 .5 .5")
    write(tmp_path / "data.yaml", "train: images\nnc: 2\ncategory_ids: [3, 90]")
    index = read_split(tmp_path / "data.yaml")
    assert index.image_ids.tolist() == ids
    assert index.category_ids.tolist() == [3, 90]


def test_names_may_be_a_mapping_or_missing(root):
    write(root / "data.yaml", "train: images/train\nnames: {1: dog, 0: 7}")
    assert read_split(root / "data.yaml").names == ("7", "dog")
    write(root / "data.yaml", "train: images/train\nnc: 2")
    assert read_split(root / "data.yaml").names == ("0", "1")


def test_download_is_never_executed(root):
    write(root / "data.yaml", f"train: images/train\nnc: 2\ndownload: touch {root}/pwned")
    read_split(root / "data.yaml")
    assert not (root / "pwned").exists()


def test_unreadable_label_is_a_fault(root):
    (root / "labels" / "train" / "a.txt").write_bytes(b"\xff\xfe0")
    with pytest.raises(UserError, match=r"a\.txt: not a readable text file"):
        read_split(root / "data.yaml")


def test_file_names_that_are_not_text(root):
    odd = os.fsencode(root / "images" / "train") + b"/\xff.jpg"
    try:
        with open(odd, "wb") as file:
            file.write(encoded())
    except OSError:
        pytest.skip("this file system wants names to be text")
    for _ in range(2):  # read, then from the cache
        index = read_split(root / "data.yaml")
        assert odd in [os.fsencode(index.path(i)) for i in range(len(index))]


entries = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.just("images/train"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers(0, 2), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@settings(deadline=None)  # busy machines are slow, not wrong
@given(data=st.dictionaries(st.sampled_from(["path", "train", "nc", "names", "annotations", "category_ids"]), entries))
def test_any_data_yaml_is_read_or_a_user_error(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    image(folder / "images" / "train" / "a.jpg")
    write(folder / "labels" / "train" / "a.txt", "0 .5 .5 .5 .5")
    write(folder / "data.yaml", json.dumps(data))  # JSON is YAML
    try:
        read_split(folder / "data.yaml", cache=False)
    except UserError:
        return
    assert data["train"]


def test_coco_sample_in_both_forms_is_the_same(tmp_path):
    """Its text labels were made from its annotation file, without the crowds."""
    text = read_split(sample("coco200/data.yaml"), "val", cache=False)
    yaml = f"path: {sample('coco200')}\nval: images/val\nannotations: {{val: instances_val.json}}\n"
    write(tmp_path / "data.yaml", f"{yaml}names: {list(text.names)}")
    json_index = read_split(tmp_path / "data.yaml", "val")
    assert json_index.image_ids.tolist() == text.image_ids.tolist()
    assert json_index.sizes.tolist() == text.sizes.tolist()
    alone = ~json_index.crowd
    assert len(text.labels) == alone.sum()

    def rows(index, kept):
        table = np.column_stack((index.image_of_box(), index.labels, index.boxes))[kept]
        return table[np.lexsort(table.round(3).T[::-1])]

    np.testing.assert_allclose(rows(json_index, alone), rows(text, slice(None)), atol=2e-3)
