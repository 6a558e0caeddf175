"""What only Label Studio has: turned boxes, skipped tasks, JSON-MIN, brushes."""

import json
from collections import Counter

import numpy as np
import pytest

from tests.dataset.formats import samples
from tests.dataset.formats.samples import CAT
from tests.dataset.make import write
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.formats.convert import Conversion, ConvertRequest, read_labelled
from yolofast.dataset.formats.recognise import recognise
from yolofast.errors import UserError


def test_label_studio_turned_boxes_skipped_tasks_and_json_min(tmp_path):
    samples.labelstudio(tmp_path / "min", small=True)
    assert recognise(tmp_path / "min").format == "labelstudio"
    assert len(read_labelled(tmp_path / "min", "labelstudio", None).images) == 3
    samples.labelstudio(tmp_path / "x")
    path = tmp_path / "x/project-3-at-2026.json"
    tasks = json.loads(path.read_text())
    tasks[1]["annotations"][0]["result"][0]["value"] |= {"x": 50, "y": 50, "width": 25, "height": 25, "rotation": 90}
    tasks[2]["annotations"][0]["was_cancelled"] = True
    write(path, json.dumps(tasks))
    found = read_labelled(tmp_path / "x", "labelstudio", None)
    np.testing.assert_allclose(found.images[1].objects[0].box, (32 - 12, 24, 32, 24 + 16), atol=1e-9)
    assert found.dropped == Counter({"tasks without an annotation": 1})


def test_json_min_has_an_entry_for_each_annotation_and_a_list_for_each_control(tmp_path):
    samples.labelstudio(tmp_path / "x", small=True)
    path = tmp_path / "x/project-3-at-2026.json"
    a, b, c = (one | {"annotation_id": 10 + place} for place, one in enumerate(json.loads(path.read_text())))
    cat, dog = a.pop("label")
    a |= {"sky": ["blue", "grey"], "outlines": [cat], "boxes": [dog], "notes": [{"choices": ["good"]}]}
    del c["label"]  # annotated: it shows nothing
    again = b | {"annotation_id": 20, "label": [{**b["label"][0], "rectanglelabels": ["cat"]}]}
    never = {"id": 9, "image": b["image"]}
    write(path, json.dumps([a, b, c, again, never]))
    found = read_labelled(tmp_path / "x", "labelstudio", None)
    assert [[one.name for one in image.objects] for image in found.images] == [["cat", "dog"], ["cat"], []]
    assert found.dropped == Counter({"earlier annotations of the same task": 1, "tasks without an annotation": 1})


def brushed(pixels, literal=()):
    """As Label Studio writes it; values at the places of `literal` are written one by one."""
    flat = np.repeat(np.asarray(pixels, np.uint8).ravel() * 255, 4)
    bits = f"{len(flat):032b}{7:05b}" + "".join(f"{length - 1:04b}" for length in (3, 4, 8, 16))
    place = 0
    while place < len(flat):
        if place in literal:
            bits += "0" + "00" + f"{7:03b}" + "".join(f"{value:08b}" for value in flat[place : place + 8])
            place += 8
            continue
        ends = np.flatnonzero(flat[place:] != flat[place])
        count = min(
            int(ends[0]) if len(ends) else len(flat) - place, *(at - place for at in literal if at > place), 256
        )
        bits += "1" + "10" + f"{count - 1:08b}" + f"{flat[place]:08b}"
        place += count
    bits += "0" * (-len(bits) % 8)
    return [int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)]


@pytest.mark.parametrize("small", [False, True])
def test_the_box_of_what_label_studio_s_brush_has_painted(tmp_path, small):
    samples.labelstudio(tmp_path / "x", small)
    path = tmp_path / "x/project-3-at-2026.json"
    tasks = json.loads(path.read_text())
    left, top, right, bottom = CAT
    mask = np.zeros((48, 64), np.uint8)
    mask[top : bottom - 3, left + 2 : right] = mask[bottom - 3 : bottom, left : left + 2] = 1
    mask[top, right - 3] = 0  # a run that begins within a row
    painted = {"format": "rle", "rle": brushed(mask, (4 * (64 * top + left), 4000)), "brushlabels": ["cat"]}
    own = tasks[0]["label" if small else "annotations"]
    erased = {"format": "rle", "rle": brushed(mask * 0), "brushlabels": ["dog"]}
    size = {"original_width": 64, "original_height": 48}
    if small:
        own[:] = [own[1], {**painted, **size}, {**erased, **size}]
    else:
        dog = own[0]["result"][1]
        own[0]["result"] = [dog, *({"id": str(at), "value": one, **size} for at, one in enumerate((painted, erased)))]
    write(path, json.dumps(tasks))
    found = read_labelled(tmp_path / "x", "labelstudio", None)
    assert [(one.name, one.parts) for one in found.images[0].objects] == [("dog", []), ("cat", [])]
    np.testing.assert_allclose(found.images[0].objects[1].box, CAT)
    assert found.changed == Counter({"masks of which only the box stays": 1})
    assert sum(found.dropped.values()) == 1, "what was erased"


@pytest.mark.parametrize(
    ("rle", "reason"),
    [("no list", "no list of bytes"), ([0, 0, 48, 0], "ends too early"), ([255] * 40, "states 4,294,967,295 values")],
)
def test_brush_masks_that_are_none(tmp_path, rle, reason):
    samples.labelstudio(tmp_path / "x")
    path = tmp_path / "x/project-3-at-2026.json"
    tasks = json.loads(path.read_text())
    tasks[0]["annotations"][0]["result"][0]["value"] = {"format": "rle", "rle": rle, "brushlabels": ["cat"]}
    write(path, json.dumps(tasks))
    with pytest.raises(UserError, match="task 1, result 0 is no mask: rle") as caught:
        Conversion(ConvertRequest(tmp_path / "x", "yolo"), lambda line: None).make(tmp_path / "out")
    assert reason in str(caught.value)


def test_an_address_that_is_none_is_a_missing_image(tmp_path):
    task = {"id": 1, "data": {"image": "http://[bad/a.jpg"}, "annotations": [{"result": []}]}
    write(tmp_path / "x/a.json", json.dumps([task]))  # images above are looked for too
    found = read_labelled(tmp_path / "x", "labelstudio", None)
    assert [fault.kind for fault in found.faults] == [FaultKind.MISSING_IMAGE]
