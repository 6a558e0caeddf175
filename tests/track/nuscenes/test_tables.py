"""What is refused of nuScenes' tables: every fault is one message with file and place, and leaves nothing behind."""

import json
import math
import re

import pytest

from tests.track.nuscenes.made_up import convert, make_root, table
from yolofast.cli import main
from yolofast.errors import UserError
from yolofast.track.nuscenes.choices import choose_cameras, choose_classes, choose_splits, data_key, official_splits


def changed(name, number, /, **values):
    """The table with one entry changed; a value of None removes the key."""
    rows = table(name)
    rows[number] |= values
    rows[number] = {key: value for key, value in rows[number].items() if value is not None}
    return {name: rows}


def cut_off(name, count):
    return {name: json.dumps(table(name))[:-count]}


@pytest.fixture
def refused(tmp_path, capsys):
    """Converts what is expected to be refused, and gives the message."""

    def run(changes, *flags):
        root = make_root(tmp_path / "root", changes)
        assert convert(root, tmp_path / "out", *flags) == 2
        assert sorted(path.name for path in tmp_path.iterdir()) == ["root"]  # nothing half-written
        return capsys.readouterr().err

    return run


NOT_A_NUMBER = math.nan
FAULTS = {
    "missing table": ({"ego_pose": None, "sample": None}, "v1.0-syn: has no sample.json, ego_pose.json"),
    "cut off": (cut_off("sample_annotation", 40), "sample_annotation.json:1: .*in entry 220; it may have been cut off"),
    "not a list": ({"scene": {"a": 1}}, "scene.json:1: .*does not begin with a list"),
    "dangling sample": (
        changed("sample_annotation", 7, sample_token="0000"),
        "sample_annotation.json: entry 7: sample_token '0000' is not in sample.json",
    ),
    "dangling pose": (
        changed("sample_data", 0, ego_pose_token="0000"),
        "sample_data.json: 1 image without a usable entry in ego_pose.json, the first samples/CAM_FRONT/",
    ),
    "dangling calibration": (
        changed("sample_data", 3, calibrated_sensor_token="0000"),
        "sample_data.json: entry 3: calibrated_sensor_token '0000' is not in calibrated_sensor.json",
    ),
    "no token": (changed("instance", 2, token=None), "instance.json: entry 2: token is None, not text"),
    "token twice": (
        changed("category", 1, token=table("category")[0]["token"]),
        "category.json: entry 1: the token '.*' stands twice",
    ),
    "zero rotation": (
        changed("sample_annotation", 5, rotation=[0, 0, 0, 0.0]),
        r"sample_annotation.json: entry 5: rotation is \[0, 0, 0, 0.0\], which is no rotation",
    ),
    "NaN": (
        changed("sample_annotation", 5, translation=[1, NOT_A_NUMBER, 2]),
        r"entry 5: translation is \[1, nan, 2\], not 3 numbers",
    ),
    "too few numbers": (changed("ego_pose", 0, translation=[1, 2]), r"ego_pose.json: entry 0: translation is \[1, 2\]"),
    "no size": (changed("sample_annotation", 0, size=[1, 0, 2]), r"size is \[1, 0, 2\], not three lengths above 0"),
    "visibility": (changed("sample_annotation", 0, visibility_token="5"), "visibility_token is '5', not 1 to 4"),
    "intrinsics": (
        changed("calibrated_sensor", 0, camera_intrinsic=[[1, 0, 0], [0, -1, 0], [0, 0, 1]]),
        "calibrated_sensor.json: entry 0: camera_intrinsic is .*: focal lengths are above 0",
    ),
    "no image size": (changed("sample_data", 0, width=0), "width is 0, not a whole number from 1"),
    "leading out": (changed("sample_data", 0, filename="../../x.jpg"), "filename is '../../x.jpg', not a file in a"),
    "no image": (changed("sample_data", 0, filename="samples/x.pcd"), "filename is 'samples/x.pcd', which is no image"),
    "image missing": (
        changed("sample_data", 0, filename="samples/CAM_FRONT/other.jpg"),
        "sample_data.json: 1 image that .*root does not have, the first samples/CAM_FRONT/other.jpg",
    ),
    "file twice": (
        changed("sample_data", 0, filename=table("sample_data")[6]["filename"]),
        "1 image whose file another entry has too",
    ),
    "instance twice": (
        {"sample_annotation": [*table("sample_annotation"), table("sample_annotation")[0]]},
        "sample_annotation.json: 1 annotation of an instance that its sample has already",
    ),
    "no scenes": ({"scene": []}, "v1.0-syn has no scene that can be used"),
    "scene twice": (
        changed("scene", 1, name="scene-9001"),
        "scene.json: entry 1: another scene is called 'scene-9001'",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_told_with_file_and_entry(refused, name):
    changes, message = FAULTS[name]
    said = refused(changes)
    assert "Traceback" not in said and "fix: " in said
    assert re.search(message, said), said


def test_bad_entries_can_be_omitted(tmp_path, capsys):
    rows = table("sample_annotation")
    rows[5]["rotation"], rows[9]["sample_token"] = [0, 0, 0, 0], "0000"
    root = make_root(tmp_path / "root", {"sample_annotation": rows})
    missing = root / table("sample_data")[0]["filename"]
    missing.unlink()
    assert convert(root, tmp_path / "whole", "--skip-bad") == 0
    said = capsys.readouterr().out
    assert "omitted: " in said and "entry 5: rotation is" in said and "1 image that" in said
    listed = (tmp_path / "whole" / "train.txt").read_text()
    assert missing.name not in listed and len(listed.splitlines()) == 23


def test_tokens_may_be_any_text(tmp_path):
    odd = 'a "b" \\\\ ü'
    instances, rows = table("instance"), table("sample_annotation")
    for row in rows:
        if row["instance_token"] == instances[0]["token"]:
            row["instance_token"] = odd
    instances[0]["token"] = odd
    root = make_root(tmp_path / "root", {"instance": instances, "sample_annotation": rows})
    assert convert(root, tmp_path / "out", "--classes", "all") == 0
    found = json.loads((tmp_path / "out" / "annotations" / "train.json").read_text())["annotations"]
    assert odd in {one["instance_token"] for one in found}


@pytest.mark.slow
def test_thousands_of_faults_are_counted_not_listed(refused):
    rows = [{**row, "sample_token": "0000"} for row in table("sample_annotation") * 10]
    said = refused({"sample_annotation": rows})
    assert "1,001 faults" in said and len(said.splitlines()) < 20


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--cameras", "CAM_FRNT"], "--cameras has 'CAM_FRNT', did you mean 'CAM_FRONT'?"),
        (["--classes", "pedestrain"], "--classes has 'pedestrain', did you mean 'pedestrian'?"),
        (["--classes", "car", "tracking7"], "--classes has tracking7 beside other words"),
        (["--classes", "car", "car"], "--classes has car twice"),
        (["--split", "trian"], "--split has 'trian', did you mean 'train'?"),
        (["--split", "mini_val"], "v1.0-syn has no scene of the split mini_val"),
        (["--version", "v1.0-sin"], "v1.0-sin: no such folder, did you mean"),
        (["--root", "/nowhere"], "/nowhere: no such folder"),
        (["--to", "mot"], "--to is mot, which tables are not converted to"),
        (["--min-visibility", "5"], "--min-visibility is 5"),
        (["--max-occlusion", "2"], "--max-occlusion is 2"),
    ],
)
def test_what_is_typed_wrong_is_told_with_the_nearest(refused, flags, message):
    assert message in refused({}, *flags)


def test_flags_of_nuscenes_and_of_other_formats_do_not_mix(tmp_path, capsys):
    out = ["--out", str(tmp_path / "x.json")]
    for words, message in (
        (["gt", "--to", "coco-video", "--cameras", "CAM_FRONT"], "--cameras is not for sequences, but for tables"),
        (["gt"], "gt: does not exist"),
        (["--to", "mot"], "convert needs SOURCE"),
        (["--from", "nuscenes"], "convert needs --root DIR"),
    ):
        assert main(["convert", *words, *out]) == 2
        assert message in capsys.readouterr().err


def test_an_output_that_is_not_empty_is_left_alone(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").touch()
    assert convert(make_root(tmp_path / "root"), tmp_path / "out") == 2
    assert "is not empty" in capsys.readouterr().err


def test_official_splits_are_chosen_by_the_version():
    splits = official_splits()
    assert [len(splits[name]) for name in ("train", "val", "test", "mini_train", "mini_val")] == [700, 150, 150, 8, 2]
    scenes = splits["train"] + splits["val"]
    chosen, remarks = choose_splits((), None, "v1.0-trainval", scenes)
    assert {name: len(found) for name, found in chosen.items()} == {"train": 700, "val": 150} and not remarks
    mini = splits["mini_train"] + splits["mini_val"]
    assert list(choose_splits((), None, "v1.0-mini", mini)[0]) == ["mini_train", "mini_val"]
    assert choose_splits(("train",), None, "v1.0-mini", mini)[1] == ["train: 6 of its 700 scenes are in v1.0-mini"]
    for version in ("v1.0-mini", "v1.0-mine"):  # official scenes under another name
        assert choose_splits((), None, version, splits["train"][:5] + splits["val"][:2])[0] == {
            "train": splits["train"][:5], "val": splits["val"][:2]
        }  # fmt: skip
    with pytest.raises(UserError, match=r"(?s)no scene of the split val.*give --split train or train_"):  # not both
        choose_splits((), None, "v1.0-trainval", splits["train"][:3])
    with pytest.raises(UserError, match="scene-0001 is in train and in train_"):
        choose_splits(("train", "train_detect", "train_track"), None, "v1.0-trainval", scenes)


def test_scenes_of_ones_own_are_split_or_named(tmp_path):
    scenes = [f"drive-{number}" for number in range(10)]
    chosen, (remark,) = choose_splits((), None, "v1.0-mine", scenes)
    assert chosen == {"train": tuple(scenes[:8]), "val": tuple(scenes[8:])} and "--split-file" in remark
    assert choose_splits((), None, "v1.0-mine", scenes[:1])[0] == {"train": ("drive-0",)}
    file = tmp_path / "splits.yaml"
    file.write_text("train: [drive-1]\nval-night: [drive-3, drive-4]\n")
    assert choose_splits((), file, "v1.0-mine", scenes)[0] == {
        "train": ("drive-1",),
        "val-night": ("drive-3", "drive-4"),
    }
    file.write_text('{"train": ["drive-1", "drive-33"]}')
    with pytest.raises(UserError, match=r"splits.yaml:1: train names drive-33, did you mean 'drive-3'\?"):
        choose_splits((), file, "v1.0-mine", scenes)
    file.write_text("train: drive-1")
    with pytest.raises(UserError, match="'train' must be a list of scenes"):
        choose_splits((), file, "v1.0-mine", scenes)
    assert [data_key(one) for one in ("mini_val", "train_detect", "test-night")] == ["val", "train", "test"]
    for name in ("night", "train_val", "../x_train"):
        with pytest.raises(UserError, match="is none of train, val, test"):
            data_key(name)


def test_classes_stand_for_the_official_categories():
    seven = choose_classes(("tracking7",), ())
    assert seven.names == ("car", "truck", "bus", "trailer", "pedestrian", "motorcycle", "bicycle")
    assert seven.of_category["vehicle.bus.bendy"] == 2 and seven.of_category["human.pedestrian.police_officer"] == 4
    assert not {"human.pedestrian.stroller", "human.pedestrian.wheelchair", "vehicle.construction"} & set(
        seven.of_category
    )
    assert choose_classes(("pedestrian", "barrier"), ()).of_category["movable_object.barrier"] == 1
    assert choose_classes(("all",), ("b", "a")).names == ("a", "b")
    assert len(choose_classes(("detection10",), ()).names) == 10
    assert choose_cameras((), {"CAM_BACK", "CAM_FRONT", "CAM_OWN"}) == ("CAM_FRONT", "CAM_BACK", "CAM_OWN")
