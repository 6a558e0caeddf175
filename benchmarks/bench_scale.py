"""What sweeps and large stores do on a GPU, in one command of eight minutes, as the parts of a page.

    python -m benchmarks.bench_scale --data voc320/data.yaml --out results > page.md

1, 2, 4 and 8 trials at once; the speed of training by where the pixels are, once with so little free memory that the
store does not fit the GPU; and a packaged experiment of which the sweep decides how many run at once, whose page is
copied to `--out`. Each part ends at its time limit, the last one gets what is left of `--minutes`, and a part that
fails leaves the others alone. Nothing has to be installed: PYTHONPATH is enough. `--small` tries all of it on a CPU.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

from yolofast._version import __version__
from yolofast.runs.layout import SWEEP_PAGE, SWEEP_SUMMARY

PARTS = ("together", "stores", "sweep")
_YOLOFAST = [sys.executable, "-m", "yolofast"]
_EXPERIMENT = "ota-vs-anchor-equal-cost"
_STORES = (
    ("gpu", "opencv"), ("jpeg-ram", "opencv"), ("jpeg-ram", "nvjpeg"), ("jpeg-gpu", "opencv"), ("jpeg-gpu", "nvjpeg"),
)  # fmt: skip
_TOGETHER_S, _STORE_S, _DATA_S = 170, 40, 60
_ROOM_GIB = 3.4
"""Left free beside the store that has to find no room: of 2,000 images at 640 pixels (1.7 GB and more) that is less
than twice their size, as soon as CUDA itself has its share, and enough for training on 8 at a time."""
_PATIENCE = 6
"""With a CPU that others use."""
_HOLD = """
import sys, torch
free = torch.cuda.mem_get_info()[0]
kept = torch.empty(max(free - int(float(sys.argv[1]) * 2**30), 0), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


class Sizes(NamedTuple):
    """Of networks and batches; the small ones mean nothing but that the commands work."""

    network: str
    images: int
    together: tuple[str, ...]
    stores: tuple[str, ...]
    sweep: tuple[str, ...]


FULL = Sizes(
    "yolov7-tiny", 2000, ("img=320", "batch=32", "--steps", "150"), ("img=640", "batch=8", "--steps", "100"),
    ("img=320", "batch=64"),
)  # fmt: skip
SMALL = Sizes(
    "mini", 32, ("img=64", "batch=4", "--steps", "4", "--counts", "1", "2"), ("img=64", "batch=4", "--steps", "4"),
    ("img=64", "batch=4", "workers=0"),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, help="a data yaml; default: shapes, which are made")
    parser.add_argument("--out", type=Path, default=Path("scale"), help="where the page of the sweep is copied to")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--epochs", type=int, default=20, help="of the trials of the sweep")
    parser.add_argument("--minutes", type=float, default=8, help="of all parts; with --small six times as long")
    parser.add_argument("--small", action="store_true", help="a network and sizes for a CPU: figures mean nothing")
    asked = parser.parse_args()
    has_gpu, sizes = torch.cuda.is_available(), SMALL if asked.small else FULL
    if not has_gpu and not asked.small:
        parser.error("there is no GPU: --small tries the commands without one")
    if asked.data is not None and not asked.data.is_file():
        parser.error(f"--data {asked.data}: there is no such file")
    name = torch.cuda.get_device_name() if has_gpu else f"{os.cpu_count()} cores"
    print(f"{name}; yolofast {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    patience = _PATIENCE if asked.small else 1
    began, out = time.monotonic(), asked.out.absolute()
    ends = began + 60 * asked.minutes * patience
    out.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = _search_path(Path.cwd())
    home = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        codes, data = [], None
        if asked.data is not None:  # so that commands on the page are short
            Path("set").symlink_to((home / asked.data).parent)
            data = Path("set") / asked.data.name
        for title, words, limit_s in commands(sizes, data, asked.parts, asked.epochs, has_gpu=has_gpu):
            run = _row if title.startswith("|") else _part
            codes.append(run(title, words, max(min(limit_s * patience, ends - time.monotonic()), 1)))
        for file in (SWEEP_PAGE, SWEEP_SUMMARY):
            for found in Path("runs/sweep").glob(f"*/{file}"):
                shutil.copy(found, out / file)
        os.chdir(home)
    print(f"\nall of it: {time.monotonic() - began:.0f} s")
    return int(any(codes))


def _search_path(folder: Path) -> str:
    """Of what the commands start, in another folder: entries like `packages` would mean nothing there."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    entries = [str(Path(__file__).parents[1]), *(str(folder / entry) for entry in given if entry)]
    return os.pathsep.join(dict.fromkeys(entries))


Part = tuple[str, Sequence[str], float]
"""Title, command, seconds it may take; one whose title begins with | is a row of a table."""


def commands(sizes: Sizes, data: Path | None, parts: Sequence[str], epochs: int, *, has_gpu: bool) -> Iterator[Part]:
    if data is None:
        make = [*_YOLOFAST, "dataset", "shapes", "--out", "shapes", "--n", str(sizes.images)]
        yield "The data", make, _DATA_S
    of_all = [f"data={data or 'shapes/data.yaml'}", f"cfg={sizes.network}"]
    if "together" in parts:
        words = [sys.executable, "-m", "benchmarks.bench_together", *of_all, *sizes.together]
        yield "Trials at once", words, _TOGETHER_S
    if "stores" in parts:
        yield from _by_store([*_YOLOFAST, "profile", *of_all, *sizes.stores], has_gpu=has_gpu)
    if "sweep" in parts:
        words = [*_YOLOFAST, "sweep", _EXPERIMENT, "parallel=auto", "seeds=1", *of_all, f"epochs={epochs}"]
        yield f"{_EXPERIMENT}, parallel: auto", [*words, *sizes.sweep], float("inf")


def _by_store(words: list[str], *, has_gpu: bool) -> Iterator[Part]:
    """A run that finds too little memory beside another process, and those by name."""
    print(f"\n## By where the pixels are\n\n```\n{_typed(words)} cache=…\n```\n")
    print("| `--cache` | `--jpeg-decoder` | img/s | step ms | waits for data | GPU memory, GiB | what it says |")
    print("|---|---|--:|--:|--:|--:|---|", flush=True)
    for cache, decoder in _STORES if has_gpu else [("jpeg-ram", "opencv")]:
        yield f"| {cache} | {decoder} |", [*words, f"cache={cache}", f"jpeg_decoder={decoder}"], _STORE_S
    with _held_memory() if has_gpu else nullcontext():
        beside = f" beside a process that leaves {_ROOM_GIB} GiB" if has_gpu else ""
        yield f"| auto{beside} | opencv |", [*words, "cache=auto"], _STORE_S


@contextmanager
def _held_memory() -> Iterator[None]:
    """Of the GPU, by another process: all but what is to be free."""
    words = [sys.executable, "-c", _HOLD, str(_ROOM_GIB)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        if holder.stdout.readline() != "held\n":
            print("| the memory could not be held: the next row has all of the GPU | | | | | | |", flush=True)
        try:
            yield
        finally:
            holder.stdin.close()


def _ended(words: Sequence[str], limit_s: float) -> tuple[int, str]:
    """Its exit code, and what it said."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # what it has started, too; a sweep stops its trials
            said, _ = process.communicate()
    return process.returncode, said.decode(errors="replace").strip()


def _typed(words: Sequence[str]) -> str:
    return " ".join(words).replace(sys.executable, "python")


def _part(title: str, words: Sequence[str], limit_s: float) -> int:
    began = time.monotonic()
    code, said = _ended(words, limit_s)
    print(f"\n## {title}\n\n```\n{_typed(words)}\n```\n\n```\n{said}\n```\n")
    print(f"exit code {code}, {time.monotonic() - began:.0f} s", flush=True)
    return code


def _row(title: str, words: Sequence[str], limit_s: float) -> int:
    code, said = _ended([*words, "--json", "profile.json"], limit_s)
    try:
        found = json.loads(Path("profile.json").read_text(encoding="utf-8"))
        Path("profile.json").unlink()
    except (OSError, ValueError):
        print(f"{title} exit code {code} | | | | {' / '.join(said.splitlines()[-3:])} |", flush=True)
        return code or 1
    waits = sum(one["mean_ms"] for one in found["phases"] if one["name"] == "data wait")
    memory = found["usage"]["gpu_memory_gib"] or 0
    line = "; ".join(line.removeprefix("images: ") for line in said.splitlines() if line.startswith("images: "))
    step_ms = found["step_ms"]["mean"]
    print(
        f"{title} {found['images_per_second']:,.0f} | {step_ms:.2f} | {waits / step_ms:.0%} | {memory:.1f} | {line} |",
        flush=True,
    )
    return code


if __name__ == "__main__":
    sys.exit(main())
