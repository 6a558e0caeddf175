"""Data yaml, list files, label rows and image headers: what is read, and how every fault is named."""

import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sample_data import sample
from yolofast.dataset.image_size import image_size, image_sizes
from yolofast.dataset.label_files import label_path, parse_labels, read_split
from yolofast.errors import UserError


@pytest.fixture
def root(tmp_path, monkeypatch):
    """a.jpg with two boxes, b.PNG without a label file, c.jpg with an empty one, deeper/d.jpg with one box."""
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "set"
    for name in ("a.jpg", "b.PNG", "c.jpg", "deeper/d.jpg", "notes.md"):
        write(data / "images" / "train" / name, "")
    write(data / "labels" / "train" / "a.txt", "0 .5 .5 .2 .4\n1 0.25 0.25 0.5 0.5\n")
    write(data / "labels" / "train" / "c.txt", "")
    write(data / "labels" / "train" / "deeper" / "d.txt", "1 .1 .2 .1 .2")
    write(data / "data.yaml", "train: images/train\nnc: 2\nnames: [cat, dog]\n")
    return data


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def names_of(labels):
    return [path.name for path in labels.image_paths]


def test_a_folder_is_read_with_everything_below_it(root):
    labels = read_split(root / "data.yaml")
    assert names_of(labels) == ["a.jpg", "b.PNG", "c.jpg", "d.jpg"]
    assert labels.image_index.tolist() == [0, 0, 3]  # b has no label file, c an empty one: both background
    assert labels.class_id.tolist() == [0, 1, 1]
    np.testing.assert_array_equal(labels.box[1], np.float32([0.25, 0.25, 0.5, 0.5]))
    assert (labels.box.dtype, labels.class_id.dtype, labels.image_index.dtype) == (np.float32, np.int64, np.int64)
    assert (labels.nc, labels.names) == (2, ("cat", "dog"))


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
    labels = read_split(root / "data.yaml")
    assert sorted(names_of(labels)) == ["a.jpg", "b.PNG", "c.jpg", "d.jpg"]
    assert len(labels.class_id) == 3


def test_dot_slash_in_a_list_means_the_list_file_even_if_the_current_folder_has_it_too(root, tmp_path):
    write(root / "list.txt", "./images/train/a.jpg")
    write(tmp_path / "images" / "train" / "a.jpg", "")
    write(root / "data.yaml", "train: list.txt\nnc: 2\n")
    assert read_split(root / "data.yaml").image_paths == (root / "images" / "train" / "a.jpg",)


@pytest.mark.parametrize(
    ("image", "label"),
    [
        ("/x/images/train/a.jpg", "/x/labels/train/a.txt"),
        ("/images/x/images/a.b.jpg", "/images/x/labels/a.b.txt"),  # only the last one, only the last suffix
        ("/x/my_images/a.jpg", "/x/my_images/a.txt"),  # not a folder called images: beside the image
    ],
)
def test_label_path(image, label):
    assert label_path(Path(image)) == Path(label)


def test_polygons_become_boxes():
    # Nine values on one row make the whole file polygons, so the triangle's seven values are one too.
    boxes = parse_labels("0 .1 .2 .3 .2 .3 .6 .1 .6\n1 0 0 1 0 .5 .5", nc=2)
    np.testing.assert_allclose(boxes, [[0, 0.2, 0.4, 0.2, 0.4], [1, 0.5, 0.25, 1, 0.5]])


def test_windows_lines_and_float_classes_are_accepted():
    assert parse_labels("1.0 .5 .5 .5 .5\r\n\r\n", nc=2) == [[1, 0.5, 0.5, 0.5, 0.5]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0 .5 .5 .5", "4 values instead of 5"),
        ("0 .5 .5 .5 .5 .9", "6 values instead of 5"),
        ("0 .5 .5 .5 x", "'x' is not a number"),
        ("0,.5,.5,.5,.5", "1 values"),
        ("0 .5 ,5 .5 .5", "',5' is not a number"),
        ("0 .5 .5 .5 1.2", "1.2 is outside 0 to 1"),
        ("0 -.1 .5 .5 .5", "-.1 is outside"),
        ("0 nan .5 .5 .5", "nan is outside"),
        ("2 .5 .5 .5 .5", "class 2 is not a whole number from 0 to 1"),
        ("-1 .5 .5 .5 .5", "class -1"),
        ("0.5 .5 .5 .5 .5", "class 0.5"),
        ("nan .5 .5 .5 .5", "class nan"),
        ("inf .5 .5 .5 .5", "class inf"),
        ("0 " + ".5 " * 9, "10 values in a file of polygons"),  # an odd number of coordinates
        ("0 .5 .5 .5 .5\n0 .1 .1 .2 .1 .2 .2 .1 .2", "5 values in a file of polygons"),  # box or 2-point polygon?
    ],
)
def test_label_faults_name_file_line_value_and_fix(row, message):
    with pytest.raises(UserError, match=message) as caught:
        parse_labels("\n" + row, nc=2, where="labels/a.txt")
    error = caught.value
    assert (error.where, error.line) == ("labels/a.txt", 2)
    assert error.fix


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
        ("val: images/train\nnc: 2", "no split 'train'"),
        ("train: 3\nnc: 2", "train must be"),
        ("train: images/absent\nnc: 2", "no such file or folder: 'images/absent'"),
        ("train: labels\nnc: 2", "holds no image"),
        ("train: []\nnc: 2", "holds no image"),
        ("path: 3\ntrain: images/train\nnc: 2", "path must be"),
        ("train: list.txt\nnc: 2", r"list\.txt:2: no such file"),
        ("train: dot.txt\nnc: 2", r"dot\.txt:1: no such image"),
        ("train: data.yaml\nnc: 2", r"data\.yaml:1: .* is not an image"),  # a list file that is none
        ("train: images/train/deeper/..\nnc: 1", r"a\.txt:2: class 1"),
        ("train: images/unlabelled\nnc: 2", "none of the 1 train images has a label file"),
        ("[", "not valid YAML"),
    ],
)
def test_data_faults_are_named(root, yaml, message):
    write(root / "list.txt", "images/train/a.jpg\nimages/train/z.jpg\n")
    write(root / "dot.txt", "./z.jpg")
    write(root / "images" / "unlabelled" / "x.jpg", "")
    write(root / "data.yaml", yaml)
    with pytest.raises(UserError, match=message):
        read_split(root / "data.yaml")


def test_names_may_be_a_mapping_or_missing(root):
    write(root / "data.yaml", "train: images/train\nnames: {1: dog, 0: 7}")
    assert read_split(root / "data.yaml").names == ("7", "dog")
    write(root / "data.yaml", "train: images/train\nnc: 2")
    assert read_split(root / "data.yaml").names == ("0", "1")


def test_download_is_never_executed(root):
    write(root / "data.yaml", f"train: images/train\nnc: 2\ndownload: touch {root}/pwned")
    read_split(root / "data.yaml")
    assert not (root / "pwned").exists()


def test_unreadable_label_is_a_user_error(root):
    (root / "labels" / "train" / "a.txt").write_bytes(b"\xff\xfe0")
    with pytest.raises(UserError, match=r"a\.txt: not a readable text file"):
        read_split(root / "data.yaml")


fields = st.one_of(st.floats(0, 1).map(str), st.integers(-2, 4).map(str), st.text("0.1e-+nanif_x\t", max_size=6))
rows = st.lists(fields, max_size=12).map(" ".join)


@settings(deadline=None)  # busy machines are slow, not wrong
@given(st.one_of(st.text(), st.lists(rows, max_size=4).map("\n".join)))
def test_any_label_text_gives_boxes_or_a_user_error(text):
    try:
        boxes = parse_labels(text, nc=3)
    except UserError:
        return
    assert all(len(box) == 5 and box[0] in (0, 1, 2) for box in boxes)
    assert all(0 <= np.float32(value) <= 1 for box in boxes for value in box[1:])


entries = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.just("images/train"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.integers(0, 2), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)  # busy machines are slow, not wrong
@given(data=st.dictionaries(st.sampled_from(["path", "train", "nc", "names"]), entries))
def test_any_data_yaml_is_read_or_a_user_error(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    write(folder / "images" / "train" / "a.jpg", "")
    write(folder / "labels" / "train" / "a.txt", "0 .5 .5 .5 .5")
    write(folder / "data.yaml", json.dumps(data))  # JSON is YAML
    try:
        read_split(folder / "data.yaml")
    except UserError:
        return
    assert data["train"]


def png(width, height):
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))


def jpeg(width, height, frame=0xC2):
    comment = b"\xff\xfe" + struct.pack(">H", 2 + 300) + b"\xff\xc0" * 150  # looks like frames, must be skipped
    return b"\xff\xd8" + comment + b"\xff\xff" + bytes([frame]) + struct.pack(">HBHHB", 17, 8, height, width, 3)


def bmp(width, height):
    return b"BM" + bytes(12) + struct.pack("<Iii", 40, width, height)


@pytest.mark.parametrize(
    "content", [png(640, 480), jpeg(640, 480), jpeg(640, 480, 0xC0), bmp(640, 480), bmp(640, -480)]
)
def test_image_headers(tmp_path, content):
    path = tmp_path / "image"
    path.write_bytes(content)
    assert image_size(path) == (640, 480)


@pytest.mark.parametrize(
    "content",
    [b"", b"GIF89a" + bytes(40), png(640, 480)[:20], jpeg(640, 480)[:-8], jpeg(640, 480, 0xC4), bmp(0, 0), b"\xff\xd8"],
)
def test_unknown_or_cut_images_are_user_errors(tmp_path, content):
    path = tmp_path / "image"
    path.write_bytes(content)
    with pytest.raises(UserError, match="cut short"):
        image_size(path)


@settings(deadline=None)  # busy machines are slow, not wrong
@given(content=st.binary(max_size=80))
def test_any_jpeg_tail_ends(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.jpg"
    path.write_bytes(b"\xff\xd8" + content)
    try:
        size = image_size(path)
    except UserError:
        return
    assert min(size) >= 1


def test_a_missing_image_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        image_sizes([tmp_path / "absent.jpg"])


def test_coco_sample_agrees_with_its_annotation_file():
    labels = read_split(sample("coco200/data.yaml"), "val")
    truth = json.loads(sample("coco200/instances_val.json").read_text())
    sizes = {image["file_name"]: (image["width"], image["height"]) for image in truth["images"]}
    ours = image_sizes(labels.image_paths)
    assert [tuple(size) for size in ours] == [sizes[path.name] for path in labels.image_paths]
    boxes = [a["bbox"] for a in truth["annotations"] if not a["iscrowd"]]
    assert len(labels.class_id) == len(boxes)
    np.testing.assert_allclose(np.sort(labels.box_wh_px()[:, 0]), np.sort([box[2] for box in boxes]), atol=0.01)
