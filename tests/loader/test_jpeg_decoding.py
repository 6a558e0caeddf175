"""JPEGs that the device decodes: the decoder is OpenCV's here, so that the pixels are known; tests/gpu has nvJPEG."""

import importlib.util
import os
import subprocess
import sys

import cv2
import numpy as np
import pytest
import torch

from tests.store.made_up import index_of, some_pictures
from yolofast.errors import UserError
from yolofast.loader import device_pixels as module
from yolofast.loader.device_pixels import DecodedPixels, StagedPixels, device_pixels, nvjpeg
from yolofast.store import JpegImages, pack_jpeg

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jpegs")
    return JpegImages(pack_jpeg(index_of(some_pictures(folder / "images", 5)), 48, 48, folder / "store"))


def opencv(encoded):
    """As torchvision's `decode_jpeg`: planes of red, green and blue."""
    return [
        torch.from_numpy(cv2.imdecode(one.numpy(), cv2.IMREAD_COLOR)[..., ::-1].copy()).permute(2, 0, 1)
        for one in encoded
    ]


def bytes_of(pixels, wanted):
    fetched = pixels.fetch(np.array(wanted))
    data, ends = fetched.on_device(), pixels.sizes[wanted].prod(axis=1) * 3
    return [data[start : start + count].numpy() for start, count in zip(fetched.starts, ends, strict=True)]


@pytest.mark.parametrize("wanted", [[0, 1, 2, 3, 4], [3, 0], [2]])
def test_they_are_what_threads_would_decode(images, wanted):
    decoded = bytes_of(DecodedPixels(images, CPU, opencv), wanted)
    for one, staged in zip(decoded, bytes_of(StagedPixels(images, CPU, 1), wanted), strict=True):
        np.testing.assert_array_equal(one, staged)


@pytest.mark.parametrize("fault", ["refuses", "turns"])
def test_an_image_that_the_device_cannot_decode_is_decoded_by_the_host(images, fault):
    """As one of four colours, which would end a run of days."""
    hard, asked = images.encoded([1])[0].tobytes(), []

    def decode(encoded):
        asked.append(len(encoded))
        found = [one.numpy().tobytes() == hard for one in encoded]
        if fault == "refuses" and any(found):
            raise RuntimeError("unsupported JPEG")
        return [one[:, :, :-1] if bad else one for one, bad in zip(opencv(encoded), found, strict=True)]

    for one, number in zip(bytes_of(DecodedPixels(images, CPU, decode), [0, 1, 2]), (0, 1, 2), strict=True):
        np.testing.assert_array_equal(one, images.image(number).reshape(-1))
    assert asked == ([3, 1, 1, 1] if fault == "refuses" else [3])
    assert DecodedPixels(images, CPU, decode)._by_host(1).is_contiguous(), "as the kernel reads planes"


def test_the_decoder_is_a_choice_and_is_said(images, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    said = []
    assert isinstance(device_pixels(images, CPU, 1, say=said.append), StagedPixels) and not said
    with pytest.raises(UserError, match="needs torchvision, which is not installed"):
        device_pixels(images, CPU, 1, "nvjpeg", said.append)
    monkeypatch.setattr(module, "find_spec", lambda name: object())
    assert isinstance(device_pixels(images, CPU, 1, say=said.append), StagedPixels), "exact, unless asked for"
    assert "--jpeg-decoder nvjpeg" in said.pop()
    monkeypatch.setattr(module, "nvjpeg", lambda device: opencv)
    assert isinstance(device_pixels(images, CPU, 1, "nvjpeg", said.append), DecodedPixels)
    assert "a few apart from OpenCV's" in said.pop()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not there on every platform")
def test_the_kernel_writes_what_torch_writes(images):
    script = """
import numpy as np, torch
from yolofast.loader._gather_kernel import pack_kernel
planes = [torch.randint(0, 256, (3, 5, 7 + n), dtype=torch.uint8) for n in range(3)]
pixels = np.array([one[0].numel() for one in planes])
starts = np.concatenate([[0], np.cumsum(3 * pixels)])
table = torch.from_numpy(np.stack(([one.data_ptr() for one in planes], starts[:-1], pixels), axis=1))
target = torch.zeros(int(starts[-1]), dtype=torch.uint8)
pack_kernel[(1, 3)](target, table, BLOCK=64)
wanted = torch.cat([one.flip(0).permute(1, 2, 0).reshape(-1) for one in planes])
assert torch.equal(target, wanted)
"""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nvjpeg_is_called_by_its_names(monkeypatch):
    """Those of torchvision 0.15 to 0.29, which cannot be imported everywhere."""
    asked = {}
    fake = type(sys)("torchvision.io")
    fake.ImageReadMode = type("ImageReadMode", (), {"RGB": "RGB"})
    fake.decode_jpeg = lambda encoded, **settings: asked.update(settings) or encoded
    monkeypatch.setattr(module, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "torchvision", type(sys)("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.io", fake)
    assert nvjpeg(CPU)([1]) == [1] and asked == {"mode": "RGB", "device": CPU}
