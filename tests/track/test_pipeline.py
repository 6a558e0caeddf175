"""From sources to tracks: times, several videos at once, camera motion, bad input."""

import numpy as np
import pytest

from tests.detect.seeing import picture, save_seeing, save_video
from tests.track.scenes import panned, retime, still_images
from yolofast import Detector, UserError
from yolofast.media.frames import Frame, Video
from yolofast.track.pipeline import CAMERA, Follower, Found, Seen, StageTimes, tracker_maker
from yolofast.track.timeline import Place, Timeline, frame_numbers

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


def test_times_are_those_of_an_uneven_video(detector, tmp_path):
    video = retime(save_video(tmp_path / "uneven.mp4", frames=6, fps=10), [1024, 1024, 5 * 1024, 1024, 1024, 1024])
    times = [one.time for one in detector.track(video, most=1)]
    assert times == pytest.approx([0, 0.1, 0.2, 0.7, 0.8, 0.9], abs=1e-3)


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
    ],
)
def test_mistakes_are_said_before_anything_is_read(detector, tmp_path, arguments, message):
    save_video(tmp_path / "a.mp4")
    source = arguments.pop("source", tmp_path / "a.mp4")
    with pytest.raises(UserError, match=message):
        detector.track(source, **arguments)


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
    video, timeline = Video("a.mp4", 10.0, 5), Timeline()
    places = [
        timeline.place(Frame(picture(0), "a.mp4", n, video, t)) for n, t in ((0, 0.0), (1, 0.1), (2, 0.05), (1, None))
    ]
    assert [place.time for place in places] == pytest.approx([0, 0.1, 0.2, 0.3])
    assert [place.number for place in places] == [1, 2, 3, 4] and timeline.repaired == {"a"}


def test_the_cameras_motion_keeps_identities():
    """Small things stand still in a scenery that passes by: without camera motion each frame shows new ones."""
    step, views = 30, panned(6, 30)

    def seen():
        for place, view in enumerate(views):
            left = np.array([200.0, 240.0, 280.0])[:, None] - place * step
            boxes = np.concatenate((left, left * 0 + 100, left + 12, left * 0 + 120), axis=1)
            found = Found(boxes, np.full(3, 0.9), np.zeros(3, np.int64))
            yield Seen(Place("a", place + 1, place / 30, 30.0, 6, False), Frame(view, "a"), found)

    shown = {}
    for method in ("sparseOptFlow", "none"):
        times = StageTimes()
        make = tracker_maker("botsort", faithful=False, class_handling="vote", settings={"cmc_method": method})
        frames = list(Follower(make, times).follow(seen()))
        shown[method] = [sorted(one.tracks.ids.tolist()) for one in frames]
        assert times.frames[CAMERA] == (6 if method != "none" else 0)
    assert shown["sparseOptFlow"] == [[1, 2, 3]] * 6 and shown["none"][1] != [1, 2, 3]
