"""Prints what the public Python API (docs/api.md) looks like and computes, as JSON.

It is run as a script with the checkout in question in front of the import path, and imports `yolofast` alone.
Arguments: a folder with a trained run, a model file, a head config, a picture.
"""

import hashlib
import inspect
import json
import sys
from typing import Any

import numpy as np
import torch

import yolofast

MEMBERS = {
    "Detector": ("predict", "stream", "val", "train"),
    "Targets": ("from_rows", "from_padded", "to", "check"),
    "UserError": (),
}
"""The documented methods of each class."""


def shape_of(value: Any) -> str:
    """A signature without types: those are told by names of classes that are not public themselves."""
    signature = inspect.signature(value)
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(inspect.Signature(plain))


def surface() -> dict[str, Any]:
    names: dict[str, Any] = {"__all__": sorted(yolofast.__all__)}
    for name in sorted(set(yolofast.__all__) - {"__version__"}):
        value = getattr(yolofast, name)
        names[name] = shape_of(value)
        if inspect.isclass(value):
            names |= {f"{name}.{member}": shape_of(getattr(value, member)) for member in MEMBERS[name]}
            names[f"{name} bases"] = [base.__name__ for base in value.__mro__ if base.__name__ != "object"]
    return names


def digest(value: Any) -> str:
    tensor = torch.as_tensor(np.asarray(value) if not torch.is_tensor(value) else value).detach().contiguous()
    raw = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
    return f"{tuple(tensor.shape)} {tensor.dtype} {hashlib.sha256(raw).hexdigest()}"


def computed(run: str, model_file: str, heads: str, picture: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    images = torch.rand((2, 3, 64, 64), generator=torch.Generator().manual_seed(1))
    targets = yolofast.Targets.from_rows(
        torch.tensor([[0, 1, 0.5, 0.5, 0.4, 0.3], [0, 4, 0.2, 0.3, 0.2, 0.2], [1, 7, 0.6, 0.6, 0.5, 0.7]]), 2
    )
    networks = {
        "small": (model_file, None, ("ota", "anchor", "tal", "simota")),
        "1B4H": ("yolov7-tiny-1b4h", heads, ("ota", "anchor", "tal")),
        "YOLOX": ("yolox-nano", None, ("simota", "tal")),
    }
    for name, (cfg, head_config, assigners) in networks.items():
        torch.manual_seed(0)
        model = yolofast.build_model(cfg, nc=8, head_config=head_config).train()
        raw = model(images)
        found[f"{name}: nc names"] = [model.nc, model.names]
        found[f"{name}: raw maps"] = [digest(level) for level in raw]
        for assigner in assigners:
            hyp = {} if name == "YOLOX" else {"box": 0.05, "cls": 0.5, "obj": 1.0, "anchor_t": 4.0}
            found[f"{name}: loss {assigner}"] = losses(model, raw, targets, hyp, assigner)
        model.eval()
        found[f"{name}: decoded"] = digest(yolofast.decode(model(images), model))
        found[f"{name}: fused"] = [digest(level) for level in yolofast.fuse(model)(images)]
    torch.manual_seed(0)
    model = yolofast.build_model(model_file)
    found["load_weights"] = str(yolofast.load_weights(model, f"{run}/weights/last.pt"))
    found["reparameterise"] = [digest(level) for level in yolofast.reparameterise(model.eval())(images)]
    detector = yolofast.Detector(f"{run}/weights/last.pt", device="cpu")
    found["Detector"] = [detector.names, detector.size, detector.shape]
    for augment in (False, True):
        (seen,) = detector.predict(picture, conf=0.0005, augment=augment)
        found[f"predict, augment {augment}"] = [len(seen.boxes), *map(digest, (seen.boxes, seen.scores, seen.labels))]
    found["stream"] = [[seen.frame.name, len(seen.detections)] for seen in detector.stream(picture, conf=0.0005)]
    try:
        yolofast.build_model("no-such-model")
    except yolofast.UserError as error:
        found["UserError"] = [str(error), error.what, str(error.where), error.line, error.fix]
    return found


def losses(model: Any, raw: Any, targets: Any, hyp: Any, assigner: str) -> Any:
    try:
        terms = yolofast.build_loss(model, hyp, 64, assigner)(raw, targets)
    except yolofast.UserError as error:
        return str(error)
    words = ("total", "iou", "obj", "cls", "l1") if model.layout.kind == "point" else ("total", "box", "obj", "cls")
    return {word: digest(getattr(terms, word)) for word in words}


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    json.dump({"names": surface(), "values": computed(*sys.argv[1:])}, sys.stdout, indent=1, default=str)
