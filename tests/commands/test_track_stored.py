"""`yolofast track --detections`: which flags choose among what is stored, and which are refused."""

import inspect
import json

import cv2
import numpy as np
import pytest

from tests.detect.seeing import picture, save_seeing, save_video, video_facts
from tests.track.scenes import still_images
from yolofast import Detector
from yolofast.cli import main
from yolofast.config.predict import PredictConfig
from yolofast.config.sequences import TracksweepConfig
from yolofast.config.track import TrackConfig
from yolofast.track.formats.detections import make_detections, write_detections
from yolofast.track.formats.read_detections import read_detections

EASY = ("--tracker", "bytetrack", "--track", "track_thresh=0.2", "new_track_thresh=0.2")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return save_seeing(tmp_path_factory.mktemp("weights") / "some.pt", img_size=64)


@pytest.fixture
def stored(tmp_path):
    """Two things of two classes in ten frames; a third lies on the first by 0.6 and is of the second class."""
    frame = np.repeat(np.arange(1, 11), 3)
    box = np.tile([[0, 0, 20, 20], [40, 10, 60, 40], [5, 0, 25, 20]], (10, 1))
    columns = {"frame": frame, "box": box, "score": np.tile([0.9, 0.8, 0.7], 10), "label": np.tile([0, 1, 1], 10)}
    given = make_detections("walk", **columns, names=("cat", "dog"), width=64, height=48, frame_rate=12)
    return write_detections(tmp_path / "walk.npz", given)


def track(project, *words):
    return main(["track", "--project", str(project), *map(str, words)])


def test_the_network_sees_as_many_frames_at_once_when_detections_are_stored_as_when_tracks_are_made():
    """It rounds differently for another number, so that stored detections would give other tracks."""
    python = inspect.signature(Detector.track).parameters["batch"].default
    assert TrackConfig.batch_size == PredictConfig.batch_size == TracksweepConfig.batch_size == python


def rows_of(path):
    return np.loadtxt(path, delimiter=",", ndmin=2)


@pytest.mark.parametrize(
    ("flags", "per_frame", "frames"),
    [
        ((), 3, range(1, 11)),
        (("--conf", 0.75), 2, range(1, 11)),
        (("--iou", 0.5), 2, range(1, 11)),
        (("--iou", 0.5, "--class-handling", "each"), 3, range(1, 11)),
        (("--classes", "dog"), 2, range(1, 11)),
        (("--max-det", 1), 1, range(1, 11)),
        (("--vid-stride", 3), 3, (1, 4, 7, 10)),
    ],
)
def test_flags_choose_among_stored_detections(stored, tmp_path, flags, per_frame, frames):
    assert track(tmp_path / "out", "--detections", stored, *EASY, *flags) == 0
    found = json.loads((tmp_path / "out" / "exp" / "walk.json").read_text())
    assert [one["frame"] for one in found["frames"]] == list(frames) and found["complete"] is True
    assert {one["detections"] for one in found["frames"]} == {per_frame}
    assert [one["time"] for one in found["frames"]] == pytest.approx([(n - 1) / 12 for n in frames], abs=1e-6)
    assert set(rows_of(tmp_path / "out" / "exp" / "walk.txt")[:, 1]) == set(range(1, per_frame + 1))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--weights", "best.pt"), "--weights is the network's, but --detections take its place"),
        (("--img", 640), "--img is the network's"),
        (("--augment",), "--augment is the network's"),
        (("--tracker", "botsort", "--track", "with_reid=true"), "the detections of walk hold no features"),
        (("--classes", "dgo"), "did you mean 'dog'"),
        (("--score-range", 5, 1), "scores from 5 to 1"),
    ],
)
def test_what_cannot_be_applied_is_refused(stored, tmp_path, capsys, flags, message):
    assert track(tmp_path / "out", "--detections", stored, *flags) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_scores_that_are_percent_are_said(tmp_path, capsys):
    path = tmp_path / "walk.txt"
    path.write_text("1,-1,5,5,20,20,0.9\n2,-1,5,5,20,20,90\n3,-1,5,5,20,20,85\n")
    assert track(tmp_path / "out", "--detections", path) == 2
    said = capsys.readouterr().err
    assert f"{path}:2: scores of walk run from 0.9 to 90, but trackers expect 0 to 1" in said
    assert "--score-range 0 100" in said
    assert track(tmp_path / "out", "--detections", path, "--score-range", 0, 100) == 0
    assert set(rows_of(tmp_path / "out" / "exp" / "walk.txt")[:, 6]) == {0.85}  # from its second frame on


@pytest.mark.slow
def test_another_video_than_that_of_the_detections_is_said(stored, tmp_path, capsys):
    other = save_video(tmp_path / "large.mp4", frames=10, fps=12, height=96, width=128)
    assert track(tmp_path / "out", "--detections", stored, "--source", other) == 2
    said = capsys.readouterr().err
    assert "large.mp4: has 128×96 pixels, but the detections are of a video with 64×48" in said
    assert not (tmp_path / "out").exists()
    other = save_video(tmp_path / "long.mp4", frames=14, fps=24)
    assert track(tmp_path / "out", "--detections", stored, "--source", other) == 0
    said = capsys.readouterr().out
    assert "differs from the detections: 14 frames, not 10; 24 frames a second, not 12; the boxes may be" in said
    same = save_video(tmp_path / "walk.mp4", frames=10, fps=12)
    assert track(tmp_path / "out", "--detections", stored, "--source", same) == 0
    assert "warning" not in capsys.readouterr().out
    text = tmp_path / "det.txt"  # says nothing of the size and the rate of its video
    for last, warned in ((10, False), (14, True)):
        text.write_text(f"1,-1,5,5,20,20,0.9\n{last},-1,5,5,20,20,0.9\n")
        assert track(tmp_path / "out", "--detections", text, "--source", same) == 0
        said = capsys.readouterr().out
        assert ("walk.mp4 ends after 10 frames, but its detections reach to 14; the boxes may be" in said) is warned


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["video", "folder"])
def test_every_second_frame_keeps_its_number(weights, tmp_path, kind):
    """With the network, stored, and drawn on the source again: the same tracks on the same frames."""
    is_video = kind == "video"
    source = save_video(tmp_path / "seq.mp4", frames=7, fps=10) if is_video else still_images(tmp_path / "seq", 7)
    own = ("--source", source, "--weights", weights, "--device", "cpu")
    assert track(tmp_path / "net", *own, *EASY, "--max-det", 6, "--vid-stride", 2, "--save-detections") == 0
    found = json.loads((tmp_path / "net" / "exp" / "seq.json").read_text())
    rate = 10 if is_video else 30
    assert [one["frame"] for one in found["frames"]] == [1, 3, 5, 7] and found["frame_rate"] == pytest.approx(rate)
    assert [one["time"] for one in found["frames"]] == pytest.approx([0, 2 / rate, 4 / rate, 6 / rate], abs=1e-3)
    assert video_facts(tmp_path / "net" / "exp" / "seq.mp4") == (4, pytest.approx(rate / 2))
    stored = read_detections(tmp_path / "net" / "exp" / "detections")
    assert (stored.length, stored.seen.tolist(), stored.every) == (7, [1, 3, 5, 7], 2)
    wanted = (tmp_path / "net" / "exp" / "seq.txt").read_text()
    again = ("--detections", tmp_path / "net" / "exp" / "detections", *EASY, "--max-det", 6)
    for name, more in (("blind", ()), ("drawn", ("--source", source))):
        assert track(tmp_path / name, *again, *more) == 0
        assert (tmp_path / name / "exp" / "seq.txt").read_text() == wanted
    # All frames stored first, and then every second one.
    words = ["predict", *map(str, own), "--save-detections", "--nosave", "--project", str(tmp_path / "all")]
    assert main(words) == 0
    again = ("--detections", tmp_path / "all" / "exp" / "detections", *EASY, "--max-det", 6, "--vid-stride", 2)
    assert track(tmp_path / "thin", *again, "--source", source) == 0
    assert (tmp_path / "thin" / "exp" / "seq.txt").read_text() == wanted
    assert video_facts(tmp_path / "thin" / "exp" / "seq.mp4")[0] == 4


def test_images_of_unusual_kinds_are_tracked_or_said(weights, tmp_path, capfd):
    view, folder = picture(3), tmp_path / "odd"
    folder.mkdir()
    cv2.imwrite(str(folder / "1.png"), view)
    cv2.imwrite(str(folder / "2.png"), view.astype(np.uint16) * 257)
    cv2.imwrite(str(folder / "3.png"), view[..., 0])
    cv2.imwrite(str(folder / "4.png"), np.dstack((view, view[..., :1])))
    content = (folder / "1.png").read_bytes()
    (folder / "5.png").write_bytes(content[: len(content) // 2])
    (folder / "6.png").write_bytes(b"")
    assert track(tmp_path / "out", "--source", folder, "--weights", weights, "--device", "cpu", "--max-det", 3) == 0
    said = capfd.readouterr()
    assert said.out.count("warning: ") == 2 and "5.png: is not an image, or is damaged" in said.out
    assert "WARN" not in said.err  # OpenCV's own words
    found = json.loads((tmp_path / "out" / "exp" / "odd.json").read_text())
    assert [one["frame"] for one in found["frames"]] == [1, 2, 3, 4] and len(found["remarks"]) == 2
