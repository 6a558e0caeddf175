"""Weights that the authors of the networks have published: which file is of which network, and where it is.

Their licences are their authors' (YOLOX: Apache 2.0, YOLOv7: GPL 3.0); nothing of them is distributed here. Sums are
those that others have recorded of the files, at least two for each who agree: LFS records of copies, notes and programs
that name the release. For most of YOLOv7's files no such records are known.
"""

from dataclasses import dataclass
from pathlib import Path

from yolofast.errors import UserError, nearest_file
from yolofast.words import own_command

_V7 = "https://github.com/WongKinYiu/yolov7/releases", "v0.1"
_X = "https://github.com/Megvii-BaseDetection/YOLOX/releases", "0.1.1rc0"
_SUFFIXES = (".pt", ".pth")


@dataclass(frozen=True)
class PublishedWeights:
    network: str
    """Its short name."""
    file: str
    use: str
    """What the file is good for."""
    release: tuple[str, str]
    sha256: str | None = None

    @property
    def name(self) -> str:
        """As `yolofast weights` takes it."""
        return self.network if self.use != _TRAINING else Path(self.file).stem

    @property
    def page(self) -> str:
        return f"{self.release[0]}/tag/{self.release[1]}"

    @property
    def address(self) -> str:
        return f"{self.release[0]}/download/{self.release[1]}/{self.file}"


_TRAINING, _DEPLOYED, _BOTH = "fine-tuning", "predict, val", "predict, val, fine-tuning"
_GRAPHS = ("yolov7", "yolov7x", "yolov7-w6", "yolov7-e6", "yolov7-d6", "yolov7-e6e")
_SUMS = {
    "nano": "cd28f55fbbc1829f99d9ac9b38a16d259a22889739c8728ea877610201feff7b",
    "tiny": "9de513de589ac98bb92d3bca53b5af7b9acfa9b0bacb831f7999d0f7afaee8f0",
    "s": "f55ded7181e1b0c13285c56e7790b8f0e8f8db590fe4edb37f0b7f345c913a30",
    "m": "60076992b32da82951c90cfa7bd6ab70eba9eda243e08b940a396f60ac2d19b6",
    "l": "1e6b7fa6240375370b2a8a8eab9066b3cdd43fd1d0bfa8d2027fd3a51def2917",
    "x": "5652330b6ae860043f091b8f550a60c10e1129f416edfdb65c259be6caf355cf",
}
_SUMS_V7 = {
    "yolov7-tiny": "0fa1423606133c06362ec716029dade1169d5631e83195b75d8efa66d2ee0b77",
    "yolov7": "d1ac3c74eb96a3eec77949c0f37a06bc272756606ff011d9353f7abff4e0c71d",
}
PUBLISHED: tuple[PublishedWeights, ...] = (
    *(PublishedWeights(f"yolox-{size}", f"yolox_{size}.pth", _BOTH, _X, digest) for size, digest in _SUMS.items()),
    PublishedWeights("yolov7-tiny", "yolov7-tiny.pt", _BOTH, _V7, _SUMS_V7["yolov7-tiny"]),
    *(PublishedWeights(name, f"{name}.pt", _DEPLOYED, _V7, _SUMS_V7.get(name)) for name in _GRAPHS),
    *(PublishedWeights(name, f"{name}_training.pt", _TRAINING, _V7) for name in _GRAPHS),
)


def published_weights(name: str | Path) -> PublishedWeights | None:
    """The file that is meant by its own name, its stem or its network's; None if nobody has published such."""
    wanted = _plain(Path(name).name)
    return next((one for one in PUBLISHED if wanted in (_plain(one.file), _plain(one.name))), None)


def find_weights(name: str | Path) -> Path:
    """The weight file of that name; raises `UserError` if there is none."""
    path = Path(name)
    if not path.exists():
        fix = how_to_get(path) or "check the path given for the weights"
        raise UserError(f"there is no such file{nearest_file(path)}", where=path, fix=fix)
    return path


def how_to_get(name: str | Path) -> str | None:
    """What to type for a file that is not here, and where it is for those without a network; None if unknown."""
    one = published_weights(name)
    if one is None:
        return None
    return f"`{own_command()} weights {one.name}` downloads {one.file}; it is on {one.page}"


def _plain(name: str) -> str:
    """However it is spelt."""
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name.lower().replace("_", "-")
