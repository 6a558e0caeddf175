"""Reading the index of a data set of made-up entries: time, and memory at its peak.

    python -m benchmarks.bench_index --images 1000000 --folder /tmp/entries

Images are hard links to a few small ones, labels have 15 boxes each. It is read three times, each time by a process of
its own: without a cache, with it, and trusted (`--trust-index`).
"""

import argparse
import multiprocessing
import os
import platform
import random
import shutil
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import psutil

from yolofast.dataset.split import read_split

_BOXES, _KINDS, _PER_FOLDER = 15, 200, 10_000
_LINKS = 20_000
"""A file may have 65,000 names at most."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, required=True)
    asked = parser.parse_args()
    if not (asked.folder / "data.yaml").exists():
        make(asked.folder, asked.images)
    shutil.rmtree(asked.folder / ".yolofast", ignore_errors=True)
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}")
    print("| reading | wall s | CPU s | peak B/image | load |\n|---|--:|--:|--:|--:|")
    for title, trust in (("first", False), ("second", False), ("trusted", True)):
        process = multiprocessing.get_context("spawn").Process(target=read, args=(asked.folder, title, trust))
        process.start()
        process.join()


def make(folder: Path, images: int) -> None:
    chance = random.Random(0)
    pixels = cv2.imencode(".jpg", np.zeros((48, 64, 3), np.uint8))[1].tobytes()
    texts = ["".join(_row(chance) for _ in range(_BOXES)) for _ in range(_KINDS)]
    for number in range(images):
        name, part = f"{number:012}", f"{number // _PER_FOLDER:04}"
        places = [folder / kind / part / f"{name}{end}" for kind, end in (("images", ".jpg"), ("labels", ".txt"))]
        if number % _PER_FOLDER == 0:
            for place in places:
                place.parent.mkdir(parents=True)
        if number % _LINKS == 0:
            seeds = folder / "seeds" / part
            seeds.mkdir(parents=True)
            (seeds / "image").write_bytes(pixels)
            for kind, text in enumerate(texts):
                (seeds / str(kind)).write_text(text)
        os.link(seeds / "image", places[0])
        os.link(seeds / str(number % _KINDS), places[1])
    names = ", ".join(f"c{number}" for number in range(80))
    (folder / "data.yaml").write_text(f"path: .\ntrain: images\nval: images/0000\nnames: [{names}]\n")


def _row(chance: random.Random) -> str:
    x, y, w, h = (chance.uniform(*ends) for ends in ((0.3, 0.7), (0.3, 0.7), (0.1, 0.5), (0.1, 0.5)))
    return f"{chance.randrange(80)} {x:.6f} {y:.6f} {w:.6f} {h:.6f}\n"


def read(folder: Path, title: str, trust: bool) -> None:
    process, ended = psutil.Process(), threading.Event()
    before = peak = process.memory_info().rss

    def look() -> None:
        nonlocal peak
        while not ended.wait(0.02):
            peak = max(peak, process.memory_info().rss)

    looking = threading.Thread(target=look)
    looking.start()
    wall, cpu = time.perf_counter(), time.process_time()
    count = len(read_split(folder / "data.yaml", trust=trust))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    ended.set()
    looking.join()
    load = os.getloadavg()[0]
    print(f"| {title} | {wall:.1f} | {cpu:.1f} | {(peak - before) / count:.0f} | {load:.0f} |", flush=True)


if __name__ == "__main__":
    main()
