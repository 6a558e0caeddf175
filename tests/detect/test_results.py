"""What `Detector` gives: detections that can be looked at, drawn, saved and given to others."""

import io
import json
import subprocess
import sys

import cv2
import numpy as np
import PIL.Image
import pytest
import torch

from tests.detect.seeing import picture, save_seeing, save_video
from yolofast import Detector, ImageDetections, UserError
from yolofast.detect import results
from yolofast.structures import Detections

NAMES = ("cat", "<b>dog</b>", "cow")


def found(**changes):
    values = {
        "boxes": np.array([[1, 2, 11, 22], [30.4, 10, 62, 47.6], [5, 5, 5, 5]], np.float32),
        "scores": np.array([0.9, 0.5, 0.25], np.float32),
        "labels": np.array([1, 0, 1]),
        "names": NAMES,
        "height": 48,
        "width": 64,
        "kept": picture(0),
    }
    return ImageDetections(**values | changes)


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    path = save_seeing(tmp_path_factory.mktemp("weights") / "some.pt", names=NAMES, img_size=64)
    return Detector(path, device="cpu")


def test_one_by_one():
    three = found()
    assert len(three) == 3 and isinstance(three, Detections)
    first = three[0]
    assert (first.name, first.label, first.score) == ("<b>dog</b>", 1, pytest.approx(0.9))
    assert first.box.tolist() == [1, 2, 11, 22]
    assert [one.name for one in three] == ["<b>dog</b>", "cat", "<b>dog</b>"] == [one[3] for one in three]
    assert three[-1].box.tolist() == three[2].box.tolist() == [5, 5, 5, 5]
    for place in (3, -4):
        with pytest.raises(IndexError, match="there are 3"):
            three[place]


def test_some_of_them_know_all_that_all_know():
    three = found(path="street.jpg")
    for some in (three[1:], three[three.scores < 0.6], three[[1, 2]], three[np.array([1, 2])]):
        assert len(some) == 2 and some.path == "street.jpg" and some.names == NAMES and some[0].name == "cat"
    assert len(three[[]]) == 0 and three[[]].plot().shape == (48, 64, 3)
    for wrong in ("cat", [7], np.zeros(2, bool), 1.5, None):
        with pytest.raises(UserError, match="cannot be chosen from by"):
            three[wrong]


def test_a_line_says_what_it_is():
    assert repr(found()) == "<image, 64×48: 2 <b>dog</b>, 1 cat>"
    assert repr(found(path="a/street.jpg")[:0]) == "<a/street.jpg, 64×48: nothing>"
    assert repr(found(path="a.mp4", frame=7)[1:2]) == "<a.mp4 frame 7, 64×48: 1 cat>"


def test_drawn_on_a_copy_in_the_order_asked_for():
    three, before = found(), picture(0)
    drawn = three.plot()
    assert drawn.shape == before.shape and (drawn != before).any() and (three.image == before).all()
    np.testing.assert_array_equal(three.plot(channels="rgb"), drawn[..., ::-1])
    np.testing.assert_array_equal(three.plot(before[..., ::-1], channels="rgb"), drawn[..., ::-1])
    assert (three.plot(line_width=5) != drawn).any()
    for wrong in (0, -1, 1.5, 10_000):
        with pytest.raises(UserError, match="line_width is"):
            three.plot(line_width=wrong)
    with pytest.raises(UserError, match="has 10×10 pixels, its boxes are for 64×48"):
        three.plot(np.zeros((10, 10, 3), np.uint8))
    with pytest.raises(UserError, match="channels is 'grb'"):
        three.plot(channels="grb")


def test_crops_have_the_pixels_of_their_boxes():
    three, image = found(), picture(0)
    first, second, empty = three.crop()
    np.testing.assert_array_equal(first, image[2:22, 1:11])
    np.testing.assert_array_equal(second, image[10:48, 30:62])
    assert empty.shape == (1, 1, 3)
    np.testing.assert_array_equal(three.crop(channels="rgb")[0], first[..., ::-1])


@pytest.mark.parametrize("name", ["drawn.png", "new folder/drawn.bmp"])
def test_saved_as_a_file(tmp_path, name):
    path = found().save(tmp_path / name)
    np.testing.assert_array_equal(cv2.imread(str(path)), found().plot())


def test_saved_into_a_folder_under_its_own_name(tmp_path):
    assert found(path="street.png").save(tmp_path) == tmp_path / "street.jpg"
    assert found(path="a.mp4", frame=3).save(tmp_path) == tmp_path / "a_3.jpg"
    assert found().save(tmp_path).name == "image.jpg"


def test_nothing_of_the_users_is_overwritten(tmp_path):
    source = tmp_path / "street.jpg"
    cv2.imwrite(str(source), picture(0))
    before = source.read_bytes()
    three = found(path=str(source))
    for target in (source, tmp_path, tmp_path / "." / "street.jpg"):
        with pytest.raises(UserError, match="is the image itself"):
            three.save(target)
    assert source.read_bytes() == before
    with pytest.raises(UserError, match="end it with"):
        three.save(tmp_path / "drawn.txt")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        three.save(tmp_path / "file" / "drawn.jpg")


def test_as_json_and_plain_values():
    three = found(path="street.jpg")
    content = json.loads(three.to_json())
    assert content == three.to_dict() and content["path"] == "street.jpg"
    assert (content["width"], content["height"]) == three.shape[::-1] == (64, 48)
    assert content["detections"][1] == {"class": 0, "name": "cat", "score": 0.5, "box": [30.4, 10.0, 62.0, 47.6]}
    assert found(path="a.mp4", frame=2).to_dict()["frame"] == 2 and "frame" not in content


def test_as_a_table_of_pandas():
    table = found().to_pandas()
    assert list(table.columns) == ["x1", "y1", "x2", "y2", "score", "label", "name"] and len(table) == 3
    assert table.iloc[1]["name"] == "cat" and table.iloc[0]["x2"] == 11
    assert len(found()[:0].to_pandas()) == 0


@pytest.mark.slow
def test_as_detections_of_supervision():
    there = found().to_supervision()
    np.testing.assert_array_equal(there.xyxy, found().boxes)
    np.testing.assert_array_equal(there.confidence, found().scores)
    assert there.class_id.tolist() == [1, 0, 1] and there["class_name"].tolist() == ["<b>dog</b>", "cat", "<b>dog</b>"]
    assert len(found()[:0].to_supervision()) == 0 and len(there[there.confidence > 0.4]) == 2


@pytest.mark.parametrize("package", ["pandas", "supervision"])
def test_a_package_that_is_not_installed(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        UserError, match=rf"needs {package}, which is not installed\n  fix: pip install 'yolofast\[{package}\]'"
    ):
        getattr(found(), f"to_{package}")()


def test_a_notebook_shows_picture_and_table():
    page = found(path="<i>.jpg")._repr_html_()
    assert "data:image/jpeg;base64," in page and "&lt;b&gt;dog" in page and "<b>" not in page and "<i>" not in page
    many = found()[[0] * 50]
    assert many._repr_html_().count("<tr>") == 21 and "30 more" in many._repr_html_()
    assert "<img" not in found(path="a.mp4", frame=1, kept=None)._repr_html_()
    assert len(found(kept=np.zeros((3000, 4000, 3), np.uint8), height=3000, width=4000)._repr_html_()) < 100_000


def test_where_nothing_can_be_shown(monkeypatch):
    monkeypatch.setattr(results, "why_no_window", lambda: "there is no display")
    with pytest.raises(UserError, match="there is no display"):
        found().show()


def test_pictures_in_every_form_give_the_same(detector, tmp_path):
    image = picture(3)
    rgb = np.ascontiguousarray(image[..., ::-1])
    path = tmp_path / "street.png"
    cv2.imwrite(str(path), image)
    forms = [
        path, str(path), path.read_bytes(), PIL.Image.fromarray(rgb), image, torch.from_numpy(rgb).permute(2, 0, 1),
        image / 255, io.BytesIO(path.read_bytes()),
    ]  # fmt: skip
    (expected,) = detector(image, conf=0.05)
    assert len(expected)
    for one in detector(forms, conf=0.05):
        np.testing.assert_allclose(one.boxes, expected.boxes, atol=1e-3)
        assert one.names == NAMES and one.shape == (48, 64)
        np.testing.assert_array_equal(one.image, image)
    (same,) = detector.predict(rgb, channels="rgb", conf=0.05)
    np.testing.assert_allclose(same.boxes, expected.boxes, atol=1e-3)
    with path.open("rb") as file:
        (of_file,) = detector.predict(file, conf=0.05)
    assert of_file.path == str(path) and len(of_file) == len(expected)
    with pytest.raises(UserError, match="an open file gives str, not bytes"):
        detector.predict(io.StringIO("x"))
    assert len(detector.predict(np.stack([image, image]))) == 2 == len(detector.predict(iter([image, path])))


def test_files_are_named_and_read_again_only_when_drawn(detector, tmp_path):
    for number in range(2):
        cv2.imwrite(str(tmp_path / f"{number}.png"), picture(number))
    first, second = detector.predict(tmp_path, conf=0.05)
    assert (first.path, second.path) == (str(tmp_path / "0.png"), str(tmp_path / "1.png")) and first.frame is None
    assert first.kept is None and (second.image == picture(1)).all() and second.plot().shape == (48, 64, 3)
    cv2.imwrite(str(tmp_path / "0.png"), picture(0)[:20])
    with pytest.raises(UserError, match="has changed: it has 64×20 pixels"):
        first.plot()
    (tmp_path / "1.png").unlink()
    with pytest.raises(UserError, match="cannot be read"):
        second.plot()
    (opened,) = detector.predict(PIL.Image.open(io.BytesIO(cv2.imencode(".png", picture(0))[1].tobytes())))
    assert opened.path is None


def test_frames_of_a_video_are_numbered_and_not_kept(detector, tmp_path):
    video = save_video(tmp_path / "video.mp4", frames=3)
    seen = detector.predict(video, conf=0.05)
    assert [one.frame for one in seen] == [0, 1, 2] and seen[0].path == str(video)
    with pytest.raises(UserError, match=r"frame of a video\n  fix: give it: found.plot\(image\)"):
        seen[0].plot()
    assert seen[0].plot(picture(0)).shape == (48, 64, 3)
    for one in detector.stream(video, conf=0.05):
        assert one.detections.plot().shape == (48, 64, 3) and one.detections.names == NAMES
    (tracked, *_) = detector.track(video, tracker="bytetrack")
    assert tracked.detections.names == NAMES and tracked.detections.image.shape == (48, 64, 3)


@pytest.mark.slow
def test_nothing_optional_is_imported_for_prediction():
    code = (
        "import sys, yolofast.detect.detector;"
        "print([name for name in ('pandas', 'supervision', 'IPython') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
