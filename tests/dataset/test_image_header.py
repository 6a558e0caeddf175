"""Sizes, rotation and completeness from headers, compared with what the library decodes."""

import os

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dataset.make import (
    damaged_png,
    encoded,
    exif,
    png_chunk,
    png_of_many_pixels,
    png_with_exif,
    tiff,
    webp_with_exif,
    with_exif,
)
from yolofast.dataset.check import check_image
from yolofast.dataset.data_yaml import IMAGE_SUFFIXES
from yolofast.dataset.faults import FaultKind
from yolofast.dataset.image_header import (
    BadImageError,
    ImageHeader,
    TruncatedImageError,
    exif_orientation,
    read_image_header,
)
from yolofast.errors import UserError
from yolofast.media.pictures import read_picture


def put(tmp_path, content, name="image.jpg"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def decoded_size(path):
    height, width = cv2.imread(str(path), cv2.IMREAD_COLOR).shape[:2]
    return width, height


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", range(10))
def test_rotation_is_what_the_library_makes_of_it(tmp_path, orientation, order):
    path = put(tmp_path, with_exif(encoded(width=50, height=30), orientation, order))
    header = read_image_header(path)
    assert (header.width, header.height) == decoded_size(path)
    assert header.orientation == (orientation if 1 <= orientation <= 8 else 1)


def test_rotation_of_a_png(tmp_path):
    path = put(tmp_path, png_with_exif(encoded(".png", 50, 30), 6), "image.png")
    assert read_image_header(path).orientation == 6
    assert check_image(str(path)).fault is None


@pytest.mark.parametrize("prefix", [b"", b"Exif\0\0"])
@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_rotation_of_a_webp(tmp_path, orientation, prefix):
    content = webp_with_exif(encoded(".webp", 50, 30), 50, 30, orientation, prefix)
    path = put(tmp_path, content, "image.webp")
    header = read_image_header(path)
    assert (header.width, header.height) == decoded_size(path)
    assert header.orientation == orientation
    assert check_image(str(path)).fault is None


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_rotation_of_a_tiff(tmp_path, orientation, order):
    """The pixels are compared with turning them by hand, since OpenCV reads such a file only from memory."""
    pixels = np.random.default_rng(0).integers(0, 255, (30, 50), dtype=np.uint8)
    path = put(tmp_path, tiff(50, 30, orientation, pixels.tobytes(), order), "image.tiff")
    assert read_image_header(path) == ImageHeader(*((30, 50) if orientation > 4 else (50, 30)), orientation)
    assert check_image(str(path)).fault is None
    shown = cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_COLOR)[..., 0]
    turned = [pixels, pixels[:, ::-1], pixels[::-1, ::-1], pixels[::-1]]
    turned += [pixels.T, pixels[::-1].T, pixels[::-1, ::-1].T, pixels[:, ::-1].T]
    np.testing.assert_array_equal(shown, turned[orientation - 1])


@pytest.mark.parametrize(
    ("name", "content"), [("x.png", png_of_many_pixels()), ("x.tiff", tiff(60_000, 60_000, 1, bytes(9)))]
)
def test_more_pixels_than_memory_holds_are_refused_by_the_header(tmp_path, name, content):
    with pytest.raises(BadImageError, match="60000×60000 pixels, more than"):
        read_image_header(put(tmp_path, content, name))
    assert "60000×60000" in check_image(str(tmp_path / name)).fault.what


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(OSError, match="a pipe or a device"):
        read_image_header(tmp_path / "pipe.jpg")
    assert "a pipe or a device" in check_image(str(tmp_path / "pipe.jpg")).fault.what


def test_progressive_jpeg_and_bytes_after_its_end(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (30, 50, 3), dtype=np.uint8)
    progressive = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    filled = progressive[:-2] + b"\xff\xff\xff\xd9"  # any number of fill bytes may precede a marker
    for content in (progressive, progressive + b"camera notes", filled + b"camera notes"):
        assert read_image_header(put(tmp_path, content)) == ImageHeader(50, 30)


def test_rows_of_a_bmp_may_run_from_the_top(tmp_path):
    content = bytearray(encoded(".bmp", 50, 30))
    content[22:26] = (-30).to_bytes(4, "little", signed=True)
    assert read_image_header(put(tmp_path, bytes(content))) == ImageHeader(50, 30)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp"])
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.99])
def test_a_truncated_image_is_found_without_decoding(tmp_path, suffix, kept):
    content = encoded(suffix, 200, 150)
    with pytest.raises(TruncatedImageError):
        read_image_header(put(tmp_path, content[: int(len(content) * kept)], "image" + suffix))


def test_a_thumbnail_does_not_end_the_image(tmp_path):
    jpeg = encoded(width=200, height=150)
    thumbnail = b"\xff\xee" + (2 + len(encoded())).to_bytes(2, "big") + encoded()
    whole = jpeg[:2] + thumbnail + jpeg[2:]
    assert read_image_header(put(tmp_path, whole)) == ImageHeader(200, 150)
    with pytest.raises(TruncatedImageError):
        read_image_header(put(tmp_path, whole[:-500]))


@pytest.mark.parametrize(
    "content", [b"", b"GIF89a" + bytes(40), b"\xff\xd8", b"\xff\xd8\xff\xd9", b"BM", b"\x89PNG\r\n\x1a\n"]
)
def test_what_is_no_image(tmp_path, content):
    with pytest.raises(BadImageError):
        read_image_header(put(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"GIF89a" + bytes(40), "GIF"),
        (b"\0\0\0 ftypavif" + bytes(40), "AVIF"),
        (b"\0\0\0 ftypheic" + bytes(40), "HEIC"),
        (b"\0\0\0 ftypisom" + bytes(40), "MP4 or similar"),
        (b"P6\n60 40\n255\n" + bytes(7200), "PNM (PPM, PGM)"),
        (b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(40), "JPEG 2000"),
        (b"II+\0" + bytes(40), "BigTIFF"),
    ],
)
def test_another_format_of_that_name_is_named(tmp_path, content, name):
    path = put(tmp_path, content)
    fault = check_image(str(path)).fault
    assert (fault.kind, fault.what) == (FaultKind.UNSUPPORTED, f"is {name}, which is not read, whatever its name says")
    assert fault.fatal and fault.fix.startswith("convert it to JPEG or PNG")
    with pytest.raises(UserError, match="which is not read") as caught:
        read_picture(path)
    assert (caught.value.what, caught.value.fix) == (fault.what, fault.fix)


@pytest.mark.parametrize("suffix", sorted(IMAGE_SUFFIXES))
def test_every_name_of_an_image_can_be_read(tmp_path, suffix):
    content = encoded({".dng": ".tiff", ".mpo": ".jpg"}.get(suffix, suffix), 50, 30)
    if suffix == ".mpo":
        content *= 2  # a second view behind the first
    path = put(tmp_path, content, "image" + suffix)
    assert read_image_header(path) == ImageHeader(50, 30) and check_image(str(path)).fault is None
    assert read_picture(path).shape == (30, 50, 3)


def test_damage_inside_a_png_is_found_by_its_checksum(tmp_path):
    path = put(tmp_path, damaged_png(), "image.png")
    read_image_header(path)  # which does not look there
    assert "checksum" in check_image(str(path)).fault.what


def test_a_header_that_lies_about_the_size(tmp_path):
    png = encoded(".png", 50, 30)
    lying = png[:8] + png_chunk(b"IHDR", (60).to_bytes(4, "big") + png[20:29]) + png[33:]
    assert check_image(str(put(tmp_path, lying, "image.png"))).fault is not None


@pytest.mark.slow
@settings(deadline=None)  # busy machines are slow, not wrong
@given(
    content=st.binary(max_size=80),
    start=st.sampled_from([b"\xff\xd8", b"BM", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe1"]),
)
def test_any_file_ends_in_a_header_or_the_error(tmp_path_factory, content, start):
    path = put(tmp_path_factory.getbasetemp(), start + content, "any.jpg")
    try:
        header = read_image_header(path)
    except BadImageError:
        return
    assert min(header.width, header.height) >= 1


@pytest.mark.slow
@given(st.binary(max_size=60))
def test_any_exif_has_an_orientation(content):
    assert 1 <= exif_orientation(exif(6)[:8] + content) <= 8
