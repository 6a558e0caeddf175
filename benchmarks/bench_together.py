"""Runs side by side on one device: images a second of all together, for 1, 2, 4 and 8 at once.

    python -m benchmarks.bench_together data=coco320.yaml cfg=yolov7-tiny img=320 batch=32

Each run is a process of `yolofast profile` with these settings. What `parallel: auto` of a sweep would choose is said
below the table. A row whose runs were side by side for less than nine tenths of their time says too much.
"""

import argparse
import os
import platform
import subprocess

import torch

from yolofast._version import __version__
from yolofast.config.yolox_recipe import typed_values
from yolofast.errors import UserError
from yolofast.sweep.measure import COUNTS, measured, overlap, room_for


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", nargs="+", metavar="KEY=VALUE", help="of yolofast train")
    parser.add_argument("--device", default="0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS)
    asked = parser.parse_args()
    settings = typed_values(asked.settings, {}, "cfg=yolov7-tiny")
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} cores"
    print(f"{name}; yolofast {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    print(f"{' '.join(asked.settings)}; {asked.steps} steps each")
    print("| at once | img/s of all | img/s of each | GPU memory of each, GiB | side by side |\n|--:|--:|--:|--:|--:|")
    for count in asked.counts:
        try:
            paces = measured([settings] * count, asked.device, subprocess.Popen, asked.steps)
        except UserError as error:
            print(f"| {count} | {error.what} | | | |")
            break
        rates = [one.images_per_second for one in paces]
        memory = max(one.memory_gib for one in paces)
        each = f"{min(rates):,.1f} – {max(rates):,.1f}"
        print(f"| {count} | {sum(rates):,.1f} | {each} | {memory:.2f} | {overlap(paces):.0%} |", flush=True)
        if memory and count < max(asked.counts) and room_for(paces) < 2 * count:
            print(f"memory is there for {room_for(paces)} at once")
            break


if __name__ == "__main__":
    main()
