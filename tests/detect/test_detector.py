"""Pictures in, boxes in their own pixels out."""

import cv2
import numpy as np
import pytest
import torch

from tests.detect.seeing import picture, save_seeing, save_video
from yolofast import Detector, UserError, decode
from yolofast.media.pictures import fit
from yolofast.structures import InputConvention


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return save_seeing(tmp_path_factory.mktemp("weights") / "some.pt", img_size=96)


def test_fit_keeps_the_aspect_and_says_how_to_get_back():
    image = np.random.default_rng(0).integers(0, 255, (50, 200, 3), np.uint8)
    fitted, place = fit(image, (100, 100), 32)
    assert fitted.shape == (32, 128, 3) and place.gain == (0.5, 0.5) and place.pad == (14, 3)
    assert (fitted[:3] == 114).all() and (fitted[:, :14] == 114).all() and not (fitted[3:28, 14:114] == 114).all()


def test_fit_for_yolox_pads_behind_to_a_square():
    image = np.random.default_rng(0).integers(0, 255, (50, 201, 3), np.uint8)
    fitted, place = fit(image, (100, 100), 32, InputConvention(rgb=False, divisor=1, top_left=True, whole=True))
    assert fitted.shape == (128, 128, 3) and place.pad == (0, 0) and place.gain == (100 / 201, 24 / 50)
    assert (fitted[24:] == 114).all() and (fitted[:, 100:] == 114).all() and not (fitted[:24, :100] == 114).all()


def test_a_square_picture_gives_what_the_network_gives(weights):
    image = np.random.default_rng(1).integers(0, 255, (96, 96, 3), np.uint8)
    detector = Detector(weights, device="cpu")
    assert detector.size == 96  # that of training
    (found,) = detector.predict(image, conf=0.05)
    assert len(found) and detector.names == ("cat", "dog", "cow")
    levels = torch.from_numpy(image[..., ::-1].copy()).permute(2, 0, 1)[None].float() / 255
    with torch.no_grad():
        rows = decode(detector.model(levels), detector.model)[0]
    best = (rows[:, 4:5] * rows[:, 5:]).max()
    assert found.scores[0] == pytest.approx(float(best), rel=1e-4)
    assert (found.scores[:-1] >= found.scores[1:]).all() and (found.boxes >= 0).all() and (found.boxes <= 96).all()


def test_pictures_of_many_shapes_files_and_arrays(weights, tmp_path):
    shapes = [(60, 90), (60, 90), (120, 50), (33, 33)]
    images = [np.random.default_rng(i).integers(0, 255, (*s, 3), np.uint8) for i, s in enumerate(shapes)]
    cv2.imwrite(str(tmp_path / "a.png"), images[1])
    detector = Detector(weights, size=64, device="cpu")
    together = detector.predict([images[0], tmp_path / "a.png", *images[2:]], conf=0.05)
    alone = [detector.predict(image, conf=0.05)[0] for image in images]
    for one, other, (height, width) in zip(together, alone, shapes, strict=True):
        # Rounding depends on the batch, and among many poor boxes it decides which of two stays: compare the best.
        np.testing.assert_allclose(one.scores[:3], other.scores[:3], rtol=1e-3)
        np.testing.assert_allclose(one.boxes[0], other.boxes[0], atol=0.1)
        assert (one.boxes[:, 2] <= width).all() and (one.boxes[:, 3] <= height).all()


def test_bad_pictures_and_weights(weights, tmp_path):
    detector = Detector(weights, device="cpu")
    with pytest.raises(UserError, match="cannot be read"):
        detector.predict(tmp_path / "missing.jpg")
    (tmp_path / "text.jpg").write_text("hello")
    with pytest.raises(UserError, match="not an image"):
        detector.predict(tmp_path / "text.jpg")
    with pytest.raises(UserError):
        Detector(tmp_path / "missing.pt")


@pytest.mark.slow
@pytest.mark.parametrize("array", [np.zeros((4, 4, 3), int), np.zeros((0, 4, 3), np.uint8), 7, {"a": 1}, [[1, 2]]])
def test_what_is_no_picture(weights, array):
    for given in ([array], array):
        with pytest.raises(UserError, match=r"image|cannot be read"):
            Detector(weights, device="cpu").predict(given)


def test_a_video_frame_by_frame(weights, tmp_path):
    video = save_video(tmp_path / "video.mp4", frames=5)
    detector = Detector(weights, size=64, device="cpu")
    seen = list(detector.stream(video, batch=2, conf=0.05))
    assert [one.frame.number for one in seen] == list(range(5))
    together = detector.predict(video, conf=0.05)
    assert [len(one) for one in together] == [len(one.detections) for one in seen]
    with pytest.raises(UserError, match="no setting 'confidence'"):
        detector.stream(video, confidence=0.1)


def test_looking_often_joins_what_is_seen(weights):
    detector = Detector(weights, size=64, device="cpu")
    once, often = (detector.predict(picture(0), conf=0.0, iou=1.0, most=10_000, augment=a)[0] for a in (False, True))
    assert len(often) > 1.5 * len(once) and often.scores[0] >= once.scores[0] - 1e-5
