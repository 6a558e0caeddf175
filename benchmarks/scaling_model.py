"""How training would scale to several GPUs: a model, not a measurement. It prints the tables of docs/distributed.md.

`python -m benchmarks.scaling_model`

The step of one GPU is the measured one (`MEASURED`), with 64 images on each GPU. What is reduced is counted on the
networks themselves. The rest are assumptions: links, their latencies, and what the reductions hide behind.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from yolofast.model.network import build_model
from yolofast.train.distributed.averaged_gradients import bucket_bytes

MEASURED = Path(__file__).parent / "results" / "2026-11-18-train-h200.md"
NETWORKS = (
    ("yolov7-tiny", "320", "ota"), ("yolov7", "320", "ota"), ("yolov7", "640", "ota"), ("yolox-s", "320", "simota"),
)  # fmt: skip
CLASSES = 20
"""Of the data set it was measured on."""
GPUS = (2, 4, 8, 16, 32, 64)

EFFICIENCY = 0.8
"""Of a link's nominal rate."""
BACKWARD = 0.6
"""Of the step: in it gradients are reduced while others are computed."""
COUNTS = 3
"""Sums of a few numbers that a loss waits for: positives, cells and images of the batch; YOLOX's are two."""


@dataclass(frozen=True)
class Link:
    rate: float
    """Bytes a second in each direction, nominal."""
    latency: float
    """Seconds from one to the next."""

    def all_reduce(self, size: float, members: int) -> float:
        """Seconds: every byte passes twice; a tree for what is small."""
        moved = 2 * (members - 1) / members * size / (self.rate * EFFICIENCY)
        return moved + 2 * math.ceil(math.log2(members)) * self.latency


NVLINK, PCIE, NETWORK = Link(450e9, 5e-6), Link(63e9, 10e-6), Link(12.5e9, 15e-6)


@dataclass(frozen=True)
class Cluster:
    name: str
    within: Link
    machine: int
    """GPUs of one, which share its link to the others."""

    def all_reduce(self, size: float, gpus: int) -> float:
        here = min(gpus, self.machine)
        return self.within.all_reduce(size, here) + NETWORK.all_reduce(size, gpus // here)


CLUSTERS = (
    Cluster("8 a machine, NVLink", NVLINK, 8),
    Cluster("8 a machine, PCIe", PCIE, 8),
    Cluster("1 a machine", NETWORK, 1),
)


@dataclass(frozen=True)
class Work:
    step: float
    """Seconds on one GPU."""
    images: int
    parameters: int
    norms: int
    """BatchNorm layers."""
    channels: int
    """Of all of them."""

    @property
    def gradients(self) -> int:
        return 4 * self.parameters

    def on(self, cluster: Cluster, gpus: int, *, sync_bn: bool) -> float:
        """Seconds of a step of several GPUs."""
        buckets = math.ceil(self.gradients / bucket_bytes(self.gradients))
        of_one = cluster.all_reduce(self.gradients / buckets, gpus)
        left_over = max(of_one, buckets * of_one - BACKWARD * self.step)  # the last has nothing to hide behind
        waits = COUNTS * cluster.all_reduce(4, gpus)
        if sync_bn:  # two sums of each channel forward, and two backward; nothing else happens meanwhile
            waits += 2 * self.norms * cluster.all_reduce(8 * self.channels / self.norms, gpus)
        return self.step + left_over + waits


def works() -> dict[tuple[str, str], Work]:
    found = {}
    for name, size, assigner in NETWORKS:
        model = build_model(name, nc=CLASSES)
        norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
        found[name, size] = Work(
            step=measured_ms(name, size, assigner) / 1e3,
            images=64,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            norms=len(norms),
            channels=sum(norm.num_features for norm in norms),
        )
    return found


def measured_ms(name: str, size: str, assigner: str) -> float:
    """Of the captured step, in the file of results."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in MEASURED.read_text("utf-8").splitlines()]
    return next(float(row[5]) for row in rows if row[:5] == [name, size, "64", assigner, "capture"])


def tables() -> Iterator[str]:
    all_works = works()
    yield "| network | pixels | step of one GPU ms | gradients MB | BatchNorm layers | their sums kB |"
    yield "|---|--:|--:|--:|--:|--:|"
    for (name, size), work in all_works.items():
        counted = f"{work.gradients / 1e6:.1f} | {work.norms} | {16 * work.channels / 1e3:.0f}"
        yield f"| {name} | {size} | {work.step * 1e3:.2f} | {counted} |"
    for title, sync_bn in (("Without `--sync-bn`", False), ("With `--sync-bn`", True)):
        yield f"\n{title}:\n"
        yield f"| network | pixels | GPUs | {' | '.join(map(str, GPUS))} | images a second with {GPUS[-1]} |"
        yield "|---|--:|---|" + "--:|" * (len(GPUS) + 1)
        for (name, size), work in all_works.items():
            for cluster in CLUSTERS:
                steps = [work.on(cluster, gpus, sync_bn=sync_bn) for gpus in GPUS]
                cells = [f"{work.step / step:.0%}".replace("%", " %") for step in steps]
                rate = f"{GPUS[-1] * work.images / steps[-1]:,.0f}"
                yield f"| {name} | {size} | {cluster.name} | {' | '.join(cells)} | {rate} |"


def main() -> None:
    print("\n".join(tables()))


if __name__ == "__main__":
    main()
