import contextlib
import io
import json
import warnings
from dataclasses import astuple

import numpy as np
import pytest

from tests.evaluate.made_up import found, index, perturbed, random_boxes
from tests.sample_data import sample
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.evaluate.coco import CocoMetrics
from yolofast.evaluate.coco_truth import coco_truth
from yolofast.evaluate.matching import ground_truth
from yolofast.evaluate.result_files import results_json

SIZE = (200, 150)


def by_pycocotools(truth_file, results_file):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(truth_file))
        evaluation = COCOeval(coco, coco.loadRes(str(results_file)), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation


def objects_of(split, area=lambda box: box[2] * box[3]):
    """The split's boxes as annotations, by hand."""
    objects = []
    for image in range(len(split)):
        width, height = split.sizes[image].tolist()
        for place in range(*split.boxes_of(image).indices(len(split.labels))):
            cx, cy, w, h = (float(value) for value in split.boxes[place])
            box = [(cx - w / 2) * width, (cy - h / 2) * height, w * width, h * height]
            objects.append(
                {
                    "id": len(objects) + 1,
                    "image_id": int(split.image_ids[image]),
                    "category_id": int(split.category_ids[split.labels[place]]),
                    "bbox": box,
                    "area": area(box),
                    "iscrowd": int(split.crowd[place]),
                }
            )
    return objects


def write_annotations(path, split, objects):
    images = [
        {"id": int(number), "file_name": f"{number}.jpg", "width": int(size[0]), "height": int(size[1])}
        for number, size in zip(split.image_ids, split.sizes, strict=True)
    ]
    categories = [
        {"id": int(i), "name": name} for i, name in zip(split.category_ids, split.names, strict=True) if i >= 0
    ]
    path.write_text(json.dumps({"images": images, "annotations": objects, "categories": categories}))
    return path


def made_up_split(rng, annotations=None, **more):
    """Odd ids, crowds (one of them alone in its class and image), images without boxes."""
    boxes = [*random_boxes(rng, 24, 3), [(2, 0.5, 0.5, 0.5, 0.5)], []]
    total = sum(map(len, boxes))
    crowd = [*rng.choice(total, 5, replace=False), total - 1]
    options = {"image_ids": np.arange(26) * 7 + 3, "category_ids": [5, 90, 17], **more}
    return index(boxes, [SIZE] * 26, crowd=crowd, annotations=annotations, **options)


def guess(rng, metrics, split):
    true = ground_truth(split, range(len(split)))
    for image, one in enumerate(true[:-1]):  # nothing was found on the last image
        metrics.add([image], [perturbed(rng, one.boxes, one.labels, split.sizes[image], len(split.names))])


def check(tmp_path, metrics, split, truth_file):
    """Our numbers are those of pycocotools on the annotation file and the file of results we save."""
    (tmp_path / "results.json").write_bytes(results_json(metrics.rows(), split))
    reference = by_pycocotools(truth_file, tmp_path / "results.json")
    result = metrics.result()
    np.testing.assert_allclose(astuple(result.all), reference.stats, atol=1e-12)
    order = np.argsort(split.category_ids)  # pycocotools sorts its classes by id
    for place, label in enumerate(order):
        precision = reference.eval["precision"][:, :, place, 0, -1]
        assert result.per_class[label].ap == pytest.approx(
            precision[precision > -1].mean() if precision.max() > -1 else -1
        )
    return result


def test_labels_equal_pycocotools(tmp_path):
    rng = np.random.default_rng(0)
    split = made_up_split(rng)
    metrics = CocoMetrics(split)
    guess(rng, metrics, split)
    result = check(tmp_path, metrics, split, write_annotations(tmp_path / "a.json", split, objects_of(split)))
    assert 0.1 < result.all.ap < 0.9


def test_an_annotation_file_equals_pycocotools(tmp_path):
    """Areas are those of outlines, smaller than the boxes, which only the file knows."""
    rng = np.random.default_rng(1)
    bare = made_up_split(rng)
    file = write_annotations(tmp_path / "a.json", bare, objects_of(bare, area=lambda box: box[2] * box[3] * 0.4))
    split = made_up_split(np.random.default_rng(1), annotations=file)
    metrics = CocoMetrics(split)
    guess(rng, metrics, split)
    result = check(tmp_path, metrics, split, file)
    from_labels = CocoMetrics(bare)
    from_labels.merge(metrics.found)
    assert from_labels.result().all.ap_small != result.all.ap_small


def test_objects_numbered_from_0_and_without_area_are_no_trouble(tmp_path):
    rng = np.random.default_rng(2)
    bare = made_up_split(rng)
    objects = objects_of(bare)
    file = write_annotations(tmp_path / "sound.json", bare, objects)
    lacking = [{k: v for k, v in one.items() if k != "area"} | {"id": n} for n, one in enumerate(objects)]
    other = write_annotations(tmp_path / "lacking.json", bare, [*lacking, {"image_id": 3, "category_id": 5}])
    split = made_up_split(np.random.default_rng(2), annotations=other)
    metrics = CocoMetrics(split)
    guess(rng, metrics, split)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(tmp_path, metrics, split, file)


def test_a_file_that_states_other_sizes(tmp_path):
    """The images were halved after they had been annotated: rows are in the file's pixels."""
    rng = np.random.default_rng(3)
    stated = made_up_split(rng)
    file = write_annotations(tmp_path / "a.json", stated, objects_of(stated))
    boxes = [stated.boxes_of(image) for image in range(len(stated))]
    rows = [np.column_stack((stated.labels[b], stated.boxes[b])).tolist() for b in boxes]
    options = {"image_ids": stated.image_ids, "category_ids": stated.category_ids, "annotations": file}
    halved = index(rows, stated.sizes // 2, crowd=np.flatnonzero(stated.crowd), **options)
    metrics = CocoMetrics(halved)
    guess(rng, metrics, halved)
    assert check(tmp_path, metrics, halved, file).all.ap > 0.1


def test_some_images_of_a_file_only(tmp_path):
    rng = np.random.default_rng(4)
    whole = made_up_split(rng)
    chosen = [3, 0, 8, 11]
    file = write_annotations(tmp_path / "all.json", whole, objects_of(whole))
    part = made_up_split(np.random.default_rng(4), annotations=file).take(chosen)
    metrics = CocoMetrics(part)
    guess(rng, metrics, part)
    few = whole.take(chosen)
    check(tmp_path, metrics, part, write_annotations(tmp_path / "few.json", few, objects_of(few)))


def test_a_class_the_file_does_not_have(tmp_path):
    rng = np.random.default_rng(5)
    boxes = [[row for row in rows if row[0] != 1] for rows in random_boxes(rng, 10, 3)]
    options = {"category_ids": [5, -1, 17]}
    bare = index(boxes, [SIZE] * 10, **options)
    file = write_annotations(tmp_path / "a.json", bare, objects_of(bare))
    split = index(boxes, [SIZE] * 10, annotations=file, **options)
    metrics = CocoMetrics(split)
    guess(rng, metrics, split)
    (tmp_path / "results.json").write_bytes(results_json(metrics.rows(), split))
    result = metrics.result()
    np.testing.assert_allclose(astuple(result.all), by_pycocotools(file, tmp_path / "results.json").stats, atol=1e-12)
    assert result.per_class[1].ap == -1


def test_several_categories_as_one_class(tmp_path):
    rng = np.random.default_rng(6)
    bare = made_up_split(rng)
    file = write_annotations(tmp_path / "a.json", bare, objects_of(bare))
    boxes = [[(0, *bare.boxes[place]) for place in range(*bare.boxes_of(i).indices(999))] for i in range(len(bare))]
    options = {"nc": 1, "image_ids": bare.image_ids, "crowd": np.flatnonzero(bare.crowd)}
    from_file, from_labels = (CocoMetrics(index(boxes, bare.sizes, annotations=a, **options)) for a in (file, None))
    guess(rng, from_file, index(boxes, bare.sizes, **options))
    from_labels.merge(from_file.found)
    assert astuple(from_file.result().all) == pytest.approx(astuple(from_labels.result().all), abs=1e-6)


def test_rows_are_those_of_a_results_file():
    split = index([[], []], [SIZE] * 2, image_ids=[42, 7], category_ids=[1, 2, 90])
    metrics = CocoMetrics(split)
    metrics.add(np.array([1]), [found((0.123456, 2, 1.23456, 2, 11.5, 22.00049))])
    (row,) = json.loads(results_json(metrics.rows(), split))
    assert row == {"image_id": 7, "category_id": 90, "bbox": [1.235, 2.0, 10.265, 20.0], "score": 0.12346}


def test_nothing_found_and_nothing_to_find(capfd):
    split = index([[(0, 0.5, 0.5, 0.5, 0.5)], []], [SIZE] * 2)
    metrics = CocoMetrics(split)
    assert metrics.result().all.ap == 0
    assert json.loads(results_json(metrics.rows(), split)) == []
    metrics.add([0, 1], [found(), found((0.5, 0, 1, 1, 9, 9))])
    assert metrics.result().all.ap == 0
    assert metrics.result().per_class[1].ap == -1
    empty = CocoMetrics(index([[]], [SIZE]))
    empty.add([0], [found((0.5, 0, 1, 1, 9, 9))])
    assert empty.result().all.ap == -1
    assert capfd.readouterr() == ("", "")


def test_the_result_as_json():
    split = index([[(0, 0.5, 0.5, 0.5, 0.5)]], [SIZE])
    metrics = CocoMetrics(split)
    metrics.add([0], [found((0.9, 0, 50, 37.5, 150, 112.5))])
    content = json.loads(json.dumps(metrics.result().as_dict(split.names)))
    assert content["all"]["ap"] == content["per_class"]["0"]["ap_medium"] == 1
    assert content["per_class"]["1"] == {"name": "class 1"} | dict.fromkeys(content["all"], -1.0)


def test_an_annotation_file_that_is_gone(tmp_path):
    with pytest.raises(UserError, match=r"gone\.json.*cannot be read"):
        CocoMetrics(index([[]], [SIZE], annotations=tmp_path / "gone.json"))


def test_coco_images_equal_pycocotools(tmp_path):
    folder = sample("coco200")
    yaml = f"path: {folder}\nval: images/val\nannotations: {{val: instances_val.json}}\n"
    (tmp_path / "data.yaml").write_text(yaml)
    split = read_split(tmp_path / "data.yaml", "val", cache=False)
    assert split.annotations is not None
    rng = np.random.default_rng(7)
    metrics = CocoMetrics(split)
    guess(rng, metrics, split)
    assert check(tmp_path, metrics, split, folder / "instances_val.json").all.ap > 0.1


def test_numbers_that_no_image_has_and_ids_that_are_text(tmp_path):
    rng = np.random.default_rng(8)
    sound = made_up_split(rng)
    objects = objects_of(sound)
    file = write_annotations(tmp_path / "sound.json", sound, objects)
    content = json.loads(file.read_text())
    content["annotations"] = [{**one, "image_id": str(one["image_id"]), "id": []} for one in content["annotations"]]
    content["annotations"] += [{**objects[0], "image_id": [1]}, {**objects[0], "category_id": {}}]
    content["images"][0] |= {"width": 10**400, "height": 1}
    content["categories"] += [{"id": 2**40, "name": ["cat"]}]
    (tmp_path / "odd.json").write_text(json.dumps(content))
    split = made_up_split(np.random.default_rng(8), annotations=tmp_path / "odd.json")
    metrics = CocoMetrics(split)
    guess(rng, metrics, split)
    assert check(tmp_path, metrics, split, file).all.ap > 0.1


def test_areas_that_no_object_has(tmp_path):
    """They count as not said."""
    split = made_up_split(np.random.default_rng(9))
    objects = [one | {"area": (10**400, float("nan"), "x")[n % 3]} for n, one in enumerate(objects_of(split))]
    file = write_annotations(tmp_path / "odd.json", split, objects)
    rows = coco_truth(made_up_split(np.random.default_rng(9), annotations=file)).document["annotations"]
    assert [one["area"] for one in rows] == [one["bbox"][2] * one["bbox"][3] for one in rows]


@pytest.mark.parametrize("content", ["[1]", '{"images": [1]}', "[" * 100_000, '{"annotations": {}}', "1" * 5000])
def test_an_annotation_file_that_was_changed_since(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UserError, match="cannot be read for evaluation"):
        coco_truth(made_up_split(np.random.default_rng(1), annotations=tmp_path / "a.json"))
