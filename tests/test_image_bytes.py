"""PNG files decode to what OpenCV shows of them, and no library writes of its own to standard error."""

import ast
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import cv2
import numpy as np
import pytest

from yolofast.image_bytes import TooCostlyError, decode_image

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 255, (16, 24, 3), dtype=np.uint8)


def chunk(name, holds):
    return struct.pack(">I", len(holds)) + name + holds + struct.pack(">I", zlib.crc32(name + holds))


def encoded(pixels=PIXELS):
    return cv2.imencode(".png", pixels)[1].tobytes()


def with_chunk(name, holds, content=None):
    """Before the pixels."""
    content = encoded() if content is None else content
    place = content.index(b"IDAT") - 4
    return content[:place] + chunk(name, holds) + content[place:]


def palette():
    """Two bits a pixel, one of the four colours transparent."""
    rows = b"".join(b"\0" + bytes(RNG.integers(0, 256, 4, dtype=np.uint8)) for _ in range(16))
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", 16, 16, 2, 3, 0, 0, 0)),
        (b"PLTE", bytes(range(12))),
        (b"tRNS", b"\0\x80"),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


EXIF_TURNED = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
WHOLE = {
    "plain": encoded(),
    "grey": encoded(PIXELS[..., 0]),
    "16 bits": encoded(PIXELS.astype(np.uint16) * 257),
    "transparent": encoded(np.dstack((PIXELS, PIXELS[..., :1]))),
    "palette": palette(),
    "junk behind": encoded() + b"junk",
    "gamma": with_chunk(b"gAMA", struct.pack(">I", 30_000)),
    "turned": with_chunk(b"eXIf", EXIF_TURNED),
    "profile and turned": with_chunk(b"iCCP", b"sRGB\0\0" + zlib.compress(b"x" * 99), with_chunk(b"eXIf", EXIF_TURNED)),
}
NOISY = {
    "a wrong profile": with_chunk(b"iCCP", b"sRGB\0\0" + zlib.compress(b"junk" * 40)),
    "a short size": with_chunk(b"pHYs", b"\0"),
    "wrong EXIF": with_chunk(b"eXIf", b"junk"),
    "a text that does not fit its checksum": with_chunk(b"tEXt", b"a\0b").replace(b"a\0b", b"a\0c"),
    "an end that does not fit its checksum": encoded()[:-1] + b"\0",
}
DAMAGED = {
    "cut": encoded()[:200],
    "without its end": encoded()[:-12],
    "changed": encoded()[:80] + b"\0\0" + encoded()[82:],
    "a chunk nobody knows": with_chunk(b"ABCD", b"x"),
    "no pixels": encoded()[:33] + chunk(b"IEND", b""),
}


@pytest.mark.parametrize("content", [*WHOLE.values(), *NOISY.values()], ids=[*WHOLE, *NOISY])
def test_pixels_are_opencvs_and_nothing_is_said(content, capfd):
    expected = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    capfd.readouterr()
    assert np.array_equal(decode_image(content), expected)
    assert capfd.readouterr() == ("", "")


def test_the_noisy_ones_are_noisy(capfd):
    """Otherwise nothing above would show anything."""
    for content in NOISY.values():
        cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
        assert "libpng" in capfd.readouterr().err


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_is_no_image(content, capfd):
    assert cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR) is None
    capfd.readouterr()
    assert decode_image(content) is None
    assert capfd.readouterr() == ("", "")


def test_other_formats_and_nothing():
    jpeg = cv2.imencode(".jpg", PIXELS)[1].tobytes()
    assert np.array_equal(decode_image(jpeg), cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR))
    assert decode_image(b"") is None and decode_image(b"no image") is None


def test_any_flipped_byte_gives_what_opencv_gives(capfd):
    content, rng = with_chunk(b"tEXt", b"who\0knows"), np.random.default_rng(1)
    for place in rng.integers(8, len(content), 150).tolist():
        changed = bytearray(content)
        changed[place] ^= int(rng.integers(1, 256))
        expected = cv2.imdecode(np.frombuffer(bytes(changed), np.uint8), cv2.IMREAD_COLOR)
        found = None
        with suppress(TooCostlyError):  # of a header that announces too much
            found = decode_image(bytes(changed))
        assert (found is None) == (expected is None), place
        assert found is None or np.array_equal(found, expected), place
    capfd.readouterr()


def calls_of(path):
    """Not what is written in strings."""
    return {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}


def test_nobody_else_decodes_files():
    """Stored JPEGs are read as they were written, without turning them."""
    package = Path(__file__).parents[1] / "yolofast"
    found = {path for path in package.rglob("*.py") if "cv2.im" in path.read_text()}
    calls = {str(path.relative_to(package)) for path in found if calls_of(path) & {"cv2.imread", "cv2.imdecode"}}
    assert calls == {"image_bytes.py", "store/fitted.py"}
