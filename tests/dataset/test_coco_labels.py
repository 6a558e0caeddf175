"""Splits labelled by a COCO file: where it is found, how ids become classes, and what happens to odd annotations."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataset.make import coco, encoded, image, with_exif, write
from yolofast.dataset.coco_document import parse_coco
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.split import inspect_split, read_split
from yolofast.errors import UserError

IMAGES = {7: ("a.jpg", 64, 48), 3: ("b.jpg", 64, 48)}
CATEGORIES = {90: "dog", 17: "cat"}
BOXES = [
    (7, 17, [16, 12, 32, 24], {}),
    (7, 90, [0, 0, 64, 48], {"iscrowd": 1, "segmentation": {"counts": [1, 2], "size": [48, 64]}}),
    (3, 90, [32, 0, 32, 48], {"iscrowd": 0, "segmentation": [[32, 0, 64, 0, 64, 24], [32, 24, 64, 48, 32, 48]]}),
]


@pytest.fixture
def folder(tmp_path):
    """images/val with two images, and no label in sight."""
    image(tmp_path / "images/val/a.jpg", seed=1)
    image(tmp_path / "images/val/b.jpg", seed=2)
    return tmp_path


def read(folder, yaml, split="val"):
    write(folder / "data.yaml", yaml)
    return read_split(folder / "data.yaml", split, cache=False)


def faults_of(folder, annotations, yaml="val: images/val\nannotations: {val: x.json}\nnames: [cat, dog]"):
    coco(folder / "x.json", IMAGES, annotations, CATEGORIES)
    write(folder / "data.yaml", yaml)
    report = inspect_split(folder / "data.yaml", "val", cache=False)
    return report.index, list(report.faults)


@pytest.mark.parametrize(
    ("place", "yaml"),
    [
        ("x.json", "val: x.json"),  # images are found in images/…? no: by the file's name
        ("annotations/instances_val.json", "val: annotations/instances_val.json"),
        ("anywhere/z.json", "val: images/val\nannotations: {val: anywhere/z.json}"),
        ("annotations/instances_val.json", "val: images/val"),
        ("annotations/val.json", "val: images/val"),
        ("instances_val.json", "val: images/val"),
        ("images/val/_annotations.coco.json", "val: images/val"),
        ("annotations/instances_val.json", "val: val.txt"),
    ],
)
def test_every_place_of_the_annotations(folder, place, yaml):
    if yaml == "val: x.json":
        (folder / "images/val/a.jpg").rename(folder / "images/a.jpg")
        (folder / "images/val/b.jpg").rename(folder / "images/b.jpg")
    write(folder / "val.txt", "./images/val/b.jpg\n./images/val/a.jpg\n")
    coco(folder / place, IMAGES, BOXES, CATEGORIES)
    index = read(folder, yaml)  # names come from the file, in the order of ids
    assert index.names == ("cat", "dog")
    assert index.annotations == folder / place
    assert index.image_ids.tolist() == [7, 3]
    assert index.category_ids.tolist() == [17, 90]
    assert [index.path(i).name for i in range(2)] == ["a.jpg", "b.jpg"]


def test_boxes_crowds_and_polygons(folder):
    coco(folder / "annotations/instances_val.json", IMAGES, BOXES, CATEGORIES)
    index = read(folder, "val: images/val")
    assert index.starts.tolist() == [0, 2, 3]
    assert index.labels.tolist() == [0, 1, 1]
    np.testing.assert_allclose(index.boxes, [[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 1, 1], [0.75, 0.5, 0.5, 1]])
    assert index.crowd.tolist() == [False, True, False]
    assert np.diff(index.point_starts).tolist() == [0, 0, 6]  # none, run lengths, two parts laid end to end
    np.testing.assert_allclose(index.points[[0, 5]], [[0.5, 0], [0.5, 1]])


def test_text_labels_come_before_a_file_that_merely_lies_there(folder):
    coco(folder / "annotations/instances_val.json", IMAGES, BOXES, CATEGORIES)
    write(folder / "labels/val/a.txt", "0 .5 .5 .1 .1")
    index = read(folder, "val: images/val\nnc: 2")
    assert len(index.labels) == 1
    assert index.annotations is None


def test_classes_are_matched_by_name(folder):
    coco(folder / "annotations/val.json", IMAGES, BOXES, {**CATEGORIES, 0: "animals"})  # a root that no box uses
    index = read(folder, "val: images/val\nnames: [dog, bird, cat]")
    assert index.labels.tolist() == [2, 0, 0]
    assert index.category_ids.tolist() == [90, -1, 17]


def test_classes_are_matched_by_order_if_names_differ(folder):
    coco(folder / "annotations/val.json", IMAGES, BOXES, CATEGORIES)
    index = read(folder, "val: images/val\nnames: [Katze, Hund]")
    assert index.names == ("Katze", "Hund")
    assert index.labels.tolist() == [0, 1, 1]
    assert read(folder, "val: images/val\nnames: [cat, Hund]").labels.tolist() == [0, 1, 1]  # one name is not enough
    with pytest.raises(UserError, match=r"2 categories, .* which are not the 3 classes"):
        read(folder, "val: images/val\nnames: [Katze, Hund, Maus]")


def test_single_cls_and_fraction(folder):
    coco(folder / "annotations/val.json", IMAGES, BOXES, CATEGORIES)
    write(folder / "data.yaml", "val: images/val\nnames: [cat, dog]")
    index = read_split(folder / "data.yaml", "val", single_cls=True, fraction=0.5, cache=False)
    assert index.names == ("item",)
    assert (len(index), index.labels.tolist()) == (1, [0, 0])


def test_a_list_chooses_from_the_file_and_names_tell_equal_files_apart(tmp_path):
    for name in ("x/1.jpg", "y/1.jpg", "y/2.jpg"):
        image(tmp_path / "images" / name)
    write(tmp_path / "list.txt", "./images/x/1.jpg\n./images/y/1.jpg\n")
    files = {1: ("x/1.jpg", 64, 48), 2: ("y/1.jpg", 64, 48), 3: ("y/2.jpg", 64, 48)}
    coco(tmp_path / "z.json", files, [(2, 5, [0, 0, 9, 9], {})], {5: "thing"})
    index = read(tmp_path, "val: list.txt\nannotations: {val: z.json}")
    assert [str(index.path(i).relative_to(tmp_path)) for i in range(len(index))] == ["images/x/1.jpg", "images/y/1.jpg"]
    assert index.starts.tolist() == [0, 0, 1]


def test_images_may_be_smaller_than_when_they_were_annotated(folder):
    coco(folder / "annotations/val.json", {7: ("a.jpg", 640, 480)}, [(7, 17, [160, 120, 320, 240], {})], CATEGORIES)
    index = read(folder, "val: images/val\nnames: [cat, dog]")
    np.testing.assert_allclose(index.boxes, [[0.5, 0.5, 0.5, 0.5]])
    assert index.sizes.tolist() == [[64, 48]]


def test_boxes_are_clipped_to_the_image(folder):
    index, faults = faults_of(folder, [(7, 17, [-8, 36, 40, 100], {}), (3, 17, [63.5, 0, 1, 48], {})])
    np.testing.assert_allclose(index.boxes, [[0.25, 0.875, 0.5, 0.25], [63.75 / 64, 0.5, 0.5 / 64, 1]])
    kinds = [(fault.kind, fault.fatal) for fault in faults]
    # Half a pixel is how tools round; what is left of the second is under two pixels.
    assert kinds == [(FaultKind.OUT_OF_RANGE, False), (FaultKind.TINY_BOX, False)]


@pytest.mark.parametrize(
    ("annotation", "kind", "fatal"),
    [
        ((7, 18, [1, 1, 9, 9], {}), FaultKind.UNKNOWN_CLASS, True),
        ((7, "cat", [1, 1, 9, 9], {}), FaultKind.UNKNOWN_CLASS, True),
        ((7, True, [1, 1, 9, 9], {}), FaultKind.UNKNOWN_CLASS, True),
        ((7, 17, [1, 1, 9], {}), FaultKind.BAD_ANNOTATION, True),
        ((7, 17, [1, 1, -9, 9], {}), FaultKind.BAD_ANNOTATION, True),
        ((7, 17, [1, 1, float("nan"), 9], {}), FaultKind.BAD_ANNOTATION, True),
        ((7, 17, None, {}), FaultKind.BAD_ANNOTATION, True),
        ((7, 17, [1, 1, 9, 9], {"segmentation": [["x"] * 6]}), FaultKind.BAD_ANNOTATION, True),
        ((7, 17, [5, 5, 0, 9], {}), FaultKind.TINY_BOX, False),
        ((7, 17, [16, 12, 32, 24], {}), FaultKind.DUPLICATE_ROW, False),
    ],
)
def test_odd_annotations(folder, annotation, kind, fatal):
    index, faults = faults_of(folder, [BOXES[0], annotation])
    (fault,) = faults
    assert (fault.kind, fault.fatal) == (kind, fatal)
    assert fault.where == str(folder / "x.json")
    assert fault.fix
    assert len(index.labels) == (0 if fatal else 1)  # a bad annotation spoils its image


def test_annotations_of_no_image_are_one_fault_that_counts_them(folder):
    strays = [(image, 17, [1, 1, 9, 9], {}) for image in (8, 8, "x7", None)]
    index, faults = faults_of(folder, [BOXES[0], *strays])
    (fault,) = faults
    assert (fault.kind, fault.fatal, fault.where) == (FaultKind.NO_IMAGE, True, str(folder / "x.json"))
    assert "4 of 5 annotations" in fault.what
    assert all(part in fault.what for part in ("8", "'x7'", "None", "[7, 3]"))
    with pytest.raises(UserError, match="4 of 5 annotations"):
        read_split(folder / "data.yaml", "val", cache=False)
    assert len(read_split(folder / "data.yaml", "val", cache=False, skip_bad=True).labels) == len(index.labels) == 1


@pytest.mark.parametrize(("listed", "used"), [(str, int), (int, str), (str, str), (int, float), (float, str)])
def test_ids_may_be_written_as_text_or_with_a_point(folder, listed, used):
    def written(value, kind):
        return str(value) if kind is str else kind(value)

    images = {written(7, listed): ("a.jpg", 64, 48), written(3, listed): ("b.jpg", 64, 48)}
    boxes = [(written(image, used), written(category, used), box, more) for image, category, box, more in BOXES]
    categories = {written(90, listed): "dog", written(17, listed): "cat"}
    coco(folder / "x.json", images, boxes, categories)
    index = read(folder, "val: images/val\nannotations: {val: x.json}\nnames: [cat, dog]")
    assert index.image_ids.tolist() == [7, 3]
    assert index.category_ids.tolist() == [17, 90]
    assert (index.starts.tolist(), index.labels.tolist()) == ([0, 2, 3], [0, 1, 1])


@pytest.mark.parametrize("boxes", [[], [BOXES[1]]])  # the second is a crowd, which is not learnt from
def test_a_file_without_boxes_to_measure_by_is_worth_a_warning(folder, boxes):
    _, faults = faults_of(folder, boxes)
    (fault,) = faults
    assert (fault.kind, fault.fatal) == (FaultKind.EMPTY_SPLIT, False)
    assert "none of the 2 val images has a box" in fault.what and "x.json" in fault.what


def test_two_entries_for_one_file(folder):
    images = {7: ("a.jpg", 64, 48), 3: ("./a.jpg", 64, 48)}
    coco(folder / "x.json", images, BOXES, CATEGORIES)
    write(folder / "data.yaml", "val: images/val\nannotations: {val: x.json}\nnames: [cat, dog]")
    report = inspect_split(folder / "data.yaml", "val", cache=False)
    (fault,) = report.faults
    assert (fault.kind, fault.fatal) == (FaultKind.LISTED_TWICE, False)
    assert "images 7 and 3 are both" in fault.what and "a.jpg" in fault.what
    assert len(report.index) == 2


def test_annotation_ids_used_twice(folder):
    boxes = [(*BOXES[0][:3], {"id": 5}), (*BOXES[1][:3], {"id": 5}), (*BOXES[2][:3], {"id": 6})]
    index, faults = faults_of(folder, boxes)
    (fault,) = faults
    assert (fault.kind, fault.fatal) == (FaultKind.BAD_ANNOTATION, False)
    assert "1 annotation id is used more than once: [5]" in fault.what
    assert len(index.labels) == 3
    assert faults_of(folder, [(*box[:3], {"id": None}) for box in BOXES])[1] == []  # none is not the same one


def test_missing_images_name_the_file_that_lists_them(folder):
    (folder / "images/val/b.jpg").unlink()
    _, faults = faults_of(folder, BOXES)
    (fault,) = faults
    assert fault.kind is FaultKind.MISSING_IMAGE
    assert "x.json lists it" in fault.what
    index = read_split(folder / "data.yaml", "val", skip_bad=True, cache=False)
    assert index.image_ids.tolist() == [7]


def test_an_image_turned_after_it_was_annotated(folder):
    (folder / "images/val/a.jpg").write_bytes(with_exif(encoded(), 6))
    _, faults = faults_of(folder, BOXES)
    assert {fault.kind for fault in faults} == {FaultKind.ROTATED, FaultKind.BAD_ANNOTATION}
    assert "states 64×48" in faults[-1].what and "48×64 as shown" in faults[-1].what


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "x.json:1: is not valid JSON"),
        ("[]", "not a COCO annotation file"),
        ('{"images": []}', "categories is missing"),
        ('{"images": [{}], "categories": []}', r"images\[0\] has no id"),
        ('{"images": [{"id": 1}], "categories": []}', r"images\[0\] has no file_name"),
        (
            '{"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}], "categories": []}',
            r"images\[1\] has the id 1, which another",
        ),
        ('{"images": [], "categories": [], "annotations": [3]}', r"annotations\[0\] is 3"),
        ('{"images": [], "categories": []}', "no categories"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_files_that_are_none(folder, text, message):
    write(folder / "x.json", text)
    with pytest.raises(UserError, match=message):
        read(folder, "val: x.json")


values = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from([7, 17, [1, 1, 9, 9]]),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)
entries = st.dictionaries(
    st.sampled_from(["id", "image_id", "category_id", "bbox", "segmentation", "iscrowd", "file_name", "name"]), values
)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)  # busy machines are slow, not wrong
@given(annotations=st.lists(entries, max_size=3), images=st.lists(entries, max_size=2))
def test_any_annotations_are_read_or_a_user_error(tmp_path_factory, annotations, images):
    folder = tmp_path_factory.getbasetemp() / "coco_fuzz"
    image(folder / "images/a.jpg")
    known = [{"id": 7, "file_name": "a.jpg"}, *images]
    document = {"images": known, "annotations": annotations, "categories": [{"id": 17, "name": "cat"}]}
    write(folder / "x.json", json.dumps(document))
    write(folder / "data.yaml", "val: images\nannotations: {val: x.json}\nnames: [cat]")
    try:
        index = inspect_split(folder / "data.yaml", "val", cache=False).index
    except UserError:
        return
    assert ((index.boxes >= 0) & (index.boxes <= 1)).all()


@pytest.mark.parametrize(
    ("section", "entry"),
    [("images", '{"id": 1, "file_name": "\\ud800.jpg"}'), ("categories", '{"id": 1, "name": "\\ud800"}')],
)
def test_half_a_letter_in_a_name(tmp_path, section, entry):
    """JSON can spell it; no file system can store it, and nobody draw it."""
    content = {"images": "[]", "annotations": "[]", "categories": "[]"} | {section: f"[{entry}]"}
    text = "{" + ", ".join(f'"{name}": {value}' for name, value in content.items()) + "}"
    with pytest.raises(UserError, match=rf"{section}\[0\] has"):
        parse_coco(text.encode(), tmp_path / "a.json")
