"""How long nuScenes of full size takes to read and export, and how much memory: `yolofast convert` as a process.

    python -m benchmarks.bench_nuscenes [--root /tmp/nuscenes] [--scenes 850] [-- --frames sweeps]

Without tables in `--root`, made-up ones are put there (`benchmarks.make_nuscenes`): 2.5 GB, in minutes; they stay.
What follows `--` goes to `convert`. Printed are the machine and its load before, what was written, wall and processor
time, and the largest resident memory.
"""

import argparse
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.make_nuscenes import make_nuscenes
from yolofast.words import amount, duration

_VERSION = "v1.0-trainval"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(tempfile.gettempdir()) / "nuscenes")
    parser.add_argument("--scenes", type=int, default=850)
    parser.add_argument("flags", nargs="*", help="of yolofast convert")
    args = parser.parse_args()
    if not (args.root / _VERSION).is_dir():
        rows = make_nuscenes(args.root, _VERSION, args.scenes, sweep_images="sweeps" in args.flags)
        print(", ".join(f"{name}: {count:,}" for name, count in rows.items()), flush=True)
    tables = sum(path.stat().st_size for path in (args.root / _VERSION).glob("*.json"))
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, load before {os.getloadavg()[0]:.1f}")
    print(f"Python {platform.python_version()}, NumPy {np.__version__}; tables of {amount(tables)}", flush=True)
    out = Path(tempfile.mkdtemp(dir=args.root)) / "out"
    command = [sys.executable, "-m", "yolofast", "convert", "--from", "nuscenes", "--root", str(args.root)]
    command += ["--version", _VERSION, "--out", str(out), *args.flags]
    began = time.perf_counter()
    try:
        subprocess.run(command, check=True)
        took = time.perf_counter() - began
    finally:
        shutil.rmtree(out.parent)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{duration(took)} wall, {duration(used.ru_utime)} user, {duration(used.ru_stime)} system, "
        f"{amount(used.ru_maxrss * 1024)} at most"
    )


if __name__ == "__main__":
    main()
