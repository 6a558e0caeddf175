"""What sweeps and large stores do on a GPU, in one command of less than eight minutes, as the parts of a page.

    python -m benchmarks.bench_scale > page.md

1, 2, 4 and 8 trials at once; a packaged experiment of which the sweep decides how many; and the speed of training by
where the pixels are, the last time with so little free memory that the store does not fit the GPU. `--small` is for
trying the commands on a CPU. Each part ends at its time limit, and a part that fails leaves the others alone.
"""

import argparse
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from yolofast._version import __version__
from yolofast.files.yaml_file import dump_yaml, read_yaml
from yolofast.resources import find_resource

_YOLOFAST = [sys.executable, "-m", "yolofast"]
_EXPERIMENT = "size-320-480-640"
_CACHES = ("gpu", "jpeg-ram", "jpeg")
_ROOM_GIB = 3.0
"""Left free beside the store that has to find no room: less than twice its size, and enough for training."""
_PATIENCE = 6
"""With a CPU that others use."""
_HOLD = """
import sys, torch
free = torch.cuda.mem_get_info()[0]
kept = torch.empty(max(free - int(float(sys.argv[1]) * 2**30), 0), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="a network and sizes for a CPU: figures mean nothing")
    asked = parser.parse_args()
    has_gpu = torch.cuda.is_available()
    if not has_gpu and not asked.small:
        parser.error("there is no GPU: --small tries the commands without one")
    name = torch.cuda.get_device_name() if has_gpu else f"{os.cpu_count()} cores"
    print(f"{name}; yolofast {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    began, root = time.monotonic(), str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        found = chain(_parts(small=asked.small), _by_cache(small=asked.small, has_gpu=has_gpu))
        codes = [_part(title, words, limit_s * (_PATIENCE if asked.small else 1)) for title, words, limit_s in found]
        os.chdir(root)
    print(f"\nall of it: {time.monotonic() - began:.0f} s")
    return int(any(codes))


Part = tuple[str, Sequence[str], int]
"""Title, command, seconds it may take."""


def _parts(*, small: bool) -> Iterator[Part]:
    of_all = ["data=shapes/data.yaml", f"cfg={'mini' if small else 'yolov7-tiny'}"]
    yield "The data", [*_YOLOFAST, "dataset", "shapes", "--out", "shapes", "--n", "32" if small else "2000"], 40
    words = [*of_all, "img=64" if small else "img=320", "batch=4" if small else "batch=32"]
    words += ["--steps", "4" if small else "150"]
    words += ["--counts", "1", "2"] if small else []
    yield "Trials at once", [sys.executable, "-m", "benchmarks.bench_together", *words], 150
    values = {**read_yaml(find_resource(_EXPERIMENT, "experiments")).values, "parallel": "auto", "seeds": 1}
    values |= {"grid": {"img_size": [64, 96]}} if small else {}
    Path("experiment.yaml").write_text(dump_yaml(values), encoding="utf-8")
    words = [*of_all, "epochs=1" if small else "epochs=3", *(["batch=4", "workers=0"] if small else [])]
    yield f"{_EXPERIMENT}, parallel: auto", [*_YOLOFAST, "sweep", "experiment.yaml", *words], 150


def _by_cache(*, small: bool, has_gpu: bool) -> Iterator[Part]:
    """Steps at 640 pixels: 2,000 images are 1.7 GB there."""
    words = [*_YOLOFAST, "profile", "data=shapes/data.yaml", f"cfg={'mini' if small else 'yolov7-tiny'}"]
    words += ["img=64" if small else "img=640", "batch=4" if small else "batch=8", "--steps", "4" if small else "100"]
    for cache in _CACHES if has_gpu else _CACHES[1:]:
        yield f"Pixels: {cache}", [*words, f"cache={cache}"], 35
    if has_gpu:
        with _held_memory():
            yield f"Pixels: auto, {_ROOM_GIB} GiB free on the GPU", [*words, "cache=auto"], 35


@contextmanager
def _held_memory() -> Iterator[None]:
    """Of the GPU, by another process: all but what is to be free."""
    words = [sys.executable, "-c", _HOLD, str(_ROOM_GIB)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        holder.stdout.readline()
        try:
            yield
        finally:
            holder.stdin.close()


def _part(title: str, words: Sequence[str], limit_s: int) -> int:
    began = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)  # what it has started, too; a sweep stops its trials
            said, _ = process.communicate()
    code = process.returncode
    typed = " ".join(words).replace(sys.executable, "python")
    print(f"\n## {title}\n\n```\n{typed}\n```\n\n```\n{said.decode(errors='replace').strip()}\n```\n")
    print(f"exit code {code}, {time.monotonic() - began:.0f} s", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
