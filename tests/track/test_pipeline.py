"""From sources to tracks: times, several videos at once, camera motion, bad input."""

import cv2
import numpy as np
import pytest

from tests.detect.seeing import picture, save_seeing, save_video
from tests.track.scenes import panned, retime, still_images
from yolofast import Detector, UserError
from yolofast.cli import main
from yolofast.detect.detector import raise_fault
from yolofast.media.frames import Frame, Video
from yolofast.track.choices import eye_of, tracker_maker, tracking_filter
from yolofast.track.formats.read_detections import read_detections
from yolofast.track.pipeline import CAMERA, ExactDetections, Follower, SeenFrame, StageTimes, detected
from yolofast.track.timeline import FramePlace, FrameTimeline, folder_of_images, frame_numbers, open_sources
from yolofast.track.trackers import camera_motion

EASY = {"track_high_thresh": 0.2, "new_track_thresh": 0.2, "cmc_method": "none"}


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    weights = save_seeing(tmp_path_factory.mktemp("weights") / "some.pt", img_size=64)
    return Detector(weights, device="cpu")


def test_a_still_scene_keeps_its_identities(detector, tmp_path):
    images = still_images(tmp_path / "SEQ" / "img1")
    frames = list(detector.track(images, most=5, **EASY))
    assert [one.place.number for one in frames] == [1, 2, 3, 4, 5, 6]
    assert all(one.tracks.ids.tolist() == frames[0].tracks.ids.tolist() for one in frames)
    assert len(frames[0].tracks) > 1 and frames[0].frame.image.shape == (48, 64, 3)
    found = frames[0].detections
    assert frames[0].tracks.boxes == pytest.approx(found.boxes[frames[0].tracks.detections], abs=1e-3)


def test_several_sources_share_the_network_and_nothing_else(detector, tmp_path):
    sources = [still_images(tmp_path / name / "img1", count, seed) for name, count, seed in (("a", 5, 3), ("b", 3, 4))]
    alone = {
        one.place.video: one.tracks
        for source in sources
        for one in detector.track(source, "bytetrack", track_thresh=0.2)
    }
    together = list(detector.track(sources, "bytetrack", track_thresh=0.2, batch=3))
    order = [(one.place.video, one.place.number) for one in together]
    assert order == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3), ("a", 4), ("a", 5)]
    for video, tracks in alone.items():
        last = [one for one in together if one.place.video == video][-1].tracks
        assert last.ids.tolist() == tracks.ids.tolist() and last.boxes == pytest.approx(tracks.boxes, abs=1e-3)


@pytest.mark.slow
def test_appearance_comes_from_the_same_pass_and_is_stored_by_the_command(detector, tmp_path, capsys):
    images = still_images(tmp_path / "seq", 3)
    (*_, last) = detector.track(images, with_reid=True, most=5, **EASY)
    assert len(last.tracks) > 1
    words = ["--source", str(images), "--weights", detector.weights[0], "--device", "cpu", "--max-det", "5"]
    more = ["--track", "with_reid=true", "track_high_thresh=0.2", "new_track_thresh=0.2"]
    assert main(["track", *words, "--project", str(tmp_path / "out"), "--save-detections", *more]) == 0
    stored = read_detections(tmp_path / "out" / "exp" / "detections")
    assert stored.features.shape[0] == len(stored) and np.linalg.norm(stored.features, axis=1) == pytest.approx(1)
    again = ["--detections", str(tmp_path / "out" / "exp" / "detections"), "--project", str(tmp_path / "again")]
    assert main(["track", *again, *more]) == 0
    texts = [(tmp_path / place / "exp" / "seq.txt").read_text() for place in ("out", "again")]
    assert texts[0] == texts[1] and texts[0]
    with pytest.raises(UserError, match="ocsort does not look at appearance"):
        detector.track(images, "ocsort", reid="net.onnx")
    with pytest.raises(UserError, match=r"net\.onnx: does not exist"):
        detector.track(images, reid="net.onnx")


def test_times_are_those_of_an_uneven_video(detector, tmp_path):
    video = retime(save_video(tmp_path / "uneven.mp4", frames=6, fps=10), [1024, 1024, 5 * 1024, 1024, 1024, 1024])
    times = [one.time for one in detector.track(video, most=1)]
    assert times == pytest.approx([0, 0.1, 0.2, 0.7, 0.8, 0.9], abs=1e-3)


@pytest.mark.parametrize("is_video", [True, False])
def test_every_second_frame_keeps_its_number_and_time(detector, tmp_path, is_video):
    source = save_video(tmp_path / "a.mp4", frames=6, fps=10) if is_video else still_images(tmp_path / "a", 6)
    rate = 10 if is_video else 5
    found = list(detector.track(source, most=1, every=2, frame_rate=5))
    assert [one.number for one in found] == [one.place.number for one in found] == [1, 3, 5]
    assert [one.frame.number for one in found] == [0, 2, 4] and found[0].place.length == 6
    assert [one.time for one in found] == pytest.approx([0, 2 / rate, 4 / rate], abs=1e-3)
    assert found[0].place.frame_rate == pytest.approx(rate / 2)
    assert [one.frame.number for one in detector.stream(source, every=2)] == [0, 2, 4]


def test_times_of_images_and_stored_detections_are_those_of_times_txt(detector, tmp_path):
    images = still_images(tmp_path / "SEQ" / "img1", 3)
    (tmp_path / "SEQ" / "seqinfo.ini").write_text("[Sequence]\nname=SEQ\nframeRate=10\nseqLength=3\n")
    (tmp_path / "SEQ" / "det").mkdir()
    (tmp_path / "SEQ" / "det" / "det.txt").write_text("1,-1,5,5,9,9,0.9\n3,-1,5,5,9,9,0.9\n")
    (tmp_path / "SEQ" / "times.txt").write_text("0\n0.1\n0.7\n")
    assert [one.time for one in detector.track(tmp_path / "SEQ", most=1)] == [0, 0.1, 0.7]
    assert [one.time for one in detector.track(images, most=1, frame_rate=5)] == pytest.approx([0, 0.2, 0.4])
    assert read_detections(tmp_path / "SEQ").times.tolist() == [0, 0.1, 0.7]
    (tmp_path / "SEQ" / "times.txt").write_text("0\n0.1\n")
    with pytest.raises(UserError, match=r"times\.txt: has 2 times, but the sequence 3 frames"):
        list(detector.track(images, most=1))


def test_a_video_that_ends_early_keeps_its_frames(detector, tmp_path):
    video = save_video(tmp_path / "long.mp4", frames=40)
    content = video.read_bytes()
    start, end = content.index(b"mdat") + 4, content.index(b"moov") - 4
    keep = start + (end - start) // 2
    video.write_bytes(content[:keep] + bytes(end - keep) + content[end:])
    faults = []
    frames = list(detector.track(video, most=1, on_fault=faults.append))
    assert 4 < len(frames) < 36 and "ends after" in faults[0].what
    seen = []
    with pytest.raises(UserError, match="ends after"):
        seen.extend(one.place.number for one in detector.track(video, most=1))
    assert seen == []  # the error comes after what was read, to those who look frame by frame


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tracker": "botsrot"}, "did you mean 'botsort'"),
        ({"match_tresh": 0.5}, "did you mean 'match_thresh'"),
        ({"conf": 2}, "conf is 2"),
        ({"classes": ["cart"]}, "there is no class"),
        ({"frame_rate": 0}, "frame rate is 0"),
        ({"source": []}, "no source"),
        ({"source": ["0", "a.mp4"]}, "different speeds"),
        ({"source": ["x", "x"]}, "twice"),
        ({"source": picture(0)}, "a source is ndarray"),
        ({"source": [picture(0)]}, "a source is ndarray"),
        ({"source": None}, "a source is NoneType"),
        ({"source": "x" * 5000}, "cannot be read: File name too long"),
        ({"every": 0}, "every is 0"),
        ({"batch": 0}, "batch is 0\n  fix: give a whole number from 1"),
    ],
)
def test_mistakes_are_said_before_anything_is_read(detector, tmp_path, arguments, message):
    save_video(tmp_path / "a.mp4")
    source = arguments.pop("source", tmp_path / "a.mp4")
    with pytest.raises(UserError, match=message):
        detector.track(source, **arguments)


def test_a_sequence_whose_images_are_a_video(tmp_path):
    """As `dataset shapes-video --video` writes it."""
    save_video(tmp_path / "A.mp4")
    (tmp_path / "A").mkdir()
    (tmp_path / "A" / "seqinfo.ini").write_text("[Sequence]\nname=A\nimDir=../A.mp4\n")
    assert folder_of_images(str(tmp_path / "A")) == str(tmp_path / "A.mp4")
    frames = next(open_sources([tmp_path / "A"], 2, on_fault=raise_fault).batches)
    assert [frame.name for frame in frames] == [str(tmp_path / "A.mp4")] * 2
    (tmp_path / "A" / "times.txt").write_text("0.0\n0.5\n")
    (tmp_path / "A" / "seqinfo.ini").write_text("[Sequence]\nname=A\nimDir=../A.mp4\nframeRate=7\n")
    places = [FrameTimeline().place(frame) for frame in frames]
    assert [(one.time, one.frame_rate) for one in places] == [(0.0, 7), (0.5, 7)], "a video may hold even times only"
    (tmp_path / "A" / "seqinfo.ini").write_text("[Sequence]\nname=A\nimDir=img1\n")
    assert FrameTimeline().place(frames[1]).time == frames[1].time, "times of something else"


def test_numbers_of_images():
    assert frame_numbers(["a_000001.jpg", "a_000002.jpg", "a_000005.jpg"]) == dict(
        zip(["a_000001.jpg", "a_000002.jpg", "a_000005.jpg"], [1, 2, 5], strict=True)
    )
    assert list(frame_numbers(["0.png", "10.png", "30.png"]).values()) == [1, 2, 4]  # every tenth was kept
    assert list(frame_numbers(["1532402927612460.jpg", "1532402928112460.jpg", "1532402928162404.jpg"]).values()) == [
        1, 2, 3,
    ]  # fmt: skip
    assert list(frame_numbers(["front.png", "back.png"]).values()) == [1, 2]
    assert list(frame_numbers(["b_2.png", "a_1.png"]).values()) == [1, 2]


def test_frames_out_of_order_follow_one_another():
    video, timeline = Video("a.mp4", 10.0, 5), FrameTimeline()
    places = [
        timeline.place(Frame(picture(0), "a.mp4", n, video, t)) for n, t in ((0, 0.0), (1, 0.1), (2, 0.05), (1, None))
    ]
    assert [place.time for place in places] == pytest.approx([0, 0.1, 0.2, 0.3])
    assert [place.number for place in places] == [1, 2, 3, 4] and timeline.repaired == {"a"}


@pytest.mark.parametrize(("stated", "lengths"), [(2, {}), (9, {"SEQ": (2, 9)}), (1, {"SEQ": (2, 1)})])
def test_another_number_of_images_than_stated(tmp_path, stated, lengths):
    (tmp_path / "SEQ" / "img1").mkdir(parents=True)
    (tmp_path / "SEQ" / "seqinfo.ini").write_text(f"[Sequence]\nname=SEQ\nframeRate=10\nseqLength={stated}\n")
    names = [str(tmp_path / "SEQ" / "img1" / f"{number:06}.jpg") for number in (301, 302)]
    timeline = FrameTimeline(names)
    assert [timeline.place(Frame(picture(0), name, n)).number for n, name in enumerate(names)] == [1, 2]
    assert timeline.lengths == lengths


@pytest.mark.slow
def test_the_cameras_motion_keeps_identities():
    """Small things stand still in a scenery that passes by: without camera motion each frame shows new ones."""
    step, views = 30, panned(6, 30)

    def seen():
        for place, view in enumerate(views):
            left = np.array([200.0, 240.0, 280.0])[:, None] - place * step
            boxes = np.concatenate((left, left * 0 + 100, left + 12, left * 0 + 120), axis=1)
            found = ExactDetections(boxes, np.full(3, 0.9), np.zeros(3, np.int64))
            yield SeenFrame(FramePlace("a", place + 1, place / 30, 30.0, 6, False), Frame(view, "a"), found)

    shown = {}
    for method in ("sparseOptFlow", "none"):
        times = StageTimes()
        make = tracker_maker("botsort", faithful=False, class_handling="vote", settings={"cmc_method": method})
        frames = list(Follower(make, times).follow(seen()))
        shown[method] = [sorted(one.tracks.ids.tolist()) for one in frames]
        assert times.frames[CAMERA] == (6 if method != "none" else 0)
    assert shown["sparseOptFlow"] == [[1, 2, 3]] * 6 and shown["none"][1] != [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("with_reid", [False, True])
def test_the_cameras_motion_is_found_on_the_frame_that_the_detector_resized(with_reid, tmp_path, monkeypatch):
    """It is not resized again, and its motion is told in pixels of the frame."""
    for number, view in enumerate(panned(3, 12, 450, 660)):
        cv2.imwrite(str(tmp_path / f"{number}.png"), view)
    detector = Detector(save_seeing(tmp_path / "some.pt", img_size=64), device="cpu", size=448)
    settings = {"with_reid": with_reid, "cmc_method": "sparseOptFlow"}
    make = tracker_maker("botsort", faithful=False, class_handling="vote", settings=settings)
    inputs, looked_at, fit_all, grey = [], [], detector.fitted, camera_motion._grey
    monkeypatch.setattr(detector, "fitted", lambda images: inputs.extend(fit_all(images)) or inputs[-len(images) :])
    monkeypatch.setattr(camera_motion, "_grey", lambda image, scale: looked_at.append(image) or grey(image, scale))
    opened, times = open_sources([str(tmp_path)], 2, on_fault=raise_fault), StageTimes()
    see = eye_of(detector, tracking_filter("vote", {"most": 3}), make(30.0), None)
    frames = list(Follower(make, times).follow(detected(see, opened.batches, opened.timeline, times)))
    assert [one.input.shape for one in inputs] == [(304, 448, 3)] * 3
    assert all(np.shares_memory(seen, one.input) for seen, one in zip(looked_at, inputs, strict=True))
    assert frames[0].warp is None
    for one in frames[1:]:
        assert one.warp == pytest.approx(np.array([[1, 0, -12], [0, 1, 0]]), abs=0.2)
