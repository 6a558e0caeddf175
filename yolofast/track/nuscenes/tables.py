"""What nuScenes' tables hold, as columns: images of cameras, boxes in space, and how both are related by rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from yolofast.track.formats.sequence import Bools, Floats, Ints
from yolofast.track.nuscenes.columns import ColumnTable
from yolofast.track.nuscenes.geometry import Mounts, Poses

Texts = npt.NDArray[np.object_]
UNWANTED = -1
"""The row of what is known, but not wanted."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """By the names that users type; empty: what is usual."""

    root: Path
    version: str
    cameras: tuple[str, ...] = ()
    classes: tuple[str, ...] = ("tracking7",)
    splits: tuple[str, ...] = ()
    split_file: Path | None = None
    sweeps: bool = False
    """Also the images between key frames."""

    @property
    def folder(self) -> Path:
        return self.root / self.version


@dataclass(frozen=True, kw_only=True, eq=False)
class Images(ColumnTable):
    """n images, sorted by scene, camera and time."""

    scene: Ints
    """[n] row among the chosen scenes"""
    camera: Ints
    """[n] row among the chosen cameras"""
    sample: Ints
    """[n] the sample of a key frame; the one that follows a sweep"""
    time: Ints
    """[n] microseconds"""
    is_key: Bools
    size: Ints
    """[n, 2] width and height"""
    calibration: Ints
    pose: Ints
    """[n] row among the poses"""
    file: Texts
    """[n] below the root"""
    token: Texts


@dataclass(frozen=True, kw_only=True, eq=False)
class Annotations(ColumnTable):
    """n boxes in space, sorted by sample."""

    sample: Ints
    instance: Ints
    level: Ints
    """[n] of visibility, 1 to 4; 0 where it is not known"""
    centre: Floats
    size: Floats
    rotation: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    cameras: tuple[str, ...]
    classes: tuple[str, ...]
    splits: Mapping[str, tuple[str, ...]]
    """Chosen scenes of each split; scenes are numbered in this order."""
    remarks: tuple[str, ...]
    sample_scene: Ints
    sample_time: Ints
    label: Ints
    """[instances] number of the class, or UNWANTED"""
    instance_token: tuple[str, ...]
    mount: Mounts
    """Of calibrations."""
    pose: Poses
    """Of the vehicle, in the global frame."""
    images: Images
    annotations: Annotations
