"""Weight files of motion models: published ones and ours, read without running anything that is in them.

The number of blocks and whether rows have intervals are seen from the tensors. Published files do not say whether the
network ends with a sigmoid: all do but that for MOT17, so it can be recognised.
"""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from yolofast.checkpoint.load import apply_weights
from yolofast.checkpoint.read import read_weights
from yolofast.config.motion import MotionTrainConfig
from yolofast.errors import UserError
from yolofast.motion.trackssm import TrackSSM, TrackSSMShape

_EMBEDDING = "encoder.mamba_net.embedding.weight"
_BLOCK = re.compile(r"encoder\.mamba_net\.layers\.(\d+)\.")
_COLUMNS = {TrackSSMShape(timed=timed).columns: timed for timed in (False, True)}
_MOST_BLOCKS = 64


def read_motion(path: str | Path, sigmoid: bool = True) -> TrackSSM:
    """The model of a file, on the CPU. `sigmoid` is for files that do not say it."""
    path = Path(path)
    file = read_weights(path)
    shape = _shape_of(file.tensors, file.motion or {}, sigmoid, path)
    model = TrackSSM(shape)
    report = apply_weights(model, file, path, transfer=False)
    if report.nonfinite:
        what = f"{report.nonfinite} of its tensors hold NaN or infinity"
        raise UserError(what, where=path, fix="use the weights of an earlier epoch")
    return model.eval().requires_grad_(False)


def model_of(config: MotionTrainConfig) -> TrackSSM:
    """The model that a run begins with: a new one, or that of a file."""
    shape = TrackSSMShape(
        blocks=config.blocks, timed=config.true_time, sigmoid=config.sigmoid, padded_in_front=config.true_padding
    )
    if not config.weights:
        return TrackSSM(shape)
    known = read_motion(config.weights, config.sigmoid)
    model = TrackSSM(replace(shape, blocks=known.shape.blocks, sigmoid=known.shape.sigmoid))
    weights = known.state_dict()
    own = torch.zeros_like(model.state_dict()[_EMBEDDING])
    common = min(len(own), len(weights[_EMBEDDING]))
    own[:common] = weights[_EMBEDDING][:common]  # intervals that the file does not know begin without effect
    model.load_state_dict({**weights, _EMBEDDING: own})
    return model


def stated(shape: TrackSSMShape) -> dict[str, Any]:
    """The entry `motion` of our checkpoints."""
    return {"model": "trackssm", **asdict(shape)}


def _shape_of(tensors: dict[str, Tensor], about: dict[str, Any], sigmoid: bool, path: Path) -> TrackSSMShape:
    embedding = tensors.get(_EMBEDDING)
    blocks = {int(found[1]) for name in tensors if (found := _BLOCK.match(name)) is not None}
    if embedding is None or not blocks:
        fix = "give weights of TrackSSM: a published file, or best.pt of `yolofast motion train`"
        raise UserError("these are not the weights of a motion model", where=path, fix=fix)
    columns = int(embedding.shape[0])
    if columns not in _COLUMNS or blocks != set(range(len(blocks))) or len(blocks) > _MOST_BLOCKS:
        what = f"a motion model with {columns} columns and the blocks {', '.join(map(str, sorted(blocks)[:5]))} …"
        raise UserError(
            what, where=path, fix=f"rows have {' or '.join(map(str, _COLUMNS))} columns, blocks count from 0"
        )
    known = about.get("sigmoid")
    return TrackSSMShape(
        blocks=len(blocks),
        timed=_COLUMNS[columns],
        sigmoid=known if isinstance(known, bool) else sigmoid,
        padded_in_front=about.get("padded_in_front") is True,
    )
