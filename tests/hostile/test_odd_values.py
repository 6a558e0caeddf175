"""Files with values that no writer would write: one message each, never a traceback."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest

from tests.checkpoint.files import tensor, text, write_pickle
from tests.dataset.make import image, write
from tests.hostile.cost import refused
from tests.store.made_up import index_of, some_pictures
from yolofast import UserError, build_model
from yolofast.checkpoint.read import contents_of, read_weights
from yolofast.cli import main
from yolofast.dataset.coco_document import parse_coco
from yolofast.dataset.data_yaml import read_data_yaml
from yolofast.dataset.index_cache import Reading, _decode, _encode
from yolofast.image_index import ImageIndex
from yolofast.runs.table import csv_rows
from yolofast.store import open_images
from yolofast.store.packed_store import read_store, write_store
from yolofast.train.batch_record import _rows_before

LONG = 10**400
"""No float holds it."""


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"])
def test_safetensors_of_eight_bits(tmp_path, dtype):
    header = json.dumps({"a": {"dtype": dtype, "shape": [4], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(UserError, match=r"x\.safetensors: ('a' is a tensor of float8|the file is damaged)"):
        read_weights(tmp_path / "x.safetensors")


def test_safetensors_of_many_dimensions(tmp_path):
    header = json.dumps({"a": {"dtype": "F32", "shape": [1] * 66, "data_offsets": [0, 4]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(UserError, match=r"x\.safetensors: "):
        read_weights(tmp_path / "x.safetensors")


@pytest.mark.parametrize("change", [{"depth_multiple": LONG}, {"width_multiple": -LONG}, {"anchors": [[LONG] * 6] * 3}])
def test_a_network_with_numbers_of_400_digits(change):
    graph = {
        "nc": 2, "depth_multiple": 1.0, "width_multiple": 1.0, "anchors": [[10, 13, 16, 30, 33, 23]],
        "backbone": [[-1, 1, "Conv", [8, 3, 2]]], "head": [[[0], 1, "Detect", ["nc", "anchors"]]],
    }  # fmt: skip
    with pytest.raises(UserError):
        build_model({**graph, **change})


def coco(tmp_path, **image):
    content = {
        "images": [{"id": 1, "file_name": "a.jpg", **image}], "categories": [{"id": 1, "name": "a"}], "annotations": [],
    }  # fmt: skip
    return json.dumps(content).encode(), tmp_path / "a.json"


def test_coco_sizes_that_no_image_has_are_none(tmp_path):
    assert parse_coco(*coco(tmp_path, width=LONG, height=5)).images[0].size is None
    assert parse_coco(*coco(tmp_path, width=4, height=5)).images[0].size == (4, 5)


def test_coco_numbers_that_python_does_not_read(tmp_path):
    content, path = coco(tmp_path, width=4, height=77)
    with pytest.raises(UserError, match=r"a\.json: is not valid JSON"):
        parse_coco(content.replace(b"77", b"7" * 5000), path)


def test_a_cell_longer_than_any_figure_is_left_out():
    rows = ["epoch,loss", "0,0.5", "1," + "9" * 200_000, "2,0.3"]
    assert list(csv_rows(rows)) == [["epoch", "loss"], ["0", "0.5"], ["2", "0.3"]]


def test_a_storage_whose_key_is_a_list(tmp_path):
    pickled = b"}" + text("model") + b"}" + text("w") + tensor().replace(text("0"), b"]", 1) + b"ss."
    path = write_pickle(tmp_path / "x.pt", b"\x80\x02" + pickled, {"0": bytes(16)})
    assert contents_of(path) == {}


INDEX = ImageIndex(
    names=("a",), files=np.array([b"a.jpg"]), sizes=np.array([[4, 5]]), starts=np.array([0, 1]),
    labels=np.zeros(1, int),
    boxes=np.zeros((1, 4)), points=np.zeros((0, 2)), point_starts=np.array([0, 0]), crowd=np.zeros(1, bool),
    image_ids=np.zeros(1, int), category_ids=np.zeros(1, int),
)  # fmt: skip


@pytest.mark.parametrize(
    "change", [{}, {"starts": np.array([7, 8])}, {"starts": np.array([0])}, {"point_starts": np.array([-1, 0])}]
)
def test_starts_of_an_index_cache_that_lead_nowhere(change):
    stored = io.BytesIO()
    _encode(Reading(replace(INDEX, **change), [], np.zeros((1, 2), np.int64), "key"), stored)
    stored.seek(0)
    if not change:
        assert len(_decode(stored).index) == 1
        return
    with pytest.raises(ValueError, match="starts do not fit"):
        _decode(stored)


@pytest.mark.parametrize("change", ["none", "no list", "sizes", "lengths", "sums"])
def test_packed_images_whose_index_is_another_are_packed_again(tmp_path, change):
    index = index_of(some_pictures(tmp_path / "images", 3))
    first, _ = open_images(index, 48, 48, "disk", say=str)
    pixels, store = [first.image(number).copy() for number in range(3)], first.store
    (file,) = tmp_path.rglob("*.index")
    records, sizes = store.records.copy(), store.sizes.copy()
    if change == "sizes":
        sizes[1] = 1000, 1000
    elif change == "lengths":
        records["length"] += (50, -50, 0)
        records["start"] = np.cumsum(records["length"]) - records["length"]
    elif change == "sums":
        records["length"][:2] = 2**63 - 1, 2
        records["start"] = np.cumsum(records["length"]) - records["length"]
    files = np.array(store.files[0]) if change == "no list" else store.files
    changed = replace(store, files=files, records=records, sizes=sizes)
    file.unlink()
    write_store(changed, file)
    assert (read_store(file) is None) == (change in ("no list", "sums"))
    found, _ = open_images(index, 48, 48, "disk", say=str)
    assert all((found.image(number) == pixels[number]).all() for number in range(3))


@pytest.mark.parametrize("names", ['["\\ud800"]', '{0: "a\\udcff"}'])
def test_half_a_letter_in_the_name_of_a_class(tmp_path, names):
    """YAML can spell it; it cannot be drawn, and ended `val` amid its pictures."""
    (tmp_path / "x.yaml").write_text(f"train: images\nnames: {names}\n")
    with refused("the class name .* is not text"):
        read_data_yaml(tmp_path / "x.yaml")


@pytest.mark.parametrize("form", ["yolo", "coco"])
def test_half_a_letter_in_a_label_of_another_form(tmp_path, form, capsys):
    image(tmp_path / "in" / "a.jpg", 40, 30)
    shape = {"label": "\ud800", "points": [[1, 1], [9, 9]], "shape_type": "rectangle", "flags": {}}
    said = {"version": "5", "flags": {}, "shapes": [shape], "imagePath": "a.jpg", "imageHeight": 30, "imageWidth": 40}
    write(tmp_path / "in" / "a.json", json.dumps(said))
    assert main(["convert", str(tmp_path / "in"), "--to", form, "--out", str(tmp_path / "out")]) == 2
    assert "is not text" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_a_size_of_thousands_of_digits_in_a_table(tmp_path):
    """As good as none, as in the other forms."""
    image(tmp_path / "in" / "a.jpg", 40, 30)
    digits = "9" * 5000
    rows = f"filename,width,height,class,xmin,ymin,xmax,ymax\na.jpg,{digits},{digits},cat,1,1,9,9\n"
    write(tmp_path / "in" / "_annotations.csv", rows)
    assert main(["convert", str(tmp_path / "in"), "--group", "none", "--out", str(tmp_path / "out")]) == 0


def test_an_epoch_of_thousands_of_digits(tmp_path):
    """In the record of a run that is resumed: no epoch, so the row goes."""
    path = tmp_path / "batches.csv"
    path.write_text("epoch,loss\n0,1.0\n" + "9" * 5000 + ",1.0\n1,1.0\n")
    assert _rows_before(path, 2, 1) == [["0", "1.0"]]
