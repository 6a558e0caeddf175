"""Folders of runs as strangers send them: read by `report`, `compare`, `diagnose`, `val` and `watch`."""

import csv
import io
import json
import os
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.hostile.generators import weights as weight_files
from tests.hostile.generators.bytes_and_values import NUMBERS, TEXTS, changed_somewhere, damaged, odd_value
from tests.hostile.generators.data import _dumped, _laughs, _raw_yaml
from tests.hostile.generators.sound import Sound
from tests.hostile.harness import Case
from yolofast.watch.runs import Runs

FILES = (
    "args.yaml", "hyp.yaml", "results.csv", "results.csv", "batches.csv", "env.json", "summary.json", "evaluation.json",
    "interrupted.json", "tracking.json", "motion.json", "profile.json", "profile.csv", "trackers.json",
    "samples/samples.json",
    "results.txt", "train_log.txt", "opt.yaml", "per_class_ap.json", "weights/best.pt", "report.html",
)  # fmt: skip


def run_folders(random: Random, folder: Path, sound: Sound) -> Case:
    run = sound.copy_run(folder, random.choice(("run", "run", "a\x1b[2Jb", "<b>run", "x" * 200)))
    names = [random.choice(FILES) for _ in range(random.choice((1, 1, 2, 4)))]
    for name in names:
        _change(random, run, name, sound)
    kind = ", ".join(names)
    other = str(sound.other)
    commands = (
        ("report", str(run)), ("compare", str(run), other), ("compare", other, str(run), "--json"),
        ("diagnose", str(run)),
        ("diagnose", str(run), "--json"), ("report", str(run), "--markdown", "x.md"),
    )  # fmt: skip
    if random.random() < 0.2:
        return Case(f"{kind} in watch", call=lambda: _watched(folder))
    return Case(kind, random.choice(commands))


def _change(random: Random, run: Path, name: str, sound: Sound) -> None:
    path = run / name
    before = path.read_bytes() if path.is_file() and not path.is_symlink() else b"{}"
    path.parent.mkdir(exist_ok=True)
    # The same file may be changed twice: nothing is written through a link, to a pipe or to a folder.
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    elif not path.is_file() or path.is_symlink():
        path.unlink(missing_ok=True)
    how = random.randrange(10)
    if name.endswith(".pt") and how < 8:
        random.choice(weight_files.WEIGHTS)(random, run, sound)
        (run / "x.pt").replace(path)
    elif how == 0:
        path.unlink(missing_ok=True)
        target = random.choice(("mkdir", "/dev/zero", "/etc/passwd", path.name, "fifo"))
        if target == "mkdir":
            path.mkdir()
        elif target == "fifo":
            os.mkfifo(path)
        else:
            path.symlink_to(target)
    elif how in (1, 2):
        path.write_bytes(damaged(random, before))
    elif how == 3:
        path.write_bytes(random.randbytes(random.choice((0, 1, 1000))))
    elif name.endswith(".csv"):
        path.write_bytes(_table(random, before))
    elif name.endswith(".json"):
        path.write_bytes(_json(random, before))
    elif name.endswith(".yaml"):
        text = random.choice((_laughs, _raw_yaml, lambda r: _dumped(changed_somewhere(r, _settings(before)))))(random)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
    else:
        path.write_bytes(_log(random))


def _settings(before: bytes) -> Any:
    """None are left if an earlier change of the same file has made something else of it."""
    with suppress(yaml.YAMLError, ValueError, RecursionError):
        return yaml.safe_load(before) or {}
    return {}


def _table(random: Random, before: bytes) -> bytes:
    rows = [["epoch"], ["0"]]
    with suppress(csv.Error):  # an earlier change may have made a cell that no reader takes
        rows = list(csv.reader(io.StringIO(before.decode("utf-8", "replace")))) or rows
    for _ in range(random.choice((1, 2, 10))):
        row = random.choice(rows)
        if not row:
            continue
        place = random.randrange(len(row))
        how = random.randrange(6)
        if how == 0:
            row[place] = random.choice(TEXTS)
        elif how == 1:
            row[place] = str(random.choice(NUMBERS))
        elif how == 2:
            row[place] = "9" * random.choice((10, 400, 200_000))
        elif how == 3:
            del row[place]
        elif how == 4:
            row += [row[place]] * random.choice((1, 5, 3000))
        else:
            rows.insert(random.randrange(len(rows)), list(row))
    out = io.StringIO()
    csv.writer(out, quoting=random.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))).writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


def _json(random: Random, before: bytes) -> bytes:
    try:
        value = json.loads(before)
    except (ValueError, RecursionError):
        value = {}
    how = random.randrange(8)
    if how == 0:
        return random.choice(
            (b"[" * 50_000, b'{"a":' * 20_000, b"1" * 6000, b"NaN", b'"\\ud800"', b"", b"\xff\xfe", b"null")
        )
    if how == 1:
        value = odd_value(random)
    for _ in range(random.choice((1, 1, 3, 10))):
        value = changed_somewhere(random, value)
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _log(random: Random) -> bytes:
    """As YOLOv7 and YOLOX write."""

    def figure() -> str:
        return str(random.choice((random.random(), random.choice(NUMBERS), random.choice(TEXTS))))

    yolov7 = "\n".join(
        f"{n}/9 1G " + " ".join(figure() for _ in range(random.choice((3, 13, 14, 15)))) for n in range(10)
    )
    yolox = "\n".join(
        f"2026-01-01 00:00:0{n} | INFO | x - epoch: {n}/9, iter: {figure()}/9, total_loss: {figure()}, lr: {figure()}"
        for n in range(10)
    )
    return (
        damaged(random, random.choice((yolov7, yolox)).encode("utf-8", "surrogatepass"))
        if random.random() < 0.3
        else random.choice((yolov7, yolox)).encode("utf-8", "surrogatepass")
    )


def _watched(folder: Path) -> int:
    runs = Runs(folder)
    for run in runs.list()["runs"]:
        for _ in range(2):
            runs.detail(run["id"], "", 0, 0)
        for name in ("report.html", "results.png", "labels.jpg", "args.yaml"):
            runs.file(run["id"], name)
    return 0
