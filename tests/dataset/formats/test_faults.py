"""What is wrong with a source is named by file and line, and nothing of it gets into the data set."""

import json

import pytest

from tests.dataset.formats import samples
from tests.dataset.formats.samples import SAMPLES
from tests.dataset.formats.test_readers import convert, objects_of
from tests.dataset.make import image, write
from yolofast.dataset.faults import FaultKind as Kind
from yolofast.dataset.formats.convert import REPORT, read_labelled
from yolofast.errors import UserError

IN = "VisDrone2019-DET-train/annotations/a.txt"
COCO = "annotations/instances_train2017.json"
RF = "train/labels/a_jpg.rf.0123456789abcdef0123456789abcdef.txt"
OI = "train-annotations-bbox.csv"
CASES = [
    ("voc", "Annotations/a.xml", "<xmax>24<", "<xmax>4<", Kind.BAD_BOX, 5, "ends before it begins"),
    ("voc", "Annotations/a.xml", "<xmin>9<", "<xmin>nine<", Kind.NOT_A_NUMBER, 5, "'nine' is not a number"),
    ("voc", "Annotations/a.xml", "<name>dog<", "<name><", Kind.UNKNOWN_CLASS, 9, "has no name"),
    ("voc", "Annotations/a.xml", "</annotation>", "</anno>", Kind.UNREADABLE_LABEL, 13, "mismatched tag"),
    ("cvat", "annotations.xml", 'xtl="32.00"', 'xtl="nan"', Kind.NOT_A_NUMBER, 9, "not a finite number"),
    ("cvat", "annotations.xml", 'points="8.00,12.00;', 'points="8.00;', Kind.BAD_ANNOTATION, 6, "three points"),
    ("cvat", "annotations.xml", 'name="b.jpg"', 'name="z.jpg"', Kind.MISSING_IMAGE, 11, "no image 'z.jpg'"),
    ("labelme", "a.json", '"label": "cat"', '"label": ""', Kind.UNKNOWN_CLASS, None, "shapes[0] has no label"),
    ("labelme", "a.json", '"flags"', '"flags', Kind.UNREADABLE_LABEL, 3, "not valid JSON"),
    ("labelstudio", "project-3-at-2026.json", "polygonlabels", "labelz", Kind.UNKNOWN_CLASS, None, "task 1, result 0"),
    ("coco", COCO, '"category_id": 17', '"category_id": 5', Kind.BAD_ANNOTATION, None, "category is 5"),
    ("coco", COCO, '"a.jpg"', '"z.jpg"', Kind.MISSING_IMAGE, None, "'z.jpg'"),
    ("yolo", "labels/train/a.txt", "1 ", "7 ", Kind.UNKNOWN_CLASS, 2, "class 7"),
    ("yolo", "labels/train/a.txt", "0 0.25", "0 0,25", Kind.NOT_A_NUMBER, 1, "'0,25' is not a number"),
    ("kitti", "training/label_2/a.txt", "8.00 12.00 24.00", "8.00 12.00", Kind.COLUMNS, 1, "14 values instead of 15"),
    ("kitti", "training/label_2/a.txt", "24.00 36.00", "4.00 36.00", Kind.BAD_BOX, 1, "ends before it begins"),
    ("openimages", OI, "/m/0bt9lr,1,0.5", "/m/0bt9lr,1,x", Kind.NOT_A_NUMBER, 3, "'x' is not"),
    ("visdrone", IN, "1,5,0,0", "1,55,0,0", Kind.UNKNOWN_CLASS, 2, "category 55"),
    ("visdrone", IN, "1,5,0,0", "1,5,0", Kind.COLUMNS, 2, "7 values instead of 8"),
    ("roboflow", RF, "1 ", "7 ", Kind.UNKNOWN_CLASS, 2, "class 7"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "file", "old", "new", "kind", "line", "text"), CASES)
def test_a_fault_names_file_and_line(tmp_path, form, file, old, new, kind, line, text):
    SAMPLES[form](tmp_path / "source")
    path = tmp_path / "source" / file
    assert old in path.read_text()
    write(path, path.read_text().replace(old, new, 1))
    fatal = [fault for fault in read_labelled(tmp_path / "source", form, None).faults if fault.fatal]
    assert [(fault.kind, fault.where, fault.line) for fault in fatal] == [(kind, str(path), line)]
    assert text in fatal[0].what and fatal[0].fix

    with pytest.raises(UserError, match="1 fault:") as refused:
        convert(tmp_path / "source", tmp_path / "out", form=form)
    assert "--skip-bad" in refused.value.fix and not (tmp_path / "out").exists()
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("form", ["voc", "cvat", "labelme", "labelstudio", "coco", "kitti", "openimages", "visdrone"])
def test_images_that_nobody_annotated_are_reported(tmp_path, form):
    """No form takes them for background, and a whole folder of them must not vanish without a word."""
    SAMPLES[form](tmp_path / "source")
    whole = read_labelled(tmp_path / "source", form, None).dropped
    folder = max(path.parent for path in (tmp_path / "source").rglob("[abc]*.??g"))
    for name in ("new1.jpg", "new2.jpg"):
        image(folder / name)
    said = read_labelled(tmp_path / "source", form, None).dropped
    assert said - whole == {"images without an annotation": 2}


def test_an_image_with_a_fault_is_left_out_whole_and_reported(tmp_path):
    samples.yolo(tmp_path / "source")
    write(tmp_path / "source/labels/train/a.txt", "0 .5 .5 .2 .2\n9 .5 .5 .2 .2\n")
    made = convert(tmp_path / "source", tmp_path / "out", skip_bad=True)
    assert set(objects_of(tmp_path / "out", ["val"])) == {"b"}
    assert made.splits["train"].images == 1 and made.found.dropped == {"images with faults": 1}
    report = json.loads((tmp_path / "out" / REPORT).read_text())
    (fault,) = report["faults"]
    assert (fault["kind"], fault["line"], fault["fatal"]) == ("unknown class", 2, True)
    assert report["left_out"] == {"images with faults": 1} and report["from"] == "yolo"


def test_boxes_outside_are_clipped_repeated_ones_once_and_empty_ones_left_out(tmp_path):
    samples.visdrone(tmp_path / "x")
    path = tmp_path / "x/VisDrone2019-DET-train/annotations/c.txt"
    write(path, "60,40,10,20,1,4,0,0\n5,5,9,9,1,4,0,0\n5,5,9,9,1,4,0,0\n70,5,9,9,1,4,0,0\n63,5,1.8,9,1,4,0,0\n")
    made = convert(tmp_path / "x", tmp_path / "out", form="visdrone")
    (image_,) = [one for one in made.found.images if one.where == str(path)]
    assert [one.box for one in image_.objects] == [(60, 40, 64, 48), (5, 5, 14, 14), (63, 5, 64, 14)]
    told = {(fault.kind, fault.line) for fault in made.found.faults}
    assert told == {(Kind.OUT_OF_RANGE, 1), (Kind.DUPLICATE_ROW, 3), (Kind.TINY_BOX, 4)}, (
        "less than a pixel is rounding"
    )


def test_labels_of_another_size_are_scaled_and_of_another_shape_told(tmp_path):
    samples.coco_files(tmp_path / "x")
    path = tmp_path / "x/annotations/instances_val2017.json"
    content = json.loads(path.read_text())
    content["images"][0] |= {"width": 128, "height": 96}
    content["annotations"][0]["bbox"] = [2 * value for value in content["annotations"][0]["bbox"]]
    write(path, json.dumps(content))
    convert(tmp_path / "x", tmp_path / "out")
    assert objects_of(tmp_path / "out")["b"][0][1] == pytest.approx(samples.BIG_DOG, abs=1e-4)
    content["images"][0] |= {"width": 96, "height": 128}
    write(path, json.dumps(content))
    made = convert(tmp_path / "x", tmp_path / "again")
    assert any("states 96×128" in fault.what for fault in made.found.faults)


def test_damaged_and_missing_images(tmp_path):
    samples.kitti(tmp_path / "x")
    (tmp_path / "x/training/image_2/a.png").write_bytes(b"no image")
    (tmp_path / "x/training/image_2/c.png").unlink()
    with pytest.raises(UserError, match=r"(?s)2 faults.*missing image.*label_2/c.txt.*unreadable image.*image_2/a.png"):
        convert(tmp_path / "x", tmp_path / "out", form="kitti")
    made = convert(tmp_path / "x", tmp_path / "out", form="kitti", skip_bad=True, splits=("train=1",))
    assert [one.file[-5:] for one in made.found.images] == ["b.png"]


def test_files_of_another_form_are_counted(tmp_path):
    samples.voc(tmp_path / "x")
    write(tmp_path / "x/Annotations/other.xml", "<settings/>")
    assert convert(tmp_path / "x", tmp_path / "out").found.dropped == {"XML files that are not of VOC": 1}


@pytest.mark.parametrize("form", ["kitti", "visdrone"])
def test_rows_of_tracks_are_told_apart(tmp_path, form):
    image(tmp_path / "x/a.png")
    row = "0 1 Car 0 0 -1 1 1 9 9 1 1 1 1 1 1 1\n" if form == "kitti" else "1,1,5,5,9,9,1,4,0,0\n"
    write(tmp_path / "x/a.txt", row)
    with pytest.raises(UserError, match="frame and an identity"):
        convert(tmp_path / "x", tmp_path / "out", form=form)


def test_nothing_to_convert(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="of no form that is known"):
        convert(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(UserError, match="holds no labels of Pascal VOC XML for 0 images"):
        convert(tmp_path / "empty", tmp_path / "out", form="voc")
    with pytest.raises(UserError, match="does not exist, did you mean"):
        convert(tmp_path / "emty", tmp_path / "out")
    samples.yolo(tmp_path / "x")
    (tmp_path / "full").mkdir()
    write(tmp_path / "full/mine.txt", "mine")
    with pytest.raises(UserError, match="is not empty"):
        convert(tmp_path / "x", tmp_path / "full")


@pytest.mark.parametrize(("form", "named", "title"), [("voc", "kitti", "Pascal VOC XML"), ("cvat", "voc", "CVAT XML")])
def test_another_form_than_the_one_named_is_told(tmp_path, form, named, title):
    SAMPLES[form](tmp_path / "source")
    with pytest.raises(UserError) as refused:
        convert(tmp_path / "source", tmp_path / "out", form=named)
    assert refused.value.fix == f"it looks like {title}: --from {form}"


def test_a_wrong_split_is_told_before_anything_is_read(tmp_path):
    samples.voc(tmp_path / "source")
    said = []
    for wrong in (("vall=0.2",), ("train=0.5", "val=list.txt")):
        with pytest.raises(UserError, match="--split"):
            convert(tmp_path / "source", tmp_path / "out", splits=wrong, say=said.append)
    with pytest.raises(UserError, match="--group"):
        convert(tmp_path / "source", tmp_path / "out", group="(", say=said.append)
    assert not said


def test_if_nothing_is_left_the_faults_are_told(tmp_path):
    """No report of them is written then."""
    samples.voc(tmp_path / "source")
    for path in (tmp_path / "source/Annotations").iterdir():
        write(path, "<annotation>")
    with pytest.raises(UserError, match="no image is left to write: faults") as refused:
        convert(tmp_path / "source", tmp_path / "out", form="voc", skip_bad=True)
    assert f"unreadable label file (3)\n    {tmp_path}/source/Annotations/a.xml" in str(refused.value)
    assert refused.value.fix == "correct them"
