"""For code that says `torch.hub.load(FOLDER, "custom", "best.pt", source="local")`: it gives a `Detector`.

Published weights are not downloaded; name a file of them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from yolofast import Detector

dependencies = ["torch", "cv2", "faster_coco_eval", "numpy", "psutil", "rich", "safetensors", "scipy", "yaml"]


def custom(path_or_model: "str | Path", autoshape: bool = True, **settings: Any) -> "Detector":
    """A detector of a weight file, ours or a published one. `settings` are those of `Detector`: `size=320`.

    `autoshape` is YOLOv7's word for taking pictures of any size and kind, which a detector always does; the bare
    network is its `.model`.
    """
    from yolofast import Detector

    return Detector(path_or_model, **settings)
