"""`yolofast train` with nothing said about what to train: a small network on the built-in shapes, in about two minutes.

The defaults of a real run would take a CPU hours, and a newcomer wants to see something learn.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from yolofast.config.train import TrainConfig

_SETTINGS: dict[str, Any] = {
    "cfg": "mini", "hyp": "data/hyp.demo.yaml", "img_size": (128,), "batch_size": 8, "epochs": 12, "optimizer": "adamw",
}  # fmt: skip
# Where and how, rather than what.
_LEAVE_IT_A_DEMONSTRATION = {
    "device", "project", "name", "exist_ok", "seed", "workers", "loader", "cache", "gear", "precision", "plots",
    "persistent_workers", "worker_tensor", "fast_dataloader", "explain", "profile_every",
}  # fmt: skip


def is_demonstration(given: Mapping[str, Any]) -> bool:
    return given.keys() <= _LEAVE_IT_A_DEMONSTRATION


def demonstration(config: TrainConfig) -> TrainConfig:
    return replace(config, **_SETTINGS)
