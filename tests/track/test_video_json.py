"""COCO with videos and TAO: what is read, how faults are told, and that conversions lose nothing."""

import json

import numpy as np
import pytest

from tests.track.golden import GOLDEN
from yolofast import UserError, score_tracks
from yolofast.cli import main
from yolofast.dataset.shapes.outline import NAMES
from yolofast.track.formats.sequence import COLUMNS, make_sequence
from yolofast.track.formats.table import COCO_VIDEO, MOT, TAO, format_of
from yolofast.track.formats.video_json import read_video_json
from yolofast.track.formats.video_json_write import write_video_json

MULTICLASS = GOLDEN / "multiclass"


def document(**changes):
    """Two videos, as files of both kinds have them; the second has one image in thirty, from frame 31 on."""
    made = {
        "videos": [{"id": 1, "file_name": "A"}, {"id": 2, "name": "B", "width": 640, "height": 480, "fps": 30}],
        "images": [
            {"id": 1, "video_id": 1, "file_name": "A/1.jpg", "frame_id": 1, "width": 100, "height": 50},
            {"id": 2, "video_id": 1, "file_name": "A/2.jpg", "frame_id": 2},
            {"id": 3, "video_id": 2, "file_name": "B/31.jpg", "frame_index": 30},
        ],
        "annotations": [
            {"image_id": 1, "track_id": 1, "category_id": 3, "bbox": [0, 0, 10, 20], "conf": 1},
            {"image_id": 2, "track_id": 1, "category_id": 3, "bbox": [1, 0, 10, 20], "conf": 0},
            {"image_id": 3, "track_id": 2, "bbox": [5, 5, 10, 10]},
        ],
        "categories": [{"id": 3, "name": "car"}],
        "tracks": [{"id": 2, "category_id": 3, "video_id": 2}],
    }
    return made | changes


@pytest.fixture
def written(tmp_path):
    def write(content):
        path = tmp_path / "videos.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def test_videos_become_sequences(written):
    path = written(document())
    found = read_video_json(path, "truth")
    a, b = found["A"], found["B"]
    assert (a.length, a.width, a.height, a.files) == (2, 100, 50, ("A/1.jpg", "A/2.jpg"))
    assert a.mark.tolist() == [True, False] and a.box[1].tolist() == [1, 0, 11, 20] and a.classes == {3: "car"}
    assert (b.length, b.frame.tolist(), b.label.tolist(), b.frame_rate) == (31, [31], [3], 30.0)  # class of the track
    assert b.files[-1] == "B/31.jpg" and set(b.files[:-1]) == {""}
    assert format_of(path) == "tao"


def test_results_may_be_a_list_of_annotations(written, tmp_path):
    truth = written(document())
    results = tmp_path / "results.json"
    rows = [{**one, "score": 0.5, "category_id": 3} for one in document()["annotations"]]
    results.write_text(json.dumps(rows))
    scores = score_tracks(truth, results)
    assert scores.combined.CLR_TP == 2 and scores.combined.CLR_FP == 1  # one box of the truth is marked 0
    assert scores.sequences["B"].MOTA == 1
    with pytest.raises(UserError, match="is a list of annotations without images"):
        read_video_json(results, "results")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_id": 9}, "annotation 2: image_id 9 is not among the images"),
        ({"track_id": None}, "annotation 2: track_id is None"),
        ({"bbox": [0, 0, -1, 1]}, "has a negative size"),
        ({"bbox": [0, 0, float("nan"), 1]}, r"bbox is \[0, 0, nan, 1\]"),
        ({"bbox": [0, 0, 1]}, "annotation 2: bbox is"),
        ({"image_id": 2, "track_id": 1}, "annotation 2: identity 1 is in frame 2 already, in annotation 1"),
        ({"conf": "x"}, "score or visibility is 'x'"),
    ],
)
def test_faulty_annotations_are_told_or_omitted(written, change, message):
    annotations = document()["annotations"]
    path = written(document(annotations=[*annotations[:2], annotations[2] | change]))
    with pytest.raises(UserError, match=message):
        read_video_json(path, "truth")
    faults = []
    assert sum(map(len, read_video_json(path, "truth", faults=faults, skip_bad=True).values())) == 2
    assert len(faults) == 1 and faults[0].fatal and faults[0].fix


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"videos": [', "is not valid JSON: .* cut off"),
        ("3", "videos is missing"),
        (document(images=None), "images is missing or not a list"),
        (document(videos=[{"id": 1, "name": "A"}] * 2), "is there already: A"),
        (document(images=[{"id": 1, "video_id": 7, "frame_id": 1}]), "is of video 7, which is not there"),
        (document(images=[{"id": 1, "video_id": 1, "frame_id": "x"}]), "has the frame_id 'x'"),
        (document(images=[{"id": i, "video_id": 1, "frame_id": 1} for i in (1, 2)]), "frame 1 of A is there already"),
    ],
)
def test_files_of_another_form_are_refused(written, content, message):
    with pytest.raises(UserError, match=message):
        read_video_json(written(content), "truth")


def sequences(kind):
    """Two with the same ids, and frames without boxes."""
    rng = np.random.default_rng(1)
    made = {}
    for name, length in (("one", 6), ("two", 9)):
        frame = np.repeat(np.arange(1, length - 1), 3)
        corner, size = rng.uniform(-9, 500, (len(frame), 2)).round(2), rng.uniform(5, 90, (len(frame), 2)).round(2)
        made[name] = make_sequence(
            name,
            frame=frame,
            id=np.full(len(frame), -1) if kind == "detections" else np.tile([0, 1, 5], length - 2),
            box=np.hstack([corner, corner + size]),
            label=rng.integers(1, 4, len(frame)),
            score=np.ones(len(frame)) if kind == "truth" else rng.random(len(frame)).round(4),
            mark=rng.random(len(frame)) > 0.2 if kind == "truth" else None,
            visibility=rng.random(len(frame)).round(3) if kind == "truth" else None,
            length=length,
            frame_rate=25.0,
            width=640,
            height=480,
        )
    return made


def same(found, wanted, length=True):
    assert list(found) == list(wanted)
    for name, one in wanted.items():
        for column in COLUMNS:
            np.testing.assert_allclose(getattr(found[name], column), getattr(one, column), atol=2e-6, err_msg=column)
        if length:
            about = ("length", "frame_rate", "width", "height")
            assert [getattr(found[name], key) for key in about] == [getattr(one, key) for key in about]


FORMATS = {"mot": MOT, "coco-video": COCO_VIDEO, "tao": TAO}


@pytest.mark.parametrize("kind", ["truth", "results", "detections"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_reads_what_it_writes(tmp_path, name, kind):
    made, place = sequences(kind), tmp_path / f"out{FORMATS[name].ending}"
    FORMATS[name].write(place, made, kind)
    assert format_of(place) == name or kind == "detections"
    flat = name == "mot" and kind == "results"  # a text file does not say how long the video was
    same(FORMATS[name].read(place, kind, [], False), made, length=not flat)


def test_track_ids_are_different_in_the_whole_file(tmp_path):
    made = sequences("truth")
    content = json.loads(write_video_json(tmp_path / "a.json", made, "truth", "tao").read_text())
    ids = {(one["video_id"], one["instance_id"]): one["track_id"] for one in content["annotations"]}
    assert len(ids) == len(set(ids.values())) == len(content["tracks"]) == 6
    images = json.loads(write_video_json(tmp_path / "b.json", made, "truth", "coco-video").read_text())["images"]
    assert [images[i]["prev_image_id"] for i in (0, 1, 6)] == [-1, 1, -1] and images[5]["next_image_id"] == -1


def test_sparse_frames_and_boxes_without_class(tmp_path, written):
    found = read_video_json(written(document()), "truth")
    again = read_video_json(write_video_json(tmp_path / "b.json", found, "truth", "tao"), "truth")
    same(again, found)
    assert again["B"].files == found["B"].files
    nameless = {"a": make_sequence("a", frame=[1], id=[1], box=[[0, 0, 1, 1]])}
    read = read_video_json(write_video_json(tmp_path / "c.json", nameless, "truth", "coco-video"), "truth")["a"]
    assert read.label.tolist() == [1] and read.classes == {1: "object"}


@pytest.mark.slow
def test_the_command_goes_round_all_formats(tmp_path, capsys):
    """Truth and results of several classes have the same scores after MOT, COCO, TAO and MOT again."""
    places = {}
    for kind, start in (("truth", MULTICLASS / "gt"), ("results", MULTICLASS / "results" / "all")):
        before = start
        for to, name in (("coco-video", "c.json"), ("tao", "t.json"), ("mot", "mot")):
            out = tmp_path / kind / name
            assert main(["convert", str(before), "--to", to, "--out", str(out), "--kind", kind]) == 0
            before = places[kind, to] = out
    assert "2 sequences, 160 frames" in capsys.readouterr().out
    lengths = {"MC-31": 80, "MC-32": 80}
    wanted = score_tracks(MULTICLASS / "gt", MULTICLASS / "results" / "all", lengths=lengths, classes="all").to_dict()
    for to in ("mot", "tao"):
        found = score_tracks(places["truth", to], places["results", to], lengths=lengths, classes="all").to_dict()
        for block in ("COMBINED", "class_average"):
            for name, values in wanted[block]["HOTA"].items():
                np.testing.assert_allclose(found[block]["HOTA"][name], values, atol=1e-6)
        assert found["COMBINED"]["Identity"] == wanted["COMBINED"]["Identity"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--to", "tao", "--out", "x.txt"], "is one file: name one that ends in .json"),
        (["--to", "tao", "--out", "taken.json"], "taken.json: exists"),
        (["--to", "mot", "--out", "."], "exists and is not an empty folder"),
        (
            ["--to", "tao", "--out", "x.json", "--names", "car"],
            "1 name for the classes 1 2 3 5 6 7: class 2 has no name",
        ),
        (["--to", "tao", "--out", "x.json", "--kind", "results", "--from", "tao"], "cannot be read"),
    ],
)
def test_what_the_command_refuses(more, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.json").write_text("{}")
    assert main(["convert", str(MULTICLASS / "gt"), *more]) == 2
    assert message in capsys.readouterr().err


def test_names_of_classes_are_written(tmp_path):
    out = tmp_path / "x.json"
    names = ["car", "truck", "bus", "trailer", "pedestrian", "bicycle"]
    assert main(["convert", str(MULTICLASS / "gt"), "--to", "coco-video", "--out", str(out), "--names", *names]) == 0
    assert [one["name"] for one in json.loads(out.read_text())["categories"]] == names


def test_a_list_of_sequences_is_a_source_and_names_the_classes(tmp_path, capsys):
    folder, out = tmp_path / "moving", tmp_path / "train.json"
    assert main(["dataset", "shapes-video", "--out", str(folder), "--frames", "3", "--sequences", "2"]) == 0
    assert main(["convert", str(folder / "sequences.yaml"), "--to", "coco-video", "--out", str(out)]) == 0
    assert list(read_video_json(out, "truth")) == ["SHAPES-01", "SHAPES-02"]
    assert {one["name"] for one in json.loads(out.read_text())["categories"]} <= {*NAMES}
    capsys.readouterr()
    wrong = ["--to", "tao", "--out", str(tmp_path / "x.json"), "--kind", "results"]
    assert main(["convert", str(folder / "sequences.yaml"), *wrong]) == 2
    assert "sequences.yaml: lists sequences with their truth, not results" in capsys.readouterr().err


def test_a_name_that_leaves_the_folder_is_refused(tmp_path, written):
    path = written(document(videos=[{"id": 1, "name": "../A"}, {"id": 2, "name": "B"}]))
    with pytest.raises(UserError, match=r"a sequence is called '\.\./A'"):
        FORMATS["mot"].write(tmp_path / "out", read_video_json(path, "truth"), "truth")
    path = written(document(videos=[{"id": 1, "name": "train/YFCC/A"}, {"id": 2, "name": "B"}]))
    FORMATS["mot"].write(tmp_path / "out", read_video_json(path, "truth"), "truth")
    assert list(FORMATS["mot"].read(tmp_path / "out", "truth", [], False)) == ["B", "train-YFCC-A"]
