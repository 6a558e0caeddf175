"""Sound inputs that hostile ones are made from: a data set, a run and its files, weight files of all containers."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import safetensors.torch
import torch

from tests.checkpoint.files import save_published
from tests.store.made_up import picture, turned_jpeg


@dataclass(frozen=True)
class Sound:
    data: Path
    """A data yaml of a few images with YOLO's labels, and COCO's beside them."""
    run: Path
    """A run that has trained."""
    other: Path
    """Another one, to compare it with."""
    state: dict[str, Any]
    """Of its `last.pt`."""
    weights: dict[str, bytes]
    safetensors: bytes
    images: dict[str, bytes]
    """One of each format, by ending."""

    def copy_data(self, folder: Path) -> Path:
        """For a case that changes it."""
        target = folder / "data"
        shutil.copytree(self.data.parent, target, ignore=shutil.ignore_patterns(".yolofast"))
        yaml = target / self.data.name
        yaml.write_text(yaml.read_text().replace(str(self.data.parent), str(target)))
        return yaml

    def copy_run(self, folder: Path, name: str = "run") -> Path:
        return Path(shutil.copytree(self.run, folder / name))


def make_sound(data: Path, run: Path, folder: Path) -> Sound:
    """`run` has trained on `data`; `folder` is for what is made beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    save_published(folder / "zip.pt")
    save_published(folder / "legacy.pt", legacy=True)
    torch.save({"start_epoch": 1, "model": {"a.b": torch.ones(2, 3), "c": torch.ones(4)[1:]}}, folder / "state.pt")
    safetensors.torch.save_file({"a": torch.ones(3)}, folder / "tensors", {"yolofast": '{"nc": 3, "names": ["a"]}'})
    weights = {name: (folder / f"{name}.pt").read_bytes() for name in ("zip", "legacy", "state")}
    weights |= {name: (run / "weights" / f"{name}.pt").read_bytes() for name in ("best", "last")}
    state = torch.load(run / "weights" / "last.pt", weights_only=True)
    other = Path(shutil.copytree(run, folder / "other-run", dirs_exist_ok=True))
    return Sound(data, run, other, state, weights, (folder / "tensors").read_bytes(), _images())


def _images() -> dict[str, bytes]:
    plain = picture(40, 30)
    made = {ending: cv2.imencode(f".{ending}", plain)[1].tobytes() for ending in ("jpg", "png", "bmp", "webp", "tiff")}
    made["progressive.jpg"] = cv2.imencode(".jpg", plain, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()
    made["turned.jpg"] = turned_jpeg(plain, 6)
    made["palette.png"] = cv2.imencode(".png", np.where(plain[..., :1] > 90, 255, 0).astype(np.uint8))[1].tobytes()
    made["clear.png"] = cv2.imencode(".png", np.dstack((plain, plain[..., 0])))[1].tobytes()
    made["deep.png"] = cv2.imencode(".png", plain.astype(np.uint16) * 200)[1].tobytes()
    made["lossless.webp"] = cv2.imencode(".webp", plain, [cv2.IMWRITE_WEBP_QUALITY, 101])[1].tobytes()
    made["other.ppm"] = cv2.imencode(".ppm", plain)[1].tobytes()
    return made


@contextmanager
def one_case(folder: Path) -> Iterator[Path]:
    """A new folder for a case, which goes with it."""
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
