"""Stored detections: what `predict --save-detections` writes, and what else is read as such."""

import json
import re
from dataclasses import replace

import cv2
import numpy as np
import pytest

from tests.detect.seeing import picture, save_seeing, save_video
from yolofast import Detector, UserError
from yolofast.cli import main
from yolofast.track.choices import tracker_maker
from yolofast.track.formats.detections import Making, make_detections, write_detections
from yolofast.track.formats.read_detections import read_all_detections, read_detections
from yolofast.track.formats.recorder import DetectionRecorder
from yolofast.track.pipeline import Follower, StageTimes
from yolofast.track.selection import StoredCandidates, refuse_higher
from yolofast.track.stored_run import recalled


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return save_seeing(tmp_path_factory.mktemp("weights") / "some.pt", img_size=64)


def some(**changes):
    columns = {"frame": [3, 1, 1], "box": [[0, 0, 4, 4], [1, 1, 5, 5], [2, 2, 6, 6]], "score": [0.9, 0.5, 0.1]}
    return make_detections("street", **{**columns, "label": [0, 1, 1], "length": 4, **changes})


def test_what_is_written_is_read(tmp_path):
    given = some(frame_rate=12, width=64, height=48, names=("cat", "dög"), features=np.eye(3), times=[0, 0.1, 0.3, 0.9])
    given = replace(given, warps=np.tile(np.eye(2, 3), (4, 1, 1)))
    found = read_detections(write_detections(tmp_path / "street.npz", given))
    for key in ("frame", "box", "score", "label", "times", "features", "warps"):
        np.testing.assert_array_equal(getattr(found, key), getattr(given, key))
    for key in ("name", "length", "frame_rate", "width", "height", "names"):
        assert getattr(found, key) == getattr(given, key)
    assert found.frame.tolist() == [1, 1, 3] and found.starts().tolist() == [0, 2, 2, 3, 3]
    assert found.kept(found.score > 0.2).features.tolist() == [[0, 1, 0], [1, 0, 0]]


def test_how_it_was_made_is_read_and_files_without_it_too(tmp_path):
    made = Making(weights="a.pt", size=(64, 96), conf=0.01, iou=0.7, overlaps="both", most=9, marked=(0.7,))
    given = some(made=made, across=[[True], [True], [False]], within=[[True], [False], [True]], seen=[1, 3], every=2)
    path = write_detections(tmp_path / "street.npz", given)
    found = read_detections(path)
    assert found.made == made and found.seen.tolist() == [1, 3] and found.used_rate == 15
    assert found.across[:, 0].tolist() == [True, False, True] and found.within[:, 0].tolist() == [False, True, True]
    with np.load(path) as archive:
        columns = {key: archive[key] for key in archive.files}
    old = {key: value for key, value in columns.items() if key not in ("made", "seen", "every", "across", "within")}
    np.savez(path, **old)
    found = read_detections(path)
    assert found.made is None and found.looked_at().tolist() == [1, 2, 3, 4] and found.every == 1
    np.savez(path, **{**columns, "made": np.array("{}")})
    with pytest.raises(UserError, match="not a file of detections"):
        read_detections(path)


def test_motion_of_frames_left_out_belongs_to_the_next():
    shift = np.tile(np.eye(2, 3), (5, 1, 1))
    shift[:, 0, 2] = [0, 1, 2, 4, 8]
    nothing = {"frame": [], "box": np.zeros((0, 4)), "score": []}
    found = make_detections("a", **nothing, length=5, warps=shift).thinned(2)
    assert found.looked_at().tolist() == [1, 3, 5] and found.warps[[0, 2, 4], 0, 2].tolist() == [0, 3, 12]


@pytest.mark.slow
def test_what_is_stored_is_what_track_gets_of_the_network(weights, tmp_path):
    """Of the union of what the kinds of suppression leave, each is found again to the bit, and so are its tracks."""
    video = save_video(tmp_path / "street.mp4", frames=3)
    words = ["--weights", str(weights), "--source", str(video), "--device", "cpu", "--project", str(tmp_path)]
    assert main(["predict", *words, "--save-detections", "--nosave"]) == 0
    found = read_detections(tmp_path / "exp" / "detections")
    detector = Detector(weights, device="cpu")
    for across, iou in ((True, None), (False, None), (True, 0.5), (False, 0.3)):
        own = found.kept(StoredCandidates(found).kept(iou=iou, across=across))
        seen = list(detector.stream(video, conf=0.01, iou=iou or 0.7, agnostic=across))
        np.testing.assert_array_equal(own.box, np.concatenate([one.detections.boxes for one in seen]))
        np.testing.assert_array_equal(own.label, np.concatenate([one.detections.labels for one in seen]))
    easy = {"track_thresh": 0.02, "new_track_thresh": 0.02}
    make = tracker_maker("bytetrack", faithful=False, class_handling="vote", settings=easy)
    chosen = found.kept(StoredCandidates(found).kept(across=True))
    followed = list(Follower(make, StageTimes()).follow_here(recalled(chosen, None, None, StageTimes())))
    for one, other in zip(followed, detector.track(video, "bytetrack", **easy), strict=True):
        for name in ("ids", "boxes", "scores", "labels"):
            np.testing.assert_array_equal(getattr(one.tracks, name), getattr(other.tracks, name))
    assert len(followed[-1].tracks)
    with pytest.raises(UserError, match=r"--iou is 0\.8, but the detections of street were suppressed at 0\.7"):
        refuse_higher(found, [0.5, 0.8], "--iou")


def _pan(folder, frames=4):
    """A camera that moves over a still ground."""
    ground = cv2.GaussianBlur(np.random.default_rng(0).integers(0, 255, (320, 540, 3), np.uint8), (0, 0), 2)
    ground = cv2.normalize(ground, None, 0, 255, cv2.NORM_MINMAX)
    folder.mkdir()
    for number in range(frames):
        shift = np.float64([[1, 0.004 * number, -3.3 * number], [-0.004 * number, 1, -1.6 * number]])
        cv2.imwrite(str(folder / f"{number:03}.png"), cv2.warpAffine(ground, shift, (480, 270)))
    return folder


@pytest.mark.slow
def test_stored_detections_give_the_tracks_of_a_moving_camera(tmp_path, capsys):
    """To the bit, and for other settings with the images, without the network."""
    weights, images = save_seeing(tmp_path / "some.pt", img_size=416), _pan(tmp_path / "pan")
    network = ["--weights", str(weights), "--source", str(images), "--device", "cpu"]
    out = ["--nosave", "--project", str(tmp_path), "--exist-ok", "--name"]
    assert main(["predict", *network, "--save-detections", *out, "once"]) == 0
    stored = ["--detections", str(tmp_path / "once" / "detections")]
    assert np.abs(read_detections(stored[1]).warps[1:, :, 2]).max() > 3

    def tracked(*words, camera="sparseOptFlow"):
        easy = ["track_high_thresh=0.02", "new_track_thresh=0.02", "match_thresh=0.95", f"cmc_method={camera}"]
        assert main(["track", *words, "--track", *easy, *out, "run"]) == 0
        found = json.loads((tmp_path / "run" / "pan.json").read_text())["frames"]
        assert sum(len(one["tracks"]) for one in found[1:])
        return found, " ".join(capsys.readouterr().out.split())

    of_network, _ = tracked(*network)
    again, said = tracked(*stored)
    assert again == of_network and "remark" not in said
    assert tracked(*stored, camera="none")[0] != of_network
    of_few, _ = tracked(*network, "--max-det", "40")
    assert tracked(*stored, "--max-det", "40", "--source", str(images))[0] == of_few
    assert "pan was stored for other settings (sparseOptFlow)" in tracked(*stored, "--max-det", "40")[1]


def test_json_with_videos_holds_detections_too(tmp_path):
    (tmp_path / "A" / "det").mkdir(parents=True)
    (tmp_path / "A" / "det" / "det.txt").write_text("1,-1,1,2,3,4,0.25,0\n3,-1,10,20,30,40,0.5,1\n")
    (tmp_path / "A" / "seqinfo.ini").write_text(
        "[Sequence]\nname=A\nseqLength=4\nframeRate=25\nimWidth=64\nimHeight=48\n"
    )
    words = ["--kind", "detections", "--to", "coco-video", "--out", str(tmp_path / "all.json"), "--names", "cat", "dog"]
    assert main(["convert", str(tmp_path), *words]) == 0
    found = read_detections(tmp_path / "all.json")
    assert (found.name, found.length, found.frame_rate, found.width, found.names) == ("A", 4, 25, 64, ("cat", "dog"))
    assert found.score.tolist() == [0.25, 0.5] and found.box[1].tolist() == [10, 20, 40, 60]
    (tmp_path / "plain.json").write_text('{"images": [], "annotations": []}')
    with pytest.raises(UserError, match=r"(?s)videos is missing.*give a file with videos, images"):
        read_detections(tmp_path / "plain.json")


def _without_times(text):
    return re.sub(r"[\d.]+ ms each", "", text)


@pytest.mark.slow
def test_a_predicted_video_is_stored_with_its_times(weights, tmp_path, capsys):
    video = save_video(tmp_path / "street.mp4", frames=5, fps=10)
    words = ["--weights", str(weights), "--source", str(video), "--device", "cpu", "--conf", "0.3", "--save-json"]
    assert main(["predict", *words, "--project", str(tmp_path / "with"), "--save-detections"]) == 0
    said = _without_times(capsys.readouterr().out.replace("with", "out"))
    assert main(["predict", *words, "--project", str(tmp_path / "out")]) == 0
    assert _without_times(capsys.readouterr().out) == said
    files = [(tmp_path / place / "exp" / "predictions.json").read_text() for place in ("with", "out")]
    assert files[0] == files[1]  # what is stored beside changes nothing else
    found = read_detections(tmp_path / "with" / "exp" / "detections")
    assert (found.name, found.length, found.frame_rate, found.width, found.height) == ("street", 5, 10, 64, 48)
    assert found.times == pytest.approx([0, 0.1, 0.2, 0.3, 0.4], abs=1e-3) and found.names == ("cat", "dog", "cow")
    assert found.score.min() >= 0.01 and (found.score < 0.3).any()
    shown = [row["score"] for row in json.loads(files[0])]
    assert np.sort(found.score[found.score > 0.3]) == pytest.approx(np.sort(shown), abs=1e-5)


@pytest.mark.slow
def test_images_of_a_folder_are_frames_by_their_numbers(weights, tmp_path):
    images = tmp_path / "SEQ" / "img1"
    images.mkdir(parents=True)
    (tmp_path / "SEQ" / "seqinfo.ini").write_text("[Sequence]\nname=SEQ\nframeRate=5\n")
    for number in (2, 3, 10):
        cv2.imwrite(str(images / f"a_{number}.png"), picture(number))
    words = ["--weights", str(weights), "--source", str(images), "--device", "cpu", "--project", str(tmp_path / "out")]
    assert main(["predict", *words, "--save-detections", "--nosave"]) == 0
    found = read_detections(tmp_path / "out" / "exp" / "detections" / "SEQ.npz")
    assert set(found.frame) == {1, 2, 9} and found.length == 9 and found.frame_rate == 5
    assert found.times == pytest.approx(np.arange(9) / 5)


def test_mot_detections_with_their_seqinfo(tmp_path):
    folder = tmp_path / "A" / "det"
    folder.mkdir(parents=True)
    (folder / "det.txt").write_text("2,-1,10,20,30,40,0.5\n1,-1,1,2,3,4,0.25\n")
    (folder.parent / "seqinfo.ini").write_text(
        "[Sequence]\nname=A\nseqLength=7\nframeRate=25\nimWidth=640\nimHeight=480\n"
    )
    for place in (tmp_path, tmp_path / "A", folder / "det.txt"):
        found = read_detections(place)
        assert (found.name, found.length, found.frame_rate, found.width) == ("A", 7, 25, 640)
        assert found.box.tolist() == [[1, 2, 4, 6], [10, 20, 40, 60]] and found.label.tolist() == [-1, -1]


def test_coco_results_name_frames_three_ways(tmp_path):
    def row(image, **more):
        return {"image_id": image, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5, **more}

    path = tmp_path / "results.json"
    path.write_text(json.dumps([row("b_0"), row("a_4"), row("a_2")]))
    found = read_all_detections(path)
    assert list(found) == ["a", "b"] and found["a"].frame.tolist() == [1, 3] and found["b"].length == 1
    path.write_text(json.dumps([row(7), row(5)]))
    assert read_detections(path).frame.tolist() == [1, 3]
    truth = tmp_path / "truth.json"
    images = [
        {"id": 7, "video_id": 1, "frame_id": 1},
        {"id": 5, "video_id": 1, "frame_id": 9},
        {"id": 1, "video_id": 2},
    ]
    truth.write_text(json.dumps({"videos": [{"id": 1, "file_name": "MOT17-02"}], "images": images}))
    with pytest.raises(UserError, match=r"no\.json: does not exist"):
        read_all_detections(path, images=tmp_path / "no.json")
    found = read_all_detections(path, images=truth)
    assert list(found) == ["2", "MOT17-02"] and found["MOT17-02"].frame.tolist() == [1, 9] and len(found["2"]) == 0
    path.write_text(json.dumps([row(7, score="high"), row(None), row(7, bbox=[1, 2, -3, 4]), row(7)]))
    with pytest.raises(UserError, match=r"(?s)3 faults.*result 0.*belongs to no frame"):
        read_detections(path)
    faults = []
    assert len(read_detections(path, faults=faults, skip_bad=True)) == 1 and len(faults) == 3


def test_several_videos_need_a_name(tmp_path):
    for name in ("street", "stairs"):
        write_detections(tmp_path / f"{name}.npz", some())
    with pytest.raises(UserError, match="holds detections of 2 videos: stairs, street"):
        read_detections(tmp_path)
    assert read_detections(tmp_path, name="street").name == "street"
    with pytest.raises(UserError, match="did you mean 'street'"):
        read_detections(tmp_path, name="stret")
    with pytest.raises(UserError, match=r"does not exist, did you mean .*street\.npz"):
        read_detections(tmp_path / "stret.npz")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"frame": np.array([1, 3, 2])}, "not in order"),
        ({"frame": np.array([1, 2, 9])}, "outside frames 1 to 4"),
        ({"box": np.full((3, 4), np.nan)}, "not finite"),
        ({"box": np.zeros((2, 4))}, "shape"),
        ({"times": np.array([0.0, 1.0, 1.0, 2.0])}, "ascend"),
        ({"features": np.zeros((2, 4))}, "one row per detection"),
        ({"warps": np.zeros((3, 2, 3))}, "warps has the shape"),
    ],
)
def test_damaged_columns_are_refused(tmp_path, damage, message):
    path = write_detections(tmp_path / "a.npz", replace(some(), **damage))
    with pytest.raises(UserError, match=message):
        read_detections(path)


def test_files_that_are_none(tmp_path):
    whole = write_detections(tmp_path / "a.npz", some()).read_bytes()
    for content in (b"", b"nothing", whole[: len(whole) // 2]):
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(UserError, match="not a file of detections"):
            read_detections(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", frame=np.zeros(1))
    with pytest.raises(UserError, match="it has no 'box'"):
        read_detections(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", **{"frame": np.array([{}], dtype=object)})
    with pytest.raises(UserError, match="allow_pickle"):
        read_detections(tmp_path / "a.npz")


def test_frames_that_were_not_seen_have_times_too():
    recorder = DetectionRecorder("a", 10.0)
    for number, time in ((3, 0.2), (5, 1.0)):
        recorder.add(number, time, (64, 48), np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64))
    found = recorder.stored()
    assert found.times == pytest.approx([0.0, 0.1, 0.2, 0.6, 1.0]) and len(found) == 0
    assert DetectionRecorder("a", 10.0).stored().length == 0
