"""The packaged data yamls and recipes: found by the paths users type, with the published numbers."""

import pytest

from yolofast.dataset.data_yaml import read_data_yaml
from yolofast.files.yaml_file import read_yaml
from yolofast.resources import ROOT, find_resource, short_names


@pytest.mark.parametrize("name", ["coco", "coco320", "coco480", "coco640"])
def test_coco(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for typed in (f"data/{name}.yaml", name, f"{name}.yaml"):
        assert find_resource(typed, "data") == ROOT / "data" / f"{name}.yaml"
    data = read_data_yaml(f"data/{name}.yaml")
    assert (data.nc, data.names[0], data.names[79]) == (80, "person", "toothbrush")
    assert data.splits() == ["train", "val", "test"]
    # Published pairs: stop sign is COCO's 13, toothbrush its 90.
    ids = dict(zip(data.names, data.category_ids, strict=True))
    assert (ids["person"], ids["stop sign"], ids["dining table"], ids["toothbrush"]) == (1, 13, 67, 90)
    assert data.places("./coco/val2017.txt")[0] == tmp_path / "coco" / "val2017.txt"
    own = "./coco/val2017.txt" if name == "coco" else f"./{name}/images/val2017"
    assert data.entries("val") == [own], "smaller images are in a folder of their own"


def test_recipes_and_data_sets_do_not_mix():
    assert short_names("data") == ["coco", "coco320", "coco480", "coco640", "nuscenes"]
    assert {"hyp.scratch.tiny", "hyp.scratch.p5", "hyp.scratch.tiny.noota"} <= set(short_names("hyp"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tiny", {"lr0": 0.01, "lrf": 0.01, "cls": 0.5, "obj": 1.0, "scale": 0.5, "mixup": 0.05, "loss_ota": 1}),
        ("p5", {"lrf": 0.1, "cls": 0.3, "obj": 0.7, "translate": 0.2, "scale": 0.9, "mixup": 0.15, "paste_in": 0.15}),
        ("p6", {"lrf": 0.2, "cls": 0.3, "scale": 0.9}),
        ("custom", {"lrf": 0.1, "translate": 0.2, "scale": 0.5, "mixup": 0.0, "paste_in": 0.0}),
        ("tiny.noota", {"lr0": 0.01, "loss_ota": 0, "mosaic": 1.0}),
        ("tiny.nomosaic", {"mosaic": 0.0, "mixup": 0.0, "paste_in": 0.0, "loss_ota": 1}),
        ("tiny.noota.stage4", {"lr0": 0.0001, "lrf": 0.1, "warmup_epochs": 1.0, "warmup_bias_lr": 0.01, "loss_ota": 0}),
        ("tiny.head3.best", {"degrees": 0.0677, "flipud": 0.0395, "fliplr": 0.1938, "shear": 3.0063, "mixup": 0.0127}),
    ],
)
def test_recipes(name, expected):
    recipe = read_yaml(find_resource(f"data/hyp.scratch.{name}.yaml", "hyp")).values
    common = {"momentum": 0.937, "weight_decay": 0.0005, "box": 0.05, "anchor_t": 4.0, "hsv_s": 0.7}
    assert {key: recipe[key] for key in (*expected, *common)} == {**expected, **common}


def test_all_recipes_have_the_same_keys():
    published = [name for name in short_names("hyp") if "demo" not in name]
    keys = {tuple(read_yaml(find_resource(name, "hyp")).values) for name in published}
    assert len(keys) == 1 and len(next(iter(keys))) == 30
