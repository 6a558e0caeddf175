"""Images that promise more than they have: decoded by many threads, no more pixels at once than one may hold alone."""

import os
import struct
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.hostile.cost import cheap, refused
from yolofast.dataset import image_facts, image_header
from yolofast.dataset.check import check_image
from yolofast.dataset.image_header import BadImageError, read_image_header
from yolofast.files.budget import Room
from yolofast.files.threads import in_order, in_threads
from yolofast.image_bytes import decode_image, stored_size
from yolofast.media.frames import Frame
from yolofast.media.pictures import decode_picture
from yolofast.media.sources import _batches
from yolofast.store import fitted


class Watched:
    """In place of a decoder: how many pixels threads hold at once, at most."""

    def __init__(self, decode, pixels):
        self.decode, self.pixels = decode, pixels
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    def __call__(self, *args):
        amount = self.pixels(*args)
        with self.lock:
            self.now += amount
            self.most = max(self.most, self.now)
        try:
            threading.Event().wait(0.002)  # others come in meanwhile, if they may
            return self.decode(*args)
        finally:
            with self.lock:
                self.now -= amount


@pytest.fixture
def images(tmp_path):
    """Every fourth is as large as the room."""
    sides = [64 if n % 4 == 0 else 16 for n in range(32)]
    for n, side in enumerate(sides):
        cv2.imwrite(str(tmp_path / f"{n}.png"), np.full((side, side, 3), n, np.uint8))
    return [str(tmp_path / f"{n}.png") for n in range(32)], sides


def test_images_that_are_checked_at_once(images, monkeypatch):
    watched = Watched(image_facts.decoded_size, lambda content: int(np.prod(struct.unpack_from(">II", content, 16))))
    monkeypatch.setattr(image_facts, "decoded_size", watched)
    monkeypatch.setattr(image_facts, "DECODING", Room(64 * 64))
    checked = list(in_order(lambda n: check_image(images[0][n]), range(32), 8))
    assert [one.fault for one in checked] == [None] * 32 and watched.most <= 64 * 64


def test_images_that_are_packed_at_once(images, monkeypatch):
    files, sides = images
    watched = Watched(fitted.decoded, lambda content, file, size: int(size[0] * size[1]))
    monkeypatch.setattr(fitted, "decoded", watched)
    monkeypatch.setattr(fitted, "DECODING", Room(64 * 64))
    fit = fitted.Fit(32, 32, augmented=True)

    def pack(n):
        file, size = Path(files[n]), np.array([sides[n], sides[n]])
        return fitted.read_fitted(file, size, fit), fitted.read_as_jpeg(file, size, fit)

    assert len(list(in_order(pack, range(32), 8))) == 32 and watched.most <= 64 * 64


def test_more_than_the_room_is_held_alone():
    room = Room(10)
    with room.hold(1000):
        assert room._free == 0
    with room.hold(10):
        assert room._free == 0
    assert room._free == 10


@pytest.mark.slow
def test_a_process_that_forks_while_threads_decode():
    room = Room(10)
    with room.hold(10):
        child = os.fork()
        if not child:
            with room.hold(10):
                os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_batches_of_huge_images_are_small(monkeypatch):
    monkeypatch.setattr("yolofast.media.sources.MAX_PIXELS", 400)
    frames = [Frame(np.zeros((side, side, 3), np.uint8), "x") for side in (4, 4, 4, 20, 20, 8, 8, 4)]
    assert [len(batch) for batch in _batches(frames, 3)] == [3, 1, 1, 2, 1]


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(*more):
    return b"".join((image_header.PNG_START, chunk(b"IHDR", struct.pack(">II5B", 40000, 40000, 8, 2, 0, 0, 0)), *more))


def test_a_picture_of_more_pixels_than_are_decoded():
    with refused(r"x\.png: says it has 40000×40000 pixels"):
        decode_picture(png(chunk(b"IDAT", b""), chunk(b"IEND", b"")), "x.png")


OTHERS = {
    "ppm": b"P6 16384 16384 255\n" + bytes(100),
    "gif": b"GIF89a\xff\xff\xff\xff\x80\0\0" + bytes(6) + b",\0\0\0\0\xff\xff\xff\xff\0\x02\x02D\x01\0;",
    "hdr": b"#?RADIANCE\nFORMAT=32-bit_rle_rgbe\n\n-Y 16384 +X 16384\n" + bytes(100),
    "sun raster": struct.pack(">8I", 0x59A66A95, 16384, 16384, 24, 0, 1, 0, 0) + bytes(100),
}
TIFF = struct.pack("<2sHIH", b"II", 42, 8, 4)
TILES = (256, 9), (257, 9), (322, 2**14), (323, 2**14)
TOO_LARGE = {
    "jpeg": b"\xff\xd8" + b"junk" + b"\xff\xc0\0\x11\x08\x40\0\x40\0\x03" + bytes(9) + b"\xff\xda",
    "old bmp": b"BM" + bytes(12) + struct.pack("<IHHHH", 12, 16384, 16384, 1, 24),
    "bmp": b"BM" + bytes(12) + struct.pack("<IiiHH", 40, 16384, -16384, 1, 24) + bytes(30),
    "webp": b"RIFF\x40\0\0\0WEBPVP8X\x0a\0\0\0" + bytes(4) + b"\xff\x3f\0\xff\x3f\0",
    "tiff": TIFF + b"".join(struct.pack("<HHII", tag, 4, 1, 16384) for tag in (256, 257, 257, 258)),
    "tiles": TIFF + b"".join(struct.pack("<HHII", t, 4, 1, n) for t, n in TILES),
    "png": png(chunk(b"IDAT", b""), chunk(b"IEND", b"")),
}  # fmt: skip


@pytest.fixture
def never_decoded(monkeypatch):
    """OpenCV has a limit only if yolofast was imported before it: so it is not asked."""
    monkeypatch.setattr(cv2, "imdecode", lambda *_: pytest.fail("OpenCV is given the file"))


@pytest.mark.parametrize("content", OTHERS.values(), ids=OTHERS)
def test_formats_whose_headers_are_not_read_are_not_decoded(tmp_path, never_decoded, content):
    (tmp_path / "x.jpg").write_bytes(content)
    with cheap():
        fault = check_image(str(tmp_path / "x.jpg")).fault
    assert fault is not None and fault.fatal
    with refused("is not an image|is .+, which is not read"):
        decode_picture(content, "x.jpg")


@pytest.mark.parametrize("content", TOO_LARGE.values(), ids=TOO_LARGE)
def test_headers_are_read_before_anything_is_decoded(never_decoded, content):
    with refused(r"says it has \d+×\d+ pixels, more than the 67,108,864 that are allowed"):
        decode_picture(content, "x.jpg")


@pytest.mark.slow
def test_whatever_was_imported_first():
    content = np.frombuffer(OTHERS["ppm"].replace(b"16384", b"10000"), np.uint8)
    program = "import cv2; from yolofast.image_bytes import decode_image; import sys\n"
    program += "assert decode_image(sys.stdin.buffer.read()) is None"
    subprocess.run([sys.executable, "-c", program], input=content.tobytes(), check=True)


def test_many_scans():
    """Each of 40 bytes visits all pixels: a megabyte would take minutes."""
    whole = cv2.imencode(".jpg", np.zeros((1000, 1000), np.uint8), [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    last, end = whole.rindex(b"\xff\xda"), whole.rindex(b"\xff\xd9")
    assert decode_picture(whole, "x.jpg").shape == (1000, 1000, 3)
    with refused("scans of"):
        decode_picture(whole[:end] + whole[last:end] * 3000 + whole[end:], "x.jpg")


def test_a_jpeg_whose_numbers_are_all_kept_takes_more(monkeypatch):
    """Of three components in full, six bytes a pixel, beside the picture's three."""
    rows = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1, cv2.IMWRITE_JPEG_SAMPLING_FACTOR]
    monkeypatch.setattr("yolofast.image_bytes.MAX_PIXELS", 64 * 64)
    full, half = (
        cv2.imencode(".jpg", np.zeros((64, 64, 3), np.uint8), [*rows, factor])[1].tobytes()
        for factor in (cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420)
    )
    assert decode_picture(half, "x.jpg").shape == (64, 64, 3)
    with refused("64×64 pixels, more than the 2,730 that are allowed"):
        decode_picture(full, "x.jpg")


def test_a_tiff_whose_strip_is_unpacked_whole_takes_more(monkeypatch):
    monkeypatch.setattr("yolofast.image_bytes.MAX_PIXELS", 64 * 64)
    picture, one_strip = np.zeros((64, 64, 3), np.uint16), [cv2.IMWRITE_TIFF_ROWSPERSTRIP, 64]
    wide, narrow = (cv2.imencode(".tiff", picture.astype(kind), one_strip)[1].tobytes() for kind in ("u2", "u1"))
    in_strips = cv2.imencode(".tiff", picture, [cv2.IMWRITE_TIFF_ROWSPERSTRIP, 8])[1].tobytes()
    assert all(decode_picture(content, "x.tif").shape == (64, 64, 3) for content in (narrow, in_strips))
    with refused("64×64 pixels, more than the 2,730 that are allowed"):
        decode_picture(wide, "x.tif")


def test_many_huge_images_are_said_and_not_decoded(tmp_path):
    """16384 × 16384, of which each would take 1.6 GB: four in every hundred."""
    row = zlib.compress(bytes(2**20), 1)
    huge = chunk(b"IHDR", struct.pack(">II5B", 16384, 16384, 8, 2, 0, 0, 0)) + chunk(b"IDAT", row) + chunk(b"IEND", b"")
    for n in range(128):
        small = cv2.imencode(".png", np.full((16, 16, 3), n, np.uint8))[1].tobytes()
        (tmp_path / f"{n}.png").write_bytes(image_header.PNG_START + huge if n % 32 == 0 else small)
    with cheap():
        faults = [one.fault for one in in_threads(check_image, [str(tmp_path / f"{n}.png") for n in range(128)])]
    assert [n for n, fault in enumerate(faults) if fault] == [0, 32, 64, 96]
    assert "16384×16384 pixels, more than the 67,108,864 that are allowed" in faults[0].what
    assert "OPENCV_IO_MAX_IMAGE_PIXELS" in faults[0].fix


@pytest.mark.slow
@pytest.mark.parametrize(("allowed", "found"), [("", 2**26), ("1000", 1000)])
def test_who_has_larger_images_allows_them(allowed, found):
    program = "from yolofast.files.budget import MAX_PIXELS; import cv2, numpy as np; print(MAX_PIXELS);"
    program += "ok = cv2.imencode('.png', np.zeros((40, 40, 3), np.uint8))[1]; print(cv2.imdecode(ok, 1) is not None)"
    environment = {**os.environ, "OPENCV_IO_MAX_IMAGE_PIXELS": allowed}
    if not allowed:
        del environment["OPENCV_IO_MAX_IMAGE_PIXELS"]
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout.split()[0] == str(found)
    if found == 1000:
        assert "CV_IO_MAX_IMAGE_PIXELS" in done.stderr, "OpenCV has the same limit"


JPEG = b"\xff\xd8\xff\xc0\x00\x0b\x08\x00\x10\x00\x10\x01\x01\x11\x00"
HEADERS = {
    "fill bytes": b"\xff\xd8" + b"\xff" * 20_000,
    "segments": b"\xff\xd8" + b"\xff\xe0\x00\x02" * 20_000,
    "segments behind": JPEG + b"\xff\xe0\x00\x02" * 20_000,
    "chunks": png(*[chunk(b"tEXt", b"")] * 20_000),
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS)
def test_headers_without_end(tmp_path, monkeypatch, content):
    monkeypatch.setattr(image_header, "_MOST_PARTS", 10_000)
    (tmp_path / "x.jpg").write_bytes(content)
    with cheap(), pytest.raises(BadImageError, match="more than 10,000 parts"):
        read_image_header(tmp_path / "x.jpg")


@pytest.mark.slow
def test_a_scan_without_end(tmp_path):
    (tmp_path / "x.jpg").write_bytes(JPEG + b"\xff\x00" * 10_000_000)
    with cheap(), pytest.raises(BadImageError, match="ends before the image does"):
        read_image_header(tmp_path / "x.jpg")


WEBP_SMALL = TOO_LARGE["webp"].replace(b"\xff\x3f", b"\x0f\0")
STARTS = {
    "jpeg": (JPEG, 2**29, "536,870,912 bytes, far more than 16×16 pixels need"),
    "png": (png(chunk(b"IEND", b"")), 2**34, "17,179,869,184 bytes, more than the 1,073,741,824 that are allowed"),
    "webp": (WEBP_SMALL, 2**34, "17,179,869,184 bytes, more than the 1,073,741,824 that are allowed"),
}


@pytest.mark.parametrize(("start", "size", "what"), STARTS.values(), ids=STARTS)
def test_files_far_larger_than_their_pixels(tmp_path, start, size, what):
    (tmp_path / "x.jpg").write_bytes(start)
    with (tmp_path / "x.jpg").open("ab") as file:
        file.truncate(size)  # takes no room on the disk
    with cheap():
        fault = check_image(str(tmp_path / "x.jpg")).fault
    assert fault is not None and f"has {what}" in fault.what


LOSSY = [cv2.IMWRITE_WEBP_QUALITY, 80]
WEBP = {"lossy": (LOSSY, 3), "lossless": ([], 3), "extended": (LOSSY, 4)}


@pytest.mark.parametrize(("quality", "channels"), WEBP.values(), ids=WEBP)
def test_the_size_of_a_webp_is_known_before_it_is_decoded(quality, channels):
    picture = np.random.default_rng(0).integers(0, 255, (70, 50, channels), dtype=np.uint8)
    content = cv2.imencode(".webp", picture, quality)[1].tobytes()
    assert stored_size(lambda place, length: content[place : place + length]) == (50, 70)


def test_a_webp_that_promises_too_much(tmp_path):
    (tmp_path / "x.webp").write_bytes(b"RIFF\x40\0\0\0WEBPVP8X\x0a\0\0\0" + b"\0" * 4 + b"\xff" * 6 + bytes(40))
    with cheap(), pytest.raises(BadImageError, match="16777216×16777216 pixels"):
        read_image_header(tmp_path / "x.webp")


def small_png(*more):
    head = chunk(b"IHDR", struct.pack(">II5B", 10, 10, 8, 2, 0, 0, 0))
    return b"".join((image_header.PNG_START, head, *more, chunk(b"IEND", b"")))


def test_a_png_with_more_data_than_pixels(capfd):
    """Libpng unpacks what is behind the last row, too: a megabyte took seconds, 60 a hundred of them."""
    packing = zlib.compressobj(9)
    data = b"".join([packing.compress(bytes(2**24)) for _ in range(64)] + [packing.flush()])
    content = small_png(chunk(b"IDAT", data))
    with refused("more than 10×10 pixels need"):
        decode_picture(content, "x.png")
    assert not capfd.readouterr().err


def test_a_png_of_millions_of_parts():
    content = small_png(chunk(b"tEXt", b"") * 3_000_000)
    with refused("more than 500,000 parts"):
        decode_picture(content, "x.png")


@pytest.mark.parametrize("level", [0, 9])
@pytest.mark.parametrize("kind", ["grey", "colour", "clear", "16 bits"])
def test_a_png_of_noise_in_small_chunks_is_read(tmp_path, kind, level):
    shape = {"grey": (90, 70), "clear": (90, 70, 4)}.get(kind, (90, 70, 3))
    noise = np.random.default_rng(0).integers(0, 256, shape)
    deep = (noise * 256).astype(np.uint16) if kind == "16 bits" else noise.astype(np.uint8)
    assert decode_image(cv2.imencode(".png", deep, [cv2.IMWRITE_PNG_COMPRESSION, level])[1].tobytes()) is not None
