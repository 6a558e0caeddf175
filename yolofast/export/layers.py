"""Where an exported file that differs from its network begins to differ: the first layer whose values are others.

ONNX and OpenVINO files tell what their layers give. For other formats the network is written once more, with the values
of its layers as outputs: what a converter did wrong it does wrong again.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from yolofast.detect.networks import TrainedModel
from yolofast.errors import UserError
from yolofast.export.formats.contract import Array, LayerValues, export_format
from yolofast.export.runtimes.contract import Session, open_session
from yolofast.export.runtimes.detections import network_input
from yolofast.media.pictures import fit
from yolofast.pixels import Image

_DIFFERENCE = {"fp32": 1e-3, "fp16": 3e-2}
"""Of the largest value of a layer."""


@torch.no_grad()
def first_difference(trained: TrainedModel, session: Session, name: str, image: Image) -> str:
    """The first layer whose values are not the network's, in words. `name` is that of the format."""
    facts = session.facts
    if facts.precision == "int8":
        return "more --search-images may keep it"
    fitted = fit(image, facts.shape, facts.stride, facts.inputs)
    levels = torch.from_numpy(network_input(fitted.input, facts)).float() / facts.inputs.divisor
    images = levels.expand(facts.batch or 1, -1, -1, -1).contiguous()
    network = LayerValues(trained.model)
    values = network(images)
    ours = {told: one.numpy() for told, one in zip(network.told, values, strict=True)}
    try:
        theirs = dict(session.layers(images.numpy())) or _written_again(trained, session, name, images.numpy())
    except UserError as error:
        return f"its layers cannot be asked: {error.what}"
    for told, wanted in ours.items():
        given = theirs.get(told)
        if given is None or given.size != wanted.size:
            continue
        worst, most = float(np.abs(wanted - given.reshape(wanted.shape)).max()), float(np.abs(wanted).max())
        if not worst <= _DIFFERENCE[facts.precision] * max(most, 1e-6):
            return f"the first layer that differs is {told}, whose values of up to {most:.3g} differ by {worst:.3g}"
    return "no layer differs, but what follows them"


def _written_again(trained: TrainedModel, session: Session, name: str, images: Array) -> dict[str, Array]:
    facts = replace(session.facts, nms="none", end2end=False)
    network = LayerValues(trained.model, half=facts.precision == "fp16")
    network(torch.from_numpy(images))
    told = list(network.told)  # torch.export puts attributes back to what they were
    form = export_format(name)
    with TemporaryDirectory(prefix="yolofast-layers-") as folder:
        path = Path(folder) / f"layers{form.suffix}"
        form.write(network, facts, path)
        values = open_session(path, name).outputs(images)
    return dict(zip(told, values, strict=len(values) > 0))
