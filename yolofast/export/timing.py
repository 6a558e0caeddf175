"""How long detecting takes: several detectors in one interleaved run, so that whatever else the machine does hits all.

A call is one picture in memory, of the size it has, to boxes in its pixels. Throughput is a batch of such pictures.
Every round times all detectors, each round beginning with another one.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from yolofast.errors import UserError
from yolofast.pixels import Image

Detect = Callable[[Sequence[Image]], object]
"""Returns when the boxes are on the host."""
_MEMORY_TIMEOUT_S = 600


@dataclass
class Times:
    """Of one detector."""

    calls: list[float] = field(default_factory=list)
    """Seconds of each single picture."""
    batches: list[float] = field(default_factory=list)
    """Seconds of each batch."""
    batch: int = 1

    def latency_ms(self, percent: float) -> float:
        return float(np.percentile(self.calls, percent)) * 1000

    @property
    def images_per_second(self) -> float:
        """The median batch."""
        return self.batch / float(np.median(self.batches))


def interleaved(
    detectors: Mapping[str, Detect], pictures: Sequence[Image], *, batch: int, rounds: int, calls: int
) -> dict[str, Times]:
    """By the detectors' names. The first call of each, and its first batch, are not counted: they load kernels."""
    several = [pictures[number % len(pictures)] for number in range(batch)]
    times = {name: Times(batch=batch) for name in detectors}
    for detect in detectors.values():
        detect(pictures[:1])
        detect(several)
    names = list(detectors)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            detect, found = detectors[name], times[name]
            for call in range(calls):
                picture = pictures[(number * calls + call) % len(pictures)]
                found.calls.append(_seconds(detect, [picture]))
            found.batches.append(_seconds(detect, several))
    return times


def _seconds(detect: Detect, pictures: Sequence[Image]) -> float:
    start = time.perf_counter()
    detect(pictures)
    return time.perf_counter() - start


_PROGRAM = """
import json, sys
import numpy as np, psutil, torch
from yolofast.export.contest import open_detector
said = json.loads(sys.argv[1])
torch.set_num_threads(said["threads"])
before = psutil.Process().memory_info().rss
detect = open_detector(said["weights"], said["cfg"], said["size"], said["device"]).detect
for count in (1, said["batch"]):
    detect([np.full((480, 640, 3), 114, np.uint8)] * count)
gpu = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
print(json.dumps([psutil.Process().memory_info().rss - before, gpu]))
"""


def memory_of(
    weights: str, *, cfg: str, size: Sequence[int] | None, device: str, batch: int, threads: int
) -> tuple[int, int]:
    """Bytes that opening and running add to a process that has imported torch; what torch took at most on the GPU.

    A process of its own: what one library has freed would serve the next, and hide what that takes.
    """
    said = {"weights": weights, "cfg": cfg, "size": size, "device": device, "batch": batch, "threads": threads}
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _PROGRAM, json.dumps(said)], capture_output=True, text=True, check=True,
            timeout=_MEMORY_TIMEOUT_S,
        )  # fmt: skip
        host, gpu = json.loads(ended.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
        raise UserError(f"the memory of {weights} cannot be measured", fix="--no-memory") from error
    return host, gpu
