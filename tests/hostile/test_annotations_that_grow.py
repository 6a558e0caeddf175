"""Annotations of a few bytes that ask for any amount of boxes, digits or pixels."""

import json

import pytest

from tests.dataset.make import image, write
from tests.hostile.cost import cheap
from yolofast.dataset.coco_document import open_coco
from yolofast.dataset.formats.cvat import read
from yolofast.dataset.formats.labelled import Labelled
from yolofast.dataset.formats.places import ImagePlaces
from yolofast.dataset.run_lengths import resized_mask
from yolofast.errors import UserError
from yolofast.runs.table import read_columns

LABELS = "<meta><task><labels>{}</labels></task></meta>"


def key_frame(number):
    return f'<box frame="{number}" outside="0" occluded="0" xtl="1" ytl="1" xbr="4" ybr="4"/>'


def cvat(tmp_path, content):
    image(tmp_path / "frame_000000.png", 8, 8)
    write(tmp_path / "a.xml", f"<annotations>{content}</annotations>")
    found = Labelled()
    with cheap():
        read(tmp_path, ImagePlaces([tmp_path]), found)
    return found


TRACKS = {
    "many": "".join(f'<track id="{n}" label="a">{key_frame(0)}{key_frame(99_999)}</track>' for n in range(500)),
    "one": f'<track id="1" label="a">{(key_frame(0) + key_frame(99_999)) * 500}</track>',
}


@pytest.mark.parametrize("tracks", TRACKS.values(), ids=TRACKS)
def test_boxes_between_key_frames_without_end(tmp_path, tracks):
    found = cvat(tmp_path, tracks)
    assert "boxes between key frames" in found.faults[-1].what


def test_boxes_between_key_frames_as_usual(tmp_path):
    found = cvat(tmp_path, f'<track id="1" label="a">{key_frame(0)}{key_frame(9)}</track>')
    assert found.changed["boxes interpolated between key frames"] == 8
    assert len(found.faults) == 9, "of frames that are not there"


def test_labels_of_a_task(tmp_path):
    found = cvat(tmp_path, LABELS.format("".join(f"<label><name>n{n}</name></label>" for n in range(30_000))))
    assert len(found.names) == 30_000


def test_masks_with_numbers_without_end():
    with cheap():
        assert resized_mask({"size": [8, 8], "counts": "o" * 1_000_000}, 4, 4) is None


def test_masks_of_many_pixels():
    """Only the pixels that are asked for are looked at."""
    with cheap():
        for _ in range(300):
            assert resized_mask({"size": [8192, 8192], "counts": [5, 8192 * 8192 - 5]}, 4, 4) is not None


def test_json_that_is_none_from_its_first_byte(tmp_path):
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(2**33)
    with cheap():
        assert len(open_coco(tmp_path / "a.json")) < 2**20
    (tmp_path / "b.json").write_bytes(b"\xef\xbb\xbf\n " + json.dumps({"images": []}).encode() + b" " * 2**17)
    assert len(open_coco(tmp_path / "b.json")) > 2**17


def test_a_table_of_many_columns(tmp_path):
    write(tmp_path / "results.csv", ",".join(f"c{n}" for n in range(60_000)) + ",c59999\n1\n")
    with cheap(), pytest.raises(UserError, match="the column 'c59999' stands twice"):
        read_columns(tmp_path / "results.csv")
