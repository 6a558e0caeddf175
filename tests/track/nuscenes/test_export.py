"""nuScenes exported: every golden box, the same in all formats, with stable identities; and all commands take it."""

import json
import os

import numpy as np
import pytest

from tests.track.nuscenes.made_up import convert, expected, make_root, table
from tests.train.small_run import flags
from yolofast.cli import main
from yolofast.dataset.data_yaml import read_data_yaml
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.resources import find_resource
from yolofast.track.formats.folders import read_sequences
from yolofast.track.formats.sequence import COLUMNS
from yolofast.track.formats.sequences_yaml import read_sequences_yaml
from yolofast.track.formats.video_json import read_video_json
from yolofast.track.nuscenes.boxes import by_appearance

TRACKING7 = ["car", "truck", "bus", "trailer", "pedestrian", "motorcycle", "bicycle"]
ALL = ("--classes", "all", "--min-size", "0")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_root(tmp_path_factory.mktemp("nuscenes") / "root", drawn=True)


@pytest.fixture(scope="module")
def exported(root, tmp_path_factory):
    """By flags, each made once."""
    made = {}

    def export(*flags):
        if flags not in made:
            made[flags] = tmp_path_factory.mktemp("out") / "out"
            assert convert(root, made[flags], *flags) == 0
        return made[flags]

    return export


def boxes_by_token(folder):
    """Of all splits: boxes by the tokens of image and instance, as corners."""
    found = {}
    for path in sorted((folder / "annotations").glob("*.json")):
        document = json.loads(path.read_text())
        tokens = {image["id"]: image["token"] for image in document["images"]}
        for row in document["annotations"]:
            x, y, width, height = row["bbox"]
            found[tokens[row["image_id"]], row["instance_token"]] = [x, y, x + width, y + height]
    return found


def assert_all(found, wanted):
    assert found.keys() == wanted.keys()
    for key, box in wanted.items():
        np.testing.assert_allclose(found[key], box, atol=1e-4, err_msg=str(key))


@pytest.mark.slow
def test_key_frames_have_every_golden_box_and_no_other(exported):
    wanted = {
        (token, box["instance"]): box["near_plane_clipped"]
        for token, image in expected("expected_boxes").items()
        for box in image["boxes"]
        if box["near_plane_clipped"] is not None
    }
    assert len(wanted) == 248
    assert_all(boxes_by_token(exported(*ALL)), wanted)


@pytest.mark.slow
def test_sweeps_have_every_golden_box_and_no_other(exported):
    folder = exported(*ALL, "--frames", "sweeps", "--cameras", "CAM_FRONT")
    sweeps = expected("expected_sweep_boxes")
    wanted = {
        (token, box["instance"]): box["near_plane_clipped"] for token, one in sweeps.items() for box in one["boxes"]
    }
    found = {key: box for key, box in boxes_by_token(folder).items() if key[0] in sweeps}
    assert len(wanted) == 573
    assert_all(found, wanted)
    sequence = read_sequences_yaml(folder / "sequences" / "train").sequences[0]
    assert sequence.info.frame_rate == pytest.approx(12, abs=0.01) and sequence.info.length == 43
    assert sequence.times()[:3].tolist() == [0.0, 0.083333, 0.166667]


def test_all_formats_hold_the_same_boxes(exported):
    folder = exported()
    for split in ("train", "val"):
        truth = read_sequences(folder / "sequences" / split, "truth")
        coco = read_video_json(folder / "annotations" / f"{split}.json", "truth")
        assert list(coco) == list(truth) and sum(map(len, truth.values())) > 100
        for name, one in truth.items():
            for column in COLUMNS:
                other = getattr(coco[name], column)
                other = other - 1 if column == "label" else other  # categories count from 1
                np.testing.assert_allclose(getattr(one, column), other, atol=3e-6, err_msg=column)
            assert set(one.visibility.tolist()) <= {0.2, 0.5, 0.7, 0.9}
        index = read_split(folder / "data.yaml", split)
        with_json = read_split_of_coco(folder, split)
        assert index.names == with_json.names == tuple(TRACKING7)
        assert index.files.tolist() == with_json.files.tolist()
        assert index.image_ids.tolist() == with_json.image_ids.tolist()  # results name the images of the COCO file
        np.testing.assert_array_equal(index.labels, with_json.labels)
        np.testing.assert_allclose(index.boxes, with_json.boxes, atol=1e-6)


def read_split_of_coco(folder, split):
    path = folder / "coco.yaml"
    path.write_text(f"{split}: annotations/{split}.json\nnames: [{', '.join(TRACKING7)}]\n")
    return read_split(path, split)


def test_images_are_linked_and_never_copied(exported, root):
    folder = exported()
    assert (folder / "images" / "samples").resolve() == root / "samples"
    plain = [path for path in folder.rglob("*.jpg") if not path.is_symlink()]
    assert not [path for path in plain if not path.resolve().is_relative_to(root)]
    sequence = folder / "sequences" / "train" / "scene-9001_CAM_FRONT"
    shown = [os.path.basename(os.path.realpath(path)) for path in sorted((sequence / "img1").iterdir())]
    rows = [row for row in table("sample_data") if row["is_key_frame"] and "scene-9001__CAM_FRONT__" in row["filename"]]
    assert shown == [os.path.basename(row["filename"]) for row in sorted(rows, key=lambda row: row["timestamp"])]


def test_identities_count_from_one_by_appearance_and_stay(exported, root, tmp_path):
    truth = read_sequences(exported() / "sequences" / "train", "truth")
    for one in truth.values():
        assert one.identities().tolist() == list(range(1, len(one.identities()) + 1))
        assert by_appearance(one.id).tolist() == one.id.tolist()
    document = json.loads((exported() / "annotations" / "train.json").read_text())
    tracks = {(row["video_id"], row["instance_token"]): row["track_id"] for row in document["annotations"]}
    assert len(set(tracks.values())) == len(tracks)  # different in the whole file
    assert convert(root, tmp_path / "again") == 0
    again = tmp_path / "again" / "annotations" / "train.json"
    assert again.read_bytes() == (exported() / "annotations" / "train.json").read_bytes()
    assert by_appearance(np.array([7, 3, 7, 9, 3])).tolist() == [1, 2, 1, 3, 2]


@pytest.mark.slow
def test_filters_keep_what_their_columns_say(exported):
    def rows(*flags):
        return json.loads((exported(*flags) / "annotations" / "train.json").read_text())["annotations"]

    every = rows(*ALL)
    keys = ("image_id", "instance_token")

    def chosen(found):
        return {tuple(row[key] for key in keys) for row in found}

    assert all(set(row) > {"visibility_level", "truncated", "occluded", "distance"} for row in every)
    assert chosen(rows(*ALL, "--min-visibility", "3")) == chosen(row for row in every if row["visibility_level"] >= 3)
    covered = [row["occluded"] for row in every]
    assert chosen(rows(*ALL, "--max-occlusion", "0.3")) == chosen(row for row in every if row["occluded"] <= 0.3)
    large = rows("--classes", "all", "--min-size", "60")
    assert chosen(large) == chosen(row for row in every if min(row["bbox"][2:]) >= 60)
    assert 0 < len(large) < len(every) and min(covered) == 0 < 0.3 < max(covered) <= 1
    edge = [row for row in every if row["bbox"][0] == 0 or row["bbox"][0] + row["bbox"][2] > 1599.999]
    assert edge and min(row["truncated"] for row in edge) > 0
    ends = [(row, np.array(row["bbox"][:2]), np.array(row["bbox"][:2]) + row["bbox"][2:]) for row in every]
    inside = [row for row, low, high in ends if low.min() > 0 and (high < (1599, 899)).all()]
    assert inside and max(row["truncated"] for row in inside) == 0


def test_classes_and_cameras_are_chosen_in_the_given_order(exported):
    folder = exported("--classes", "pedestrian", "car", "--cameras", "CAM_BACK")
    document = json.loads((folder / "annotations" / "val.json").read_text())
    assert [one["name"] for one in document["categories"]] == ["pedestrian", "car"]
    assert {video["camera"] for video in document["videos"]} == {"CAM_BACK"}
    assert read_sequences_yaml(folder / "sequences" / "val").names == {0: "pedestrian", 1: "car"}


def test_a_split_file_names_the_scenes(root, tmp_path):
    (tmp_path / "splits.yaml").write_text("train_a: [scene-9002]\ntrain_b: [scene-9001]\n")
    assert convert(root, tmp_path / "out", "--split-file", str(tmp_path / "splits.yaml")) == 0
    assert len(read_split(tmp_path / "out" / "data.yaml", "train").files) == 48
    assert "scene-9002" in (tmp_path / "out" / "train_a.txt").read_text()


def test_cameras_without_images_are_told(tmp_path, capsys):
    """They were asked for: an export that lacks them must not look whole."""
    mounts = {row["token"]: row["sensor_token"] for row in table("calibrated_sensor")}
    channels = {row["token"]: row["channel"] for row in table("sensor")}

    def is_back(row):
        return channels[mounts[row["calibrated_sensor_token"]]] == "CAM_BACK"

    rows = [row for row in table("sample_data") if not is_back(row) or "scene-9002" in row["filename"]]
    root = make_root(tmp_path / "root", {"sample_data": rows})
    assert convert(root, tmp_path / "out", "--cameras", "CAM_FRONT", "CAM_BACK") == 0
    said = capsys.readouterr().out
    assert "remark: CAM_BACK: it has images of 1 of the 2 scenes" in said and "remark: CAM_FRONT" not in said


def test_without_annotations_there_are_images_only(tmp_path):
    root = make_root(tmp_path / "root", {"sample_annotation": [], "instance": []})
    assert convert(root, tmp_path / "out") == 0
    assert not (tmp_path / "out" / "labels").exists() and not list((tmp_path / "out").rglob("gt.txt"))
    assert len((tmp_path / "out" / "val.txt").read_text().splitlines()) == 24


@pytest.mark.slow
def test_commands_take_it_as_it_is(exported, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    folder = exported()
    data = str(folder / "data.yaml")
    assert main(["check", "--data", data]) == 0, capsys.readouterr().out
    assert main(["pack", "--data", data, "--img", "64", "--out", str(tmp_path / "store"), "--splits", "val"]) == 0
    assert main(["preview", "--data", data, "--img", "64", "--n", "4", "--out", str(tmp_path / "preview.jpg")]) == 0
    assert (tmp_path / "preview.jpg").stat().st_size > 1000
    truth = folder / "sequences" / "val"
    detections = tmp_path / "detections"
    assert main(["convert", str(truth), "--to", "mot", "--kind", "truth", "--out", str(detections)]) == 0
    for name in [one.name for one in read_sequences_yaml(truth).sequences]:
        (detections / name / "gt").rename(detections / name / "det")
        (detections / name / "det" / "gt.txt").rename(detections / name / "det" / "det.txt")
    more = ["--tracker", "bytetrack", "--nosave", "--project", str(tmp_path), "--name", "tracks"]
    assert main(["track", "--detections", str(detections), *more]) == 0
    capsys.readouterr()
    assert main(["trackval", "--truth", str(truth), "--results", str(tmp_path / "tracks"), "--json"]) == 0
    means = json.loads(capsys.readouterr().out)["means"]
    assert set(means) == {f"scene-9002_{one}" for one in ("CAM_FRONT", "CAM_BACK", "CAM_FRONT_LEFT")} | {"COMBINED"}
    assert means["COMBINED"]["DetA"] > 0.5
    assert main(["trackval", "--truth", str(truth), "--results", str(truth), "--json"]) == 2  # truth is no result


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_a_detector_trains_on_it_and_tracks(exported, tmp_path):
    data = exported() / "data.yaml"
    own = flags(tmp_path, data=data, epochs=1, batch_size=24, project=tmp_path, name="run")
    assert main(["train", *own, "--noautoanchor"]) == 0
    source = exported() / "sequences" / "val" / "scene-9002_CAM_FRONT"
    weights = str(tmp_path / "run" / "weights" / "last.pt")
    more = ["--img", "64", "--device", "cpu", "--nosave", "--project", str(tmp_path), "--name", "tracks"]
    assert main(["track", "--source", str(source), "--weights", weights, *more]) == 0
    assert (tmp_path / "tracks" / "scene-9002_CAM_FRONT.txt").exists()


def test_the_packaged_data_yaml_has_the_classes_of_the_export(exported, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="go to the folder that has the data"):
        read_split("nuscenes", "val", cache=False)
    (tmp_path / "nuscenes").symlink_to(exported())
    packaged = read_data_yaml(find_resource("data/nuscenes.yaml", "data"))
    assert list(packaged.names) == TRACKING7 and packaged.category_ids == tuple(range(1, 8))
    assert read_data_yaml(exported() / "data.yaml").names == packaged.names
    assert len(read_split("data/nuscenes.yaml", "val", cache=False).files) == 24
