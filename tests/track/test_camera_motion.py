"""The camera's motion: known warps are found, and what cannot be estimated is no motion, never a crash."""

import cv2
import numpy as np
import pytest

from yolofast import build_tracker
from yolofast.media.pictures import fit
from yolofast.track.trackers import camera_motion
from yolofast.track.trackers.camera_motion import CameraMotion

NOBODY = np.zeros((0, 4))


def scenery(height=480, width=640, seed=0):
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 255, (height // 8, width // 8, 3), dtype=np.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)


def moved(image, matrix):
    return cv2.warpAffine(image, matrix, image.shape[1::-1], borderMode=cv2.BORDER_REFLECT)


def known(angle, zoom, x, y):
    turn = np.deg2rad(angle)
    cos, sin = zoom * np.cos(turn), zoom * np.sin(turn)
    return np.array([[cos, -sin, x], [sin, cos, y]])


def corner_error(found, matrix, size):
    """The farthest that a corner of the frame is from where it should be."""
    corners = np.array([[x, y, 1] for x in (0, size[1]) for y in (0, size[0])])
    return np.linalg.norm(corners @ (found - matrix).T, axis=1).max()


@pytest.mark.parametrize(
    ("method", "faithful", "size"),
    [
        ("sparseOptFlow", False, (480, 640)),
        ("sparseOptFlow", True, (480, 640)),
        ("sparseOptFlow", False, (1080, 1920)),
        ("sparseOptFlow", True, (1080, 1920)),
        ("orb", False, (1080, 1920)),
        ("orb", True, (480, 640)),
    ],
)
def test_a_known_motion_is_found(method, faithful, size):
    motion, image, matrix = CameraMotion(method, faithful=faithful), scenery(*size), known(0.5, 1.01, 6.0, -4.0)
    assert motion.warp(image, NOBODY) is None, "there is no frame before the first"
    found = motion.warp(moved(image, matrix), NOBODY)
    assert corner_error(found, matrix, size) < 0.5


@pytest.mark.parametrize("shape", [(640, 640), (416, 416), (448, 768)])
def test_the_frame_that_the_detector_resized_shows_the_motion_as_well(shape, monkeypatch):
    """In pixels of the whole frame, although it is reduced by 3 or more, and not equally in both directions."""
    size, matrix, looked_at = (1080, 1918), known(-0.7, 0.99, 14.0, 9.0), []
    frames = [scenery(*size), moved(scenery(*size), matrix)]
    fitted = [fit(frame, shape, 32) for frame in frames]
    grey = camera_motion._grey
    monkeypatch.setattr(camera_motion, "_grey", lambda image, scale: looked_at.append(image) or grey(image, scale))
    motion = CameraMotion("sparseOptFlow")
    found = [motion.warp(frame, NOBODY, one.resized) for frame, one in zip(frames, fitted, strict=True)]
    assert corner_error(found[1], matrix, size) < 0.35
    assert all(np.shares_memory(seen, one.input) for seen, one in zip(looked_at, fitted, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "long_side"), [("sparseOptFlow", 320), ("orb", 640), ("sparseOptFlow", 1280)]
)  # too small to be exact, too small for this method, larger than the frame
def test_a_frame_of_another_size_is_looked_at_itself(method, long_side):
    frames = [scenery(720, 1100), moved(scenery(720, 1100), known(1, 1, 3, 5))]
    alone, beside = CameraMotion(method), CameraMotion(method)
    for frame in frames:
        expected = alone.warp(frame, NOBODY)
        found = beside.warp(frame, NOBODY, fit(frame, (long_side, long_side), 32).resized)
    assert found.tolist() == expected.tolist()


def test_another_frame_size_is_another_video_even_if_the_detector_sees_no_difference():
    motion = CameraMotion("sparseOptFlow")
    for size in ((360, 640), (540, 960)):
        frame = scenery(*size)
        assert motion.warp(frame, NOBODY, fit(frame, (480, 480), 32).resized) is None


@pytest.mark.slow
def test_orb_finds_the_same_corners_after_a_jump():
    """It is too far for optical flow, which sees corners move by a few pixels."""
    matrix, box = known(2, 1, 110, -60), np.array([[0.0, 0.0, 300.0, 300.0]])
    image = scenery()
    later = moved(image, matrix)
    later[:300, :300] = image[:300, :300]  # it goes with the camera
    errors = {}
    for method in ("sparseOptFlow", "orb"):
        motion = CameraMotion(method)
        motion.warp(image, box)
        errors[method] = corner_error(motion.warp(later, box), matrix, (480, 640))
    assert errors["orb"] < 1.0 < errors["sparseOptFlow"]


def test_matches_of_orb_that_move_unlike_the_others_are_dropped_on_both_sides():
    rng = np.random.default_rng(0)
    looks = rng.integers(0, 256, (60, 32), dtype=np.uint8)
    points = rng.uniform(100, 200, (60, 2)).astype(np.float32)
    later = points + 4
    later[:2] += 30  # two that move ahead of the others, two that stay behind
    later[2:4] -= 30
    later[4] += 400  # farther than a quarter of the frame
    grey = np.zeros((480, 640), np.uint8)
    for one_sided, dropped in ((False, 5), (True, 3)):
        views = [camera_motion.View((480, 640), grey, some, looks) for some in (points, later)]
        first, second = camera_motion._alike(*views, one_sided=one_sided)
        assert len(first) == len(second) == 60 - dropped
    same = np.repeat(looks[:1], 60, axis=0)
    views = [camera_motion.View((480, 640), grey, some, same) for some in (points, later)]
    assert len(camera_motion._alike(*views, one_sided=False)[0]) == 0, "which is which?"


@pytest.mark.slow
def test_ecc_follows_a_camera_that_keeps_moving():
    """As published it compares with the first frame for ever, and its shift is half of what it is."""
    image, steps = scenery(480, 700), (0, 4, 8)
    views = [np.ascontiguousarray(image[:, step : step + 640]) for step in steps]
    found = {}
    for faithful in (False, True):
        motion = CameraMotion("ecc", faithful=faithful)
        found[faithful] = [motion.warp(view, NOBODY) for view in views][1:]
    assert [warp[0, 2] for warp in found[False]] == pytest.approx([-4, -4], abs=0.3)
    assert [warp[0, 2] for warp in found[True]] == pytest.approx([-2, -4], abs=0.3)


def test_what_moves_by_itself_is_left_out():
    image = scenery()
    later, box = image.copy(), np.array([[100.0, 100.0, 400.0, 400.0]])
    later[100:400, 120:420] = image[100:400, 100:400]
    motion = CameraMotion("sparseOptFlow")
    motion.warp(image, box)
    assert np.abs(motion.warp(later, box) - np.eye(2, 3)).max() < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize("method", ["sparseOptFlow", "orb", "ecc"])
@pytest.mark.parametrize(
    "images",
    [
        [np.zeros((100, 100, 3), np.uint8)] * 3,  # no corners
        [scenery(), scenery(240, 320), scenery(240, 320)],  # another size
        [scenery(seed=1), np.zeros((480, 640, 3), np.uint8), scenery(seed=2)],
        [np.zeros((1, 1, 3), np.uint8)] * 2,
        [scenery()[..., 0], scenery()[..., 0]],  # grey already
    ],
)
def test_never_a_crash(images, method, faithful):
    motion, tracker = CameraMotion(method, faithful=faithful), build_tracker("botsort", cmc_method=method)
    box = np.array([[-20.0, -10.0, 700.0, 600.0]])
    for image in images:
        motion.warp(image, box, image[::3, ::3])
        tracker.update(box, [0.9], image=image)


@pytest.mark.parametrize("method", ["sparseOptFlow", "orb", "ecc"])
def test_a_restarted_stream_knows_the_last_frame(method):
    frames = [scenery(240, 320), moved(scenery(240, 320), known(0, 1, 3, 2))]
    first, second = CameraMotion(method), CameraMotion(method)
    first.warp(frames[0], NOBODY)
    second.remember(second.view_of(first.state_dict()))
    assert second.warp(frames[1], NOBODY).tolist() == first.warp(frames[1], NOBODY).tolist()


@pytest.mark.slow
def test_a_camera_that_shakes_keeps_identities():
    image, box, found = scenery(480, 700), np.array([[300.0, 200.0, 312.0, 230.0]]), {}
    for method in ("none", "sparseOptFlow"):
        tracker, found[method] = build_tracker("botsort", cmc_method=method), 0
        for number in range(12):
            shift = 20 * (number % 2)
            view = np.ascontiguousarray(image[:, shift : shift + 640])
            found[method] += 1 in tracker.update(box - (shift, 0, shift, 0), [0.9], image=view).ids
    assert found["sparseOptFlow"] == 12 and found["none"] < 8
