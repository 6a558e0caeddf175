import cv2
import pytest
from filelock import FileLock

from tests.detect.seeing import picture, save_seeing
from yolofast.cli import main

NAMES = ("cat", "dog", "cow")


@pytest.fixture(scope="session")
def exported(shared_folder):
    """A folder: weights `best.pt` of a network that sees something everywhere, `data.yaml` of four images, and what
    the command makes of them in `model`.

    Of all test workers: whoever changes something copies it.
    """
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package, reason="the extra yolofast[onnx] is not installed")
    folder = shared_folder / "exported"
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / "model").exists():  # it appears whole
            for kind in ("images", "labels"):
                (folder / kind).mkdir(parents=True)
            for number in range(4):
                cv2.imwrite(str(folder / "images" / f"{number}.png"), picture(number))
                (folder / "labels" / f"{number}.txt").write_text(f"{number % 3} 0.5 0.5 0.4 0.6\n")
            (folder / "data.yaml").write_text(f"train: images\nval: images\nnc: 3\nnames: {list(NAMES)}\n")
            save_seeing(folder / "best.pt", NAMES, img_size=64)
            flags = {"weights": "best.pt", "out": "model", "data": "data.yaml"}
            words = [word for name, value in flags.items() for word in (f"--{name}", str(folder / value))]
            assert main(["export", *words]) == 0
    return folder
