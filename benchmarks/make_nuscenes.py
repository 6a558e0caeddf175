"""Made-up tables of the form and size of nuScenes, so that reading and exporting them can be measured without its data.

    python -m benchmarks.make_nuscenes --out /tmp/nuscenes [--version v1.0-trainval] [--scenes 850] [--sweep-images]

A vehicle drives along a curve; parked and moving objects of nuScenes' categories, in about their frequencies, are
around it. Twelve sensors as on the vehicle: six cameras at 12 Hz, a lidar at 20, five radars at 13. The text is laid
out as in the official files, a value on each line. Images are empty files: of key frames, with `--sweep-images` of all.
With `--pictures` they can be opened: grey blocks, others in every image, as `check` looks for the same image twice.
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

import cv2
import numpy as np

from yolofast.track.nuscenes.choices import official_splits

_CAMERAS = {
    "CAM_FRONT": (0.0, 1266.0), "CAM_FRONT_RIGHT": (-55.0, 1260.0), "CAM_BACK_RIGHT": (-110.0, 1259.0),
    "CAM_BACK": (180.0, 809.0), "CAM_BACK_LEFT": (110.0, 1256.0), "CAM_FRONT_LEFT": (55.0, 1272.0),
}  # fmt: skip
"""Degrees to the left, and the focal length in pixels."""
_OTHERS = {
    "LIDAR_TOP": 20.0, "RADAR_FRONT": 13.0, "RADAR_FRONT_LEFT": 13.0, "RADAR_FRONT_RIGHT": 13.0,
    "RADAR_BACK_LEFT": 13.0, "RADAR_BACK_RIGHT": 13.0,
}  # fmt: skip
_CAMERA_RATE, _SECONDS, _STEP = 12.0, 20.0, 0.5
_INSTANCES = 76
"""Of a scene."""
_CATEGORIES = {
    "vehicle.car": (42.0, 1.95, 4.6, 1.7), "human.pedestrian.adult": (18.0, 0.67, 0.73, 1.77),
    "movable_object.barrier": (13.0, 2.5, 0.5, 0.98), "movable_object.trafficcone": (8.4, 0.4, 0.4, 1.07),
    "vehicle.truck": (7.6, 2.5, 6.9, 2.84), "vehicle.trailer": (2.1, 2.9, 12.3, 3.9),
    "movable_object.pushable_pullable": (2.1, 0.6, 0.7, 1.06), "vehicle.bus.rigid": (1.3, 2.95, 11.2, 3.5),
    "vehicle.bus.bendy": (0.2, 2.95, 9.2, 3.4), "vehicle.construction": (1.3, 2.8, 6.4, 3.2),
    "vehicle.motorcycle": (1.1, 0.77, 2.1, 1.47), "vehicle.bicycle": (1.0, 0.6, 1.7, 1.28),
    "human.pedestrian.construction_worker": (0.8, 0.7, 0.74, 1.77), "human.pedestrian.child": (0.2, 0.5, 0.5, 1.4),
}  # fmt: skip
"""Share in per cent; width, length and height in metres."""
_FIRST_TIME, _EPOCH = 1_530_000_000_000_000, 60_000_000


class _Table:
    """A JSON list written entry by entry, as `json.dump(…, indent=0)` lays it out."""

    def __init__(self, path: Path) -> None:
        self._file: TextIO = path.open("w", buffering=1 << 20)
        self._file.write("[\n")
        self._first = True
        self.count = 0

    def add(self, *fields: tuple[str, str]) -> None:
        """Names and values as they are written."""
        text = ",\n".join(f'"{name}": {value}' for name, value in fields)
        self._file.write(f"{'' if self._first else ','}{chr(10) * (not self._first)}{{\n{text}\n}}")
        self._first = False
        self.count += 1

    def close(self) -> None:
        self._file.write("\n]")
        self._file.close()


class _Tokens:
    def __init__(self, random: np.random.Generator) -> None:
        self._random = random

    def __call__(self, count: int) -> list[str]:
        text = self._random.bytes(16 * count).hex()
        return [text[start : start + 32] for start in range(0, len(text), 32)]


def _list(values: Iterable[float]) -> str:
    return "[\n" + ",\n".join(map(repr, values)) + "\n]"


def _text(value: str) -> str:
    return f'"{value}"'


def _yaw(angles: np.ndarray) -> np.ndarray:
    """Quaternions w, x, y, z of turns about the vertical."""
    nothing = np.zeros_like(angles)
    return np.stack((np.cos(angles / 2), nothing, nothing, np.sin(angles / 2)), axis=-1)


class _Path:
    """Where the vehicle is: along an arc, at a steady speed."""

    def __init__(self, random: np.random.Generator) -> None:
        self._start, self._heading = random.uniform(300, 2000, 2), random.uniform(-np.pi, np.pi)
        self._speed, self._turn = random.uniform(0, 12), random.normal(0, 0.04)

    def at(self, seconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places [n, 3] and headings [n]."""
        heading = self._heading + self._turn * seconds
        way = self._speed * seconds
        middle = self._heading + self._turn * seconds / 2
        place = self._start + np.stack((way * np.cos(middle), way * np.sin(middle)), axis=-1)
        return np.column_stack((place, np.zeros(len(seconds)))), heading


class Maker:
    def __init__(self, root: Path, version: str, seed: int, sweep_images: bool, pictures: bool) -> None:
        self._random = np.random.default_rng(seed)
        self._tokens = _Tokens(self._random)
        self._root, self._folder, self._sweep_images = root, root / version, sweep_images
        self._blocks = np.random.default_rng(seed) if pictures else None
        self._folder.mkdir(parents=True)
        for kind in ("samples", "sweeps"):
            for camera in _CAMERAS:
                (root / kind / camera).mkdir(parents=True, exist_ok=True)
        names = ("scene", "sample", "sample_data", "ego_pose", "sample_annotation", "instance", "calibrated_sensor")
        self._tables = {name: _Table(self._folder / f"{name}.json") for name in names}
        self._categories = dict(zip(_CATEGORIES, self._tokens(len(_CATEGORIES)), strict=True))
        self._sensors = dict(zip((*_CAMERAS, *_OTHERS), self._tokens(len(_CAMERAS) + len(_OTHERS)), strict=True))
        self._write("category", [
            {"token": token, "name": name, "description": "made up"} for name, token in self._categories.items()
        ])  # fmt: skip
        self._write("sensor", [
            {"token": token, "channel": name, "modality": name.split("_")[0].lower().replace("cam", "camera")}
            for name, token in self._sensors.items()
        ])  # fmt: skip
        levels = ("v0-40", "v40-60", "v60-80", "v80-100")
        self._write("visibility", [{"token": str(i), "level": one} for i, one in enumerate(levels, 1)])
        for name in ("attribute", "log", "map"):
            self._write(name, [])

    def _write(self, name: str, rows: list[dict[str, str]]) -> None:
        (self._folder / f"{name}.json").write_text(json.dumps(rows, indent=0))

    def scene(self, number: int, name: str) -> None:
        path = _Path(self._random)
        begin = _FIRST_TIME + number * _EPOCH
        times = np.arange(0, _SECONDS, _STEP)
        tokens = self._tokens(len(times))
        own, *_ = self._tokens(1)
        around = ["", *tokens, ""]
        for place, token in enumerate(tokens):
            self._tables["sample"].add(
                ("token", _text(token)), ("timestamp", str(begin + round(times[place] * 1e6))),
                ("prev", _text(around[place])), ("next", _text(around[place + 2])), ("scene_token", _text(own)),
            )  # fmt: skip
        self._tables["scene"].add(
            ("token", _text(own)), ("log_token", _text("")), ("nbr_samples", str(len(tokens))),
            ("first_sample_token", _text(tokens[0])), ("last_sample_token", _text(tokens[-1])),
            ("name", _text(name)), ("description", _text("made up, with { and ] in it")),
        )  # fmt: skip
        self._objects(path, times, tokens)
        for sensor in self._sensors:
            self._sensor(sensor, path, begin, times, tokens, name)

    def _objects(self, path: _Path, times: np.ndarray, samples: list[str]) -> None:
        random = self._random
        kinds = list(_CATEGORIES)
        weights = np.array([_CATEGORIES[kind][0] for kind in kinds])
        chosen = random.choice(len(kinds), _INSTANCES, p=weights / weights.sum())
        first = np.maximum(random.integers(-8, len(times) - 2, _INSTANCES), 0)
        last = np.minimum(first + random.integers(8, 46, _INSTANCES), len(times))
        passed, heading = path.at(times[(first + last) // 2 % len(times)])
        ahead, aside = random.uniform(-30, 55, _INSTANCES), random.normal(0, 16, _INSTANCES)
        turn = np.stack((np.cos(heading), np.sin(heading)), axis=-1)
        middle = passed[:, :2] + ahead[:, None] * turn + aside[:, None] * turn[:, ::-1] * (-1, 1)
        moving = random.random(_INSTANCES) < 0.3
        speed = np.where(moving, random.normal(0, 5, _INSTANCES), 0.0)
        for place, token in enumerate(self._tokens(_INSTANCES)):
            size = (random.normal(1, 0.05) * np.array(_CATEGORIES[kinds[chosen[place]]][1:])).tolist()
            kept = np.arange(first[place], last[place])
            way = (times[kept] - times[kept].mean())[:, None] * speed[place] * turn[place]
            centres = np.column_stack((middle[place] + way, np.full(len(kept), size[2] / 2)))
            rotations = _yaw(heading[place] + 0.05 * np.sin(times[kept]))
            levels = random.choice(4, len(kept), p=(0.2, 0.1, 0.15, 0.55)) + 1
            own = self._tokens(len(kept))
            around = ["", *own, ""]
            self._tables["instance"].add(
                ("token", _text(token)), ("category_token", _text(self._categories[kinds[chosen[place]]])),
                ("nbr_annotations", str(len(kept))), ("first_annotation_token", _text(own[0])),
                ("last_annotation_token", _text(own[-1])),
            )  # fmt: skip
            columns = zip(kept.tolist(), centres.tolist(), rotations.tolist(), levels.tolist(), strict=True)
            for i, (sample, centre, rotation, level) in enumerate(columns):
                self._tables["sample_annotation"].add(
                    ("token", _text(own[i])), ("sample_token", _text(samples[sample])),
                    ("instance_token", _text(token)), ("visibility_token", _text(str(level))),
                    ("attribute_tokens", "[]"), ("translation", _list(centre)),
                    ("size", _list(size)), ("rotation", _list(rotation)),
                    ("prev", _text(around[i])), ("next", _text(around[i + 2])), ("num_lidar_pts", "5"),
                    ("num_radar_pts", "0"),
                )  # fmt: skip

    def _sensor(self, sensor: str, path: _Path, begin: int, times: np.ndarray, samples: list[str], scene: str) -> None:
        is_camera = sensor in _CAMERAS
        (calibration,) = self._tokens(1)
        self._calibration(sensor, calibration)
        # A sweep belongs to the sample that follows; each sample has one key frame, the nearest.
        rate = _CAMERA_RATE if is_camera else _OTHERS[sensor]
        own = np.arange(0, times[-1] + 1e-9, 1 / rate)
        key = np.abs(own[:, None] - times).argmin(axis=0)
        sample = np.searchsorted(times, own - 1e-9).clip(max=len(times) - 1)
        sample[key] = np.arange(len(times))
        is_key = np.zeros(len(own), bool)
        is_key[key] = True
        stamps = (begin + np.round(own * 1e6).astype(np.int64) + (0 if sensor == "LIDAR_TOP" else 3000)).tolist()
        places, headings = path.at(own)
        rotations = _yaw(headings).tolist()
        tokens = self._tokens(len(own))
        around = ["", *tokens, ""]
        size = ("900", "1600") if is_camera else ("0", "0")
        ending = "jpg" if is_camera else "pcd"
        for i, token in enumerate(tokens):
            folder = "samples" if is_key[i] else "sweeps"
            file = f"{folder}/{sensor}/n000-{scene}__{sensor}__{stamps[i]}.{ending}"
            self._tables["sample_data"].add(
                ("token", _text(token)), ("sample_token", _text(samples[sample[i]])), ("ego_pose_token", _text(token)),
                ("calibrated_sensor_token", _text(calibration)), ("timestamp", str(stamps[i])),
                ("fileformat", _text(ending)), ("is_key_frame", "true" if is_key[i] else "false"),
                ("height", size[0]), ("width", size[1]), ("filename", _text(file)),
                ("prev", _text(around[i])), ("next", _text(around[i + 2])),
            )  # fmt: skip
            self._tables["ego_pose"].add(
                ("token", _text(token)), ("timestamp", str(stamps[i])), ("rotation", _list(rotations[i])),
                ("translation", _list(places[i].tolist())),
            )  # fmt: skip
            if is_camera and (is_key[i] or self._sweep_images):
                (self._root / file).write_bytes(b"" if self._blocks is None else _picture(self._blocks))

    def _calibration(self, sensor: str, token: str) -> None:
        degrees, focal = _CAMERAS.get(sensor, (0.0, 0.0))
        half = np.radians(degrees) / 2
        w, z = np.cos(half), np.sin(half)
        # The camera looks along x of the vehicle: first (.5, -.5, .5, -.5), then the turn about the vertical.
        rotation = np.array((w + z, -w - z, w - z, -w + z)) / 2 if focal else np.array((1.0, 0.0, 0.0, 0.0))
        inner = f"[\n{_list((focal, 0.0, 800.0))},\n{_list((0.0, focal, 450.0))},\n{_list((0.0, 0.0, 1.0))}\n]"
        self._tables["calibrated_sensor"].add(
            ("token", _text(token)), ("sensor_token", _text(self._sensors[sensor])),
            ("translation", _list((1.5, 0.0, 1.5))), ("rotation", _list(rotation.tolist())),
            ("camera_intrinsic", inner if focal else "[]"),
        )  # fmt: skip

    def close(self) -> dict[str, int]:
        """Rows of the tables."""
        for table in self._tables.values():
            table.close()
        return {name: table.count for name, table in self._tables.items()}


def _picture(random: np.random.Generator) -> bytes:
    blocks = cv2.resize(random.integers(64, 192, (9, 16), np.uint8), (1600, 900), interpolation=cv2.INTER_NEAREST)
    _, found = cv2.imencode(".jpg", blocks)
    return bytes(found)


def make_nuscenes(
    root: Path,
    version: str = "v1.0-trainval",
    scenes: int = 850,
    seed: int = 0,
    *,
    sweep_images: bool = False,
    pictures: bool = False,
) -> dict[str, int]:
    """Scenes have the names of official ones; returns how many rows the tables have."""
    splits, kind = official_splits(), "mini_" if version == "v1.0-mini" else ""
    maker = Maker(root, version, seed, sweep_images, pictures)
    for number, name in enumerate(sorted(splits[f"{kind}train"] + splits[f"{kind}val"])[:scenes]):
        maker.scene(number, name)
    return maker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--version", default="v1.0-trainval")
    parser.add_argument("--scenes", type=int, default=850)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sweep-images", action="store_true")
    parser.add_argument("--pictures", action="store_true", help="images that can be opened")
    args = parser.parse_args()
    rows = make_nuscenes(
        args.out, args.version, args.scenes, args.seed, sweep_images=args.sweep_images, pictures=args.pictures
    )
    print(", ".join(f"{name}: {count:,}" for name, count in rows.items()))


if __name__ == "__main__":
    main()
