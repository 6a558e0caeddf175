"""Every form gives the same boxes, outlines and classes as the others, and is read again as it was written."""

import base64
import json
import os
import sys
import zipfile
from collections import Counter
from types import ModuleType

import numpy as np
import pytest

from tests.dataset.formats import samples
from tests.dataset.formats.samples import BIG_DOG, CAT, DOG, OUTLINE, SAMPLES, WITH_OUTLINES
from tests.dataset.make import image, write
from yolofast.dataset.check import check_data
from yolofast.dataset.formats.convert import Conversion, ConvertRequest, read_labelled
from yolofast.dataset.formats.fit import Choice
from yolofast.dataset.formats.labelled import LabelledImage, LabelledObject
from yolofast.dataset.formats.recognise import recognise
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.extensions import FORMATS, FormatPlaces

RENAMED = {"visdrone": {"car": "cat", "van": "dog"}}
NAMES = {"visdrone": ("cat", "dog")}


def convert(source, out, to="yolo", form="auto", say=lambda line: None, **more):
    conversion = Conversion(ConvertRequest(source, to, form, **more), say)
    conversion.make(out)
    return conversion


def objects_of(folder, splits=("train", "val")):
    """By the first letter of the image: class, box in pixels, points of the outline."""
    found = {}
    for split in splits:
        index = read_split(folder / "data.yaml", split, cache=False)
        for place in range(len(index)):
            width, height = index.sizes[place]
            own = []
            for box in range(*index.boxes_of(place).indices(len(index.labels))):
                cx, cy, w, h = index.boxes[box] * np.array([width, height, width, height])
                points = index.points[index.point_starts[box] : index.point_starts[box + 1]] * np.array([width, height])
                own.append((index.names[index.labels[box]], (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2), points))
            found[index.path(place).name[0]] = own
    return found


@pytest.mark.parametrize("to", ["yolo", "coco"])
@pytest.mark.parametrize("form", SAMPLES)
def test_every_form_gives_the_same_data_set(tmp_path, form, to):
    """Recognised by its content, converted, and then read as training reads it. Nothing is wrong with the result."""
    SAMPLES[form](tmp_path / "source")
    choice = Choice(RENAMED.get(form, {}), NAMES.get(form, ()))
    splits = () if form not in samples.WITHOUT_SPLITS else ("train=train.txt", "val=val.txt")
    if splits:
        write(tmp_path / "train.txt", "a\nc\n")
        write(tmp_path / "val.txt", "b\n")
        splits = tuple(f"{name}={tmp_path / name}.txt" for name in ("train", "val"))
    made = convert(tmp_path / "source", tmp_path / "out", to, form, choice=choice, splits=splits)
    assert not [fault for fault in made.found.faults if fault.fatal]
    seen = recognise(tmp_path / "source")
    assert seen.format == form and f"--from {form} --to yolo" in seen.command and "calib" not in seen.seen
    assert not [fault for split in check_data(tmp_path / "out" / "data.yaml") for fault in split.faults]

    found = objects_of(tmp_path / "out")
    assert [name for name, _, _ in found["a"]] == ["cat", "dog"] and [name for name, _, _ in found["b"]] == ["dog"]
    for (_, box, _), wanted in zip([*found["a"], *found["b"]], (CAT, DOG, BIG_DOG), strict=True):
        np.testing.assert_allclose(box, wanted, atol=1e-4)
    assert found.get("c", []) == [] and ("c" in found) is (form != "openimages")
    if form in WITH_OUTLINES:
        np.testing.assert_allclose(found["a"][0][2].ravel(), OUTLINE, atol=1e-4)


@pytest.mark.parametrize("first", ["yolo", "coco"])
@pytest.mark.parametrize("second", ["yolo", "coco"])
def test_there_and_back(tmp_path, first, second):
    """Boxes stay to a millionth of a pixel. YOLO files cannot mix, so a box beside an outline becomes four corners."""
    samples.labelme(tmp_path / "source")
    splits = ("train=1",)
    convert(tmp_path / "source", tmp_path / "one", first, splits=splits)
    convert(tmp_path / "one", tmp_path / "two", second, splits=splits)
    convert(tmp_path / "two", tmp_path / "three", first, splits=splits)
    one, three = (objects_of(tmp_path / name, ["train"]) for name in ("one", "three"))
    assert one.keys() == three.keys()
    for name in one:
        for (label, box, points), (label_after, box_after, points_after) in zip(one[name], three[name], strict=True):
            assert label == label_after
            np.testing.assert_allclose(box, box_after, atol=1e-4)
            if len(points) or second == first == "coco":
                np.testing.assert_allclose(points, points_after, atol=1e-4)
    if first == second == "yolo":
        texts = [
            sorted(path.read_text() for path in (tmp_path / name).rglob("labels/**/*.txt")) for name in ("one", "three")
        ]
        assert texts[0] == texts[1]


def test_a_zip_of_every_form_is_read(tmp_path):
    for form in ("voc", "roboflow", "coco"):
        SAMPLES[form](tmp_path / form)
        packed = tmp_path / f"{form}.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            for path in sorted((tmp_path / form).rglob("*")):
                archive.write(path, f"my export/{path.relative_to(tmp_path / form)}")
            archive.writestr("__MACOSX/my export/._a.jpg", "junk")
        assert recognise(packed).format == form
        convert(packed, tmp_path / f"{form}-out")
        found = objects_of(tmp_path / f"{form}-out")
        assert len(found["a"]) == 2 and len(found["b"]) == 1
        files = list((tmp_path / f"{form}-out" / "images").rglob("*.jpg"))
        assert len(files) == 3 and not any(path.is_symlink() for path in files)
    assert not list(tmp_path.glob(".*")), "what was unpacked is gone"
    remarks = json.loads((tmp_path / "roboflow-out" / "conversion.json").read_text())["remarks"]
    assert any(one.startswith(f"{tmp_path / 'roboflow.zip'}/my export/data.yaml:1: ") for one in remarks), remarks


def test_faults_in_a_zip_name_the_zip(tmp_path):
    SAMPLES["voc"](tmp_path / "voc")
    with zipfile.ZipFile(tmp_path / "voc.zip", "w") as archive:
        for path in sorted((tmp_path / "voc").rglob("*")):
            archive.write(path, path.relative_to(tmp_path / "voc"))
        archive.writestr("Annotations/d.xml", "<annotation>")
    with pytest.raises(UserError) as caught:
        convert(tmp_path / "voc.zip", tmp_path / "out")
    assert f"{tmp_path / 'voc.zip'}/Annotations/d.xml" in str(caught.value) and ".unpacked" not in str(caught.value)


def test_coco_parts_masks_crowds_and_areas_stay(tmp_path):
    image(tmp_path / "images/a.jpg")
    parts = [[1, 1, 9, 1, 9, 9], [20, 20, 30, 20, 30, 30, 20, 30]]
    mask = {"counts": [0, 48 * 64], "size": [48, 64]}
    annotations = [
        {"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 1, 29, 29], "area": 77.5, "segmentation": parts},
        {"id": 2, "image_id": 1, "category_id": 3, "bbox": [0, 0, 64, 48], "iscrowd": 1, "segmentation": mask},
    ]
    content = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 64, "height": 48, "video_id": 4}],
        "annotations": annotations,
        "categories": [{"id": 3, "name": "cat"}],
    }
    write(tmp_path / "train.json", json.dumps(content))
    convert(tmp_path / "train.json", tmp_path / "coco", "coco")
    back = json.loads((tmp_path / "coco/annotations/train.json").read_text())
    whole, crowd = back["annotations"]
    assert (whole["segmentation"], whole["area"], whole["iscrowd"]) == (parts, 77.5, 0)
    assert (crowd["segmentation"], crowd["iscrowd"]) == (mask, 1)
    assert back["categories"] == [{"id": 3, "name": "cat"}]
    made = convert(tmp_path / "train.json", tmp_path / "yolo")
    assert made.found.dropped == Counter({"crowds, which YOLO labels cannot mark": 1})
    assert "category_ids: [3]" in (tmp_path / "yolo/data.yaml").read_text()


def test_the_frames_of_a_cvat_video(tmp_path):
    """Between key frames boxes are interpolated; a frame that the object has left, or that has none, is background."""
    samples.cvat_video(tmp_path / "video")
    made = convert(tmp_path / "video", tmp_path / "out", splits=("train=0.5", "val=0.5"))
    images = {os.path.basename(one.file): one for one in made.found.images}
    assert [len(images[f"frame_{i:06}.png"].objects) for i in range(5)] == [1, 1, 1, 0, 0]
    assert images["frame_000001.png"].objects[0].box == (10, 10, 20, 20)
    assert made.found.changed["boxes interpolated between key frames"] == 1
    assert {one.split for one in made.found.images} == {"train"}, "one video is not divided"
    assert any("--group none" in remark for remark in made.found.remarks)


def test_voc_counts_from_one_unless_a_box_begins_at_zero(tmp_path):
    samples.voc(tmp_path / "voc")
    path = tmp_path / "voc/Annotations/a.xml"
    write(path, path.read_text().replace("<xmin>9</xmin>", "<xmin>0</xmin>"))
    found = read_labelled(tmp_path / "voc", "voc", None)
    boxes = {one.name: one.box for image in found.images for one in image.objects if image.file.endswith("a.jpg")}
    assert boxes["cat"] == (0, 13, 24, 36) and boxes["dog"] == (33, 7, 64, 24)
    assert "not counted from 1" in found.remarks[0]


@pytest.mark.parametrize("line", ["{}", "{}.jpg", "JPEGImages/{}.jpg", "{}  1", "JPEGImages/{}.jpg Annotations/{}.xml"])
def test_names_with_spaces_in_the_lists_of_voc(tmp_path, line):
    samples.voc(tmp_path / "voc")
    name = "c" if "  1" in line or "xml" in line else "my été 1"
    for file in (tmp_path / "voc/JPEGImages/c.jpg", tmp_path / "voc/Annotations/c.xml"):
        file.rename(file.with_stem(name))
    write(tmp_path / "voc/ImageSets/Main/train.txt", f"a\n{line.format(name, name)}\n")
    found = read_labelled(tmp_path / "voc", "voc", None)
    splits = {os.path.basename(one.file): one.split for one in found.images}
    assert splits == {"a.jpg": "train", "b.jpg": "val", f"{name}.jpg": "train"} and not found.dropped


def test_images_that_lie_beside_the_folder_of_labels_are_said(tmp_path):
    samples.voc(tmp_path / "voc")
    (remark,) = read_labelled(tmp_path / "voc/Annotations", "voc", None).remarks
    assert remark.startswith(f"no image lies below {tmp_path}/voc/Annotations, so those of {tmp_path}/voc are used")


def test_voc_outlines_and_turned_boxes(tmp_path):
    samples.voc(tmp_path / "voc", polygon=True)
    path = tmp_path / "voc/Annotations/b.xml"
    turned = "<robndbox><cx>32</cx><cy>24</cy><w>20</w><h>10</h><angle>1.5707963</angle></robndbox>"
    box = path.read_text()[path.read_text().index("<bndbox>") : path.read_text().index("</bndbox>") + 9]
    write(path, path.read_text().replace(box, turned))
    found = {one.file[-5]: one.objects for one in read_labelled(tmp_path / "voc", "voc", None).images}
    assert found["a"][0].parts == [OUTLINE]
    np.testing.assert_allclose(found["b"][0].box, (27, 14, 37, 34), atol=1e-3)


def test_labelme_groups_are_one_object_and_lines_are_left_out(tmp_path):
    samples.labelme(tmp_path / "x")
    path = tmp_path / "x/b.json"
    content = json.loads(path.read_text())
    part = {"label": "dog", "group_id": 7, "shape_type": "polygon", "flags": {}}
    content["shapes"] = [
        {**part, "points": [[0, 0], [10, 0], [10, 10]]},
        {**part, "points": [[40, 30], [50, 30], [50, 40]]},
        {**part, "shape_type": "line", "points": [[0, 0], [1, 1]]},
        {**part, "group_id": None, "shape_type": "circle", "points": [[30, 20], [30, 25]]},
        {**part, "group_id": None, "shape_type": "mask", "points": [[3, 4], [9, 8]], "mask": "iVBORw0="},
        {**part, "group_id": None, "shape_type": "rectangle", "points": [[5, 6], [30, 6], [30, 20], [5, 20]]},
    ]
    write(path, json.dumps(content))
    write(tmp_path / "x/alone.json", json.dumps(content | {"imageData": "iVBORw0=", "imagePath": "gone.jpg"}))
    found = read_labelled(tmp_path / "x", "labelme", None)
    (one,) = [image for image in found.images if image.file.endswith("b.jpg")]
    assert [(len(each.parts), each.box) for each in one.objects] == [
        (2, (0, 0, 50, 40)), (0, (25, 15, 35, 25)), (0, (3, 4, 9, 8)), (0, (5, 6, 30, 20))
    ]  # fmt: skip
    assert found.dropped["lines and points, which have no area"] == 1
    assert found.dropped["outlines of masks, whose boxes are kept"] == 1
    (missing,) = found.faults
    assert "there is no image 'gone.jpg' near it" in missing.what


@pytest.mark.parametrize("form", ["yolo", "coco"])
def test_labelme_images_inside_of_their_files(tmp_path, form):
    """One is still beside its file, two are only in it; all come out, where their labels are, with the same bytes."""
    samples.labelme(tmp_path / "x/train")
    samples.images(tmp_path, "b", ".png")  # of the same name, but of something else
    inside = {"a.jpg": (tmp_path / "x/train/a.jpg").read_bytes(), "b.png": (tmp_path / "b.png").read_bytes()}
    for name, content in inside.items():
        path = tmp_path / f"x/train/{name[0]}.json"
        whole = json.loads(path.read_text()) | {"imageData": base64.b64encode(content).decode()}
        write(path, json.dumps(whole))
        (tmp_path / f"x/train/{name[0]}.jpg").unlink()
    made = convert(tmp_path / "x", tmp_path / "out", form, splits=("train=2", "val=1"), group="folder")
    assert made.found.changed["pictures taken from their JSON files"] == 2
    images = {path.name: path for path in (tmp_path / "out/images").rglob("*.*g")}
    assert sorted(images) == ["a.jpg", "b.png", "c.jpg"] and images["c.jpg"].is_symlink()
    assert {name: images[name].read_bytes() for name in inside} == inside
    assert len({path.parent for path in images.values()}) == 1, "one folder, one group"
    found = objects_of(tmp_path / "out", [images["a.jpg"].parent.name])
    np.testing.assert_allclose(found["a"][0][2].ravel(), OUTLINE, atol=1e-4)
    assert [name for name, _, _ in found["b"]] == ["dog"]
    assert not list(tmp_path.glob(".*")), "what was put aside is gone"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("iVBORw0=", "is no .png or .jpg in base64"),
        ("/etc/passwd", "is no .png or .jpg in base64"),
        ("not base64!", "is no .png or .jpg in base64"),
        ([1], "is no .png or .jpg in base64"),
        (base64.b64encode(b"\xff\xd8\xff\xe0 cut").decode(), "ends before the image does"),
        (
            base64.b64encode(samples.png_head(60_000, 60_000)).decode(),
            "says it has 60000×60000 pixels, more than the 67,108,864 that are allowed",
        ),
    ],
)
def test_labelme_images_that_cannot_be_used(tmp_path, data, reason):
    samples.labelme(tmp_path / "x")
    path = tmp_path / "x/a.json"
    write(path, json.dumps(json.loads(path.read_text()) | {"imageData": data}))
    (tmp_path / "x/a.jpg").unlink()
    with pytest.raises(UserError, match="1 fault") as caught:
        convert(tmp_path / "x", tmp_path / "out")
    assert f"{path}: there is no image" in str(caught.value) and f"the one inside (imageData) {reason}" in str(
        caught.value
    )
    assert os.listdir(tmp_path) == ["x"]
    convert(tmp_path / "x", tmp_path / "out", skip_bad=True)
    assert sorted(objects_of(tmp_path / "out")) == ["b", "c"]


@pytest.mark.parametrize("style", ["coco", "csv", "voc"])
def test_roboflow_in_other_forms(tmp_path, style):
    root = tmp_path / "x"
    if style == "coco":
        samples.coco_files(root, "roboflow")
    else:
        samples.roboflow(root)
        (root / "data.yaml").unlink()
        for split in ("train", "valid"):
            rows = "filename,width,height,class,xmin,ymin,xmax,ymax\n"
            for file in sorted((root / split / "images").iterdir()):
                for label, box in samples.OBJECTS[file.name[0]]:
                    rows += f"{file.name},64,48,{label},{','.join(map(str, box))}\n"
                if style == "voc":
                    objects = "".join(
                        f"<object><name>{label}</name><bndbox>"
                        + "".join(
                            f"<{tag}>{value + 0.5}</{tag}>"
                            for tag, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
                        )
                        + "</bndbox></object>"
                        for label, box in samples.OBJECTS[file.name[0]]
                    )
                    write(root / split / "images" / f"{file.stem}.xml", f"<annotation>{objects}</annotation>")
            if style == "csv":
                write(root / split / "_annotations.csv", rows)
    found = read_labelled(root, "roboflow", None)
    assert sorted((one.split, len(one.objects)) for one in found.images if one.objects) == [("train", 2), ("val", 1)]
    assert found.classes() == ["cat", "dog"], "not the empty category in front"


def test_darknet_as_cvat_writes_it(tmp_path):
    samples.darknet(tmp_path / "x")
    for place in (tmp_path / "x", tmp_path / "x/obj.data"):
        assert recognise(place).format == "yolo"
        found = read_labelled(place, "yolo", None)
        assert found.classes() == ["cat", "dog"] and [len(one.objects) for one in found.images] == [2, 1, 0]
        assert {one.split for one in found.images} == {"train"}


def test_labels_without_names_are_called_by_their_numbers(tmp_path):
    samples.yolo(tmp_path / "x")
    (tmp_path / "x/data.yaml").unlink()
    found = read_labelled(tmp_path / "x", "yolo", None)
    assert found.classes() == ["0", "1"] and "--map 0=cat" in found.remarks[0]
    convert(tmp_path / "x", tmp_path / "out", choice=Choice({"0": "cat", "1": "dog"}))
    assert "names: [cat, dog]" in (tmp_path / "out/data.yaml").read_text()


def test_images_elsewhere(tmp_path):
    samples.cvat(tmp_path / "x")
    (tmp_path / "x/images").rename(tmp_path / "pictures")
    (tmp_path / "other").mkdir()
    (tmp_path / "x/annotations.xml").rename(tmp_path / "other/annotations.xml")
    with pytest.raises(UserError, match=r"other/annotations.xml:5: there is no image 'a.jpg' near it"):
        convert(tmp_path / "other/annotations.xml", tmp_path / "out", images=tmp_path / "x")
    convert(tmp_path / "other/annotations.xml", tmp_path / "out", images=tmp_path / "pictures")
    assert len(objects_of(tmp_path / "out")["a"]) == 2


def test_a_form_of_ones_own_is_a_file_and_a_line(tmp_path, monkeypatch):
    """It is recognised and converted like those that are there."""

    def read(place, images, found):
        for line in (place / "dots.txt").read_text().splitlines():
            name, x, y = line.split()
            dot = LabelledObject("dot", (int(x) - 5, int(y) - 5, int(x) + 5, int(y) + 5))
            found.images.append(LabelledImage(str(place / name), str(place / "dots.txt"), objects=[dot]))

    own = ModuleType("own_form")
    own.recognise, own.read = lambda evidence: "dots" if "dots.txt" in evidence.names else None, read
    monkeypatch.setitem(sys.modules, "own_form", own)
    monkeypatch.setitem(FORMATS, "dots", FormatPlaces(title="dots", holds="images", code="own_form"))
    samples.images(tmp_path / "source")
    write(tmp_path / "source" / "dots.txt", "".join(f"{name} 20 10\n" for name in ("a.jpg", "b.jpg", "c.jpg")))
    assert recognise(tmp_path / "source").format == "dots"
    assert convert(tmp_path / "source", tmp_path / "out").names == ["dot"]
    found = objects_of(tmp_path / "out")
    assert sorted(found) == ["a", "b", "c"]
    for ((name, box, _),) in found.values():
        assert name == "dot" and box == pytest.approx((15, 5, 25, 15))
