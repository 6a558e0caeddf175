"""Sequences, experiments and data sets in tar files, as strangers may write them."""

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml

from tests.hostile.generators.bytes_and_values import NUMBERS, TEXTS, changed_somewhere, damaged
from tests.hostile.generators.sound import Sound
from tests.hostile.harness import Case
from yolofast.cli import main

_FAR = (1, 2, 300, 5000, 10_000_000, 10**9)


def sequences(random: Random, folder: Path, sound: Sound) -> Case:
    """Text, ini, JSON or arrays, tracked, scored or converted; whatever they are called, nothing lies elsewhere."""
    how = random.choice((_mot, _mot, _video_json, _coco_results, _arrays))
    place = how(random, folder / "in")
    out = folder / "a" / "b" / "out"
    track = ("track", "--detections", place, "--project", out, "--device", "cpu", "--nosave")
    words = [track, track, (*track, "--skip-bad", "--save-detections")]
    if how in (_mot, _video_json):
        words += [("trackval", "--truth", place, "--results", place)]
        words += [
            ("convert", place, "--from", random.choice(("mot", "coco-video", "tao")), "--to", "mot", "--out", out)
        ]
    chosen = tuple(map(str, random.choice(words)))
    return Case(f"{how.__name__[1:]}: {chosen[0]}", call=_inside(chosen, folder), about=" ".join(chosen))


def _inside(words: tuple[str, ...], folder: Path) -> Callable[[], int]:
    def run() -> int:
        code = main(list(words))
        new = {path.name for path in folder.iterdir()} - {"in", "a", ".output", ".touched"}
        assert not new, new
        assert {path.name for path in folder.glob("a/*")} <= {"b"}
        assert {path.name for path in folder.glob("a/b/*")} <= {"out", "out.json"}
        return code

    return run


def _rows(random: Random) -> bytes:
    def value() -> str:
        return str(random.choice((*NUMBERS, *TEXTS)) if random.random() < 0.03 else random.randrange(1, 90))

    frames = sorted(random.choice(_FAR[: random.choice((3, 3, 6))]) + n for n in range(random.choice((1, 5, 40))))
    text = "".join(
        f"{frame},{n},{value()},{value()},{value()},{value()},0.{n % 9 + 1},1,1\n" for n, frame in enumerate(frames)
    )
    content = text.encode("utf-8", "replace")
    return damaged(random, content) if random.random() < 0.3 else content


def _mot(random: Random, place: Path) -> Path:
    for number in range(random.choice((1, 1, 3))):
        own = place / f"S{number}"
        rows = _rows(random)
        for inside in ("det/det.txt", "gt/gt.txt"):
            (own / inside).parent.mkdir(parents=True)
            (own / inside).write_bytes(rows)
        (place / f"S{number}.txt").write_bytes(rows)
        info = {"name": f"S{number}", "imDir": "img1", "frameRate": 30, "seqLength": 40, "imWidth": 90, "imHeight": 90}
        for key in random.sample(list(info), random.choice((0, 1, 2))):
            info[key] = random.choice((*TEXTS, *NUMBERS, *_FAR))
        lines = "".join(f"{key}={value}\n" for key, value in info.items())
        content = f"[Sequence]\n{lines}".encode("utf-8", "replace")
        (own / "seqinfo.ini").write_bytes(damaged(random, content) if random.random() < 0.2 else content)
    return place


def _written(random: Random, value: Any, path: Path) -> Path:
    for _ in range(random.choice((1, 1, 2, 5))):
        value = changed_somewhere(random, value)
    content = json.dumps(value).encode("utf-8", "surrogatepass")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(damaged(random, content) if random.random() < 0.15 else content)
    return path


def _video_json(random: Random, place: Path) -> Path:
    count = random.choice((1, 2, 4))
    images = [{"id": n, "video_id": n % count, "frame_id": n // count + 1, "file_name": f"{n}.jpg"} for n in range(20)]
    rows = [{"id": n, "image_id": n, "track_id": 1, "category_id": 1, "bbox": [n, 9, 20, 20], "score": 0.9}
            for n in range(20)]  # fmt: skip
    images[-1]["frame_id"] = random.choice((9, *_FAR[3:]))
    videos = [{"id": n, "name": random.choice((f"v{n}", f"a/v{n}", random.choice(TEXTS)))} for n in range(count)]
    content = {"videos": videos, "images": images, "annotations": rows, "categories": [{"id": 1, "name": "a"}]}
    return _written(random, content, place / "v.json")


def _coco_results(random: Random, place: Path) -> Path:
    name = random.choice(("street", random.choice(TEXTS)))
    rows = [{"image_id": f"{name}_{n}", "category_id": 0, "bbox": [n, 9, 20, 20], "score": 0.9} for n in range(20)]
    rows[-1]["image_id"] = random.choice((f"street_{random.choice(_FAR)}", random.choice(_FAR)))
    return _written(random, rows, place / "r.json")


def _arrays(random: Random, place: Path) -> Path:
    place.mkdir(parents=True)
    frames = np.arange(1, 11)
    boxes = np.tile([1.0, 1, 30, 30], (10, 1))
    arrays: dict[str, Any] = {"frame": frames, "box": boxes, "score": frames / 20, "label": frames * 0,
        "times": frames / 30, "length": 10, "frame_rate": 30.0, "width": 0, "height": 0, "name": np.array("v"),
        "names": np.array(["a"])}  # fmt: skip
    for name in random.sample(list(arrays), random.choice((0, 1, 2))):
        arrays[name] = random.choice(
            (np.array(5), np.zeros(3), np.array("x" * 1000), np.array([2**62, -1]), arrays["box"])
        )
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    data = content.getvalue()
    (place / "v.npz").write_bytes(damaged(random, data) if random.random() < 0.5 else data)
    return place / "v.npz"


EXPERIMENT = {
    "base": {"data": "shapes", "cfg": "mini", "img": 64, "batch": 8, "epochs": 9}, "grid": {"lr0": [0.01, 0.02]},
    "search": {"momentum": {"uniform": [0.8, 0.9]}, "epochs": {"int": [3, 9]}, "lrf": {"log": [0.01, 0.1]}},
    "list": {"a": {"mixup": 0.1}}, "constraints": ["epochs * batch <= 100", "mixup < 1"], "seeds": [0, 1],
    "budget": {"trials": 20, "hours": 8}, "stop": {"asha": {"grace": 1, "factor": 2}}, "metric": "map", "parallel": 1,
    "method": "random", "pbt": {"population": 8, "every": 3, "share": 0.25},
}  # fmt: skip


def experiments(random: Random, folder: Path, sound: Sound) -> Case:
    chosen = {key: value for key, value in EXPERIMENT.items() if key == "base" or random.random() < 0.6}
    value = {**chosen, "base": {**EXPERIMENT["base"], "data": str(sound.data)}}
    for _ in range(random.choice((1, 1, 2, 5))):
        value = changed_somewhere(random, value)
    try:
        content = yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, ValueError):
        content = b"{}"
    (folder / "e.yaml").write_bytes(damaged(random, content) if random.random() < 0.1 else content)
    return Case("experiment", ("sweep", "e.yaml", "--dry-run", "--device", "cpu"))


def tars(random: Random, folder: Path, sound: Sound) -> Case:
    """Images and labels in a tar file, read in place or imported."""
    path = folder / "train.tar"
    with tarfile.open(path, "w", format=random.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))) as tar:
        for name, content in _members(random, sound):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.type = random.choice((tarfile.REGTYPE,) * 20 + (tarfile.SYMTYPE, tarfile.GNUTYPE_SPARSE, b"x", b"9"))
            info.pax_headers = {"comment": random.choice(TEXTS).replace("\ud800", "")} if random.random() < 0.1 else {}
            tar.addfile(info, io.BytesIO(content))
    if random.random() < 0.6:
        path.write_bytes(damaged(random, path.read_bytes()))
    (folder / "x.yaml").write_text(f"path: {folder}\ntrain: train.tar\nval: train.tar\nnames: [a, b, c]\n")
    if random.random() < 0.2:
        os.truncate(path, random.choice((2**31, 2**36)))
    words = (("check", "--data", "x.yaml"), ("import", str(path), "--out", "out", "--names", "a", "b", "c"))
    return Case("tar", random.choice(words))


def _members(random: Random, sound: Sound) -> list[tuple[str, bytes]]:
    found = [("data.yaml", b"names: [a, b, c]")]
    for number, (ending, content) in enumerate(sound.images.items()):
        stem = random.choice((f"{number}", f"{number}", random.choice(TEXTS))).replace("\0", "").replace("\ud800", "")
        found += [(f"images/{stem}.{ending}", content), (f"labels/{stem}.txt", b"0 0.5 0.5 0.1 0.1\n")]
    random.shuffle(found)
    return found
