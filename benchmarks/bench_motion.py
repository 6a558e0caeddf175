"""How fast TrackSSM learns and predicts, beside a plain loop.

`python -m benchmarks.bench_motion`. The plain loop is what is usual: a file per track, a data set that opens it for
each sample, a `DataLoader` without workers (its default) and with some, torch's Adam, the loss printed every step.
Another has all files in memory. Tracks are made up; all train the same network on the same samples.

Ways to run our step (`--ways`): `kernels` (a CUDA graph with our kernels: what is used), `eager` (the same without a
graph), `plain` (a graph of plain torch), `pieces` (a graph whose scans are compiled), `whole` (all but the update
compiled). Without any, only predicting is timed.
"""

import argparse
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from yolofast.motion import scan
from yolofast.motion.predictor import MotionPredictor
from yolofast.motion.trackssm import TrackSSM, TrackSSMShape, loss_of
from yolofast.motion.training.samples import PackedTracks, Samples, TrackAugmentation
from yolofast.motion.training.step import MotionStep

BATCH = 2048
_LENGTH = 200
_WARM_UP = 5
PIECES = ("causal_conv", "scan", "scan_step")


def made_tracks(boxes: int, seed: int = 0) -> PackedTracks:
    """Objects that wander about, 200 boxes each."""
    rng = np.random.default_rng(seed)
    count = boxes // _LENGTH
    speed = rng.normal(0, 2e-3, (count, 1, 4)) + np.cumsum(rng.normal(0, 5e-4, (count, _LENGTH, 4)), axis=1)
    made = rng.uniform(0.2, 0.5, (count, 1, 4)) + np.cumsum(speed, axis=1)
    made[..., 2:] = np.abs(made[..., 2:]) + 0.02
    frames = np.tile(np.arange(_LENGTH), count)
    starts = np.arange(count + 1) * _LENGTH
    return PackedTracks(made.reshape(-1, 4).astype(np.float32), frames, (frames / 30).astype(np.float32), starts)


class FilePerTrack(Dataset):
    """Seven rows of a track's file."""

    def __init__(self, folder: Path, tracks: PackedTracks, in_memory: bool) -> None:
        self.files = []
        for number, (begin, end) in enumerate(zip(tracks.starts[:-1], tracks.starts[1:], strict=True)):
            file = folder / f"{number}.txt"
            if not file.exists():
                rows = [[0, frame, *box, 1] for frame, box in enumerate(tracks.boxes[begin:end])]
                np.savetxt(file, rows, fmt="%d %d %.6f %.6f %.6f %.6f %d")
            self.files.append(file)
        self.content = [np.loadtxt(file) for file in self.files] if in_memory else None
        self.samples = [(track, row) for track in range(len(self.files)) for row in range(_LENGTH - 6)]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        track, row = self.samples[number]
        rows = np.loadtxt(self.files[track]) if self.content is None else self.content[track]
        boxes = torch.tensor(rows[row : row + 7, 2:6], dtype=torch.float32)
        return torch.cat((boxes[1:6], boxes[1:6] - boxes[:5]), dim=1), boxes[6]


def plain_rate(data: Dataset, blocks: int, device: torch.device, workers: int, steps: int, batch: int) -> float:
    """Samples per second of the usual loop, after its first step."""
    model = TrackSSM(TrackSSMShape(blocks=blocks)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    loader = DataLoader(data, batch, shuffle=True, num_workers=workers, drop_last=True)
    begun = 0.0
    for number, (rows, truth) in enumerate(loader):
        rows, truth = rows.to(device), truth.to(device)
        loss = sum(loss_of(model(rows), rows[:, -1, :4], truth).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()  # what a loop prints
        if number == 0:
            begun = time.perf_counter()
        if number == steps:
            break
    return number * batch / (time.perf_counter() - begun)


def our_step(samples: Samples, blocks: int, device: torch.device, way: str) -> MotionStep:
    torch.manual_seed(0)
    step = MotionStep(TrackSSM(TrackSSMShape(blocks=blocks)).to(device), samples, TrackAugmentation())
    if way == "whole":
        step.losses_of = torch.compile(step.losses_of, dynamic=False)
    return step


@contextmanager
def scans(way: str) -> Iterator[None]:
    """The scans that a way uses."""
    before, names = scan.fastest, {name: getattr(scan, name) for name in PIECES}
    compiled = SimpleNamespace(**{name: torch.compile(one, dynamic=False) for name, one in names.items()})
    plain = SimpleNamespace(**names)
    if way not in ("kernels", "eager"):
        scan.fastest = lambda tensor: compiled if way == "pieces" else plain
    try:
        yield
    finally:
        scan.fastest = before
        torch._dynamo.reset()


def timed_steps(step: MotionStep, way: str, arguments: argparse.Namespace) -> tuple[float, float, float]:
    """Seconds until the third step is done, milliseconds per step, and the mean loss of them all."""
    run: Callable[[int], None] = step.step if way == "eager" else step.run
    steps, batch = arguments.steps if way != "eager" else max(arguments.steps // 10, 2), arguments.batch
    begun = time.perf_counter()
    step.start_epoch(0, 1e-4)
    for _ in range(3):
        run(batch)
    step.losses()
    ready = time.perf_counter() - begun
    begun = time.perf_counter()
    for _ in range(steps):
        run(batch)
    loss = sum(step.losses().values())
    ms = (time.perf_counter() - begun) / steps * 1e3
    if arguments.profile and way != "eager" and arguments.device != "cpu":
        profiled(step, batch)
    return ready, ms, loss


def table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    print(f"\n{title}\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def training(arguments: argparse.Namespace, device: torch.device) -> None:
    batch, tracks = arguments.batch, made_tracks(arguments.samples)
    for blocks in arguments.blocks:
        rows: list[list[str]] = []
        samples = Samples(tracks, TrackSSMShape(blocks=blocks)).to(device)
        for tf32 in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            for way in arguments.ways:
                begun = time.perf_counter()
                try:
                    with scans(way):
                        ready, ms, loss = timed_steps(our_step(samples, blocks, device, way), way, arguments)
                except Exception as error:  # noqa: BLE001 - the other ways are still of interest
                    rows.append([f"ours, {way}", "failed", type(error).__name__, str(error)[:80].replace("\n", " ")])
                    continue
                cells = f"{batch / ms * 1e3:,.0f}", f"{ms:.2f}", f"{1e3 / batch * ms:.1f}", f"{ready:.1f}"
                rows.append([f"ours, {way}, {'TF32' if tf32 else 'float32'}", *cells, f"{loss:.5f}"])
                print(f"{rows[-1]} after {time.perf_counter() - begun:.0f} s", flush=True)
        if arguments.plain_steps:
            few = PackedTracks(
                tracks.boxes[: 500 * _LENGTH], tracks.frames[: 500 * _LENGTH], tracks.seconds, tracks.starts[:501]
            )
            torch.backends.cuda.matmul.allow_tf32 = False
            with tempfile.TemporaryDirectory() as folder:
                for in_memory in (False, True):
                    data = FilePerTrack(Path(folder), few, in_memory)
                    for workers in arguments.workers:
                        with scans("plain"):
                            rate = plain_rate(data, blocks, device, workers, arguments.plain_steps, batch)
                        name = (
                            f"plain loop, {'files in memory' if in_memory else 'a file per track'}, {workers} workers"
                        )
                        rows.append([name, f"{rate:,.0f}", f"{batch / rate * 1e3:.2f}", f"{1e6 / rate:.1f}", "", ""])
        heads = ["", "samples/s", "ms/step", "s per 1 M samples", "s to third step", "mean loss"]
        table(f"Training, {blocks} blocks, batch {batch}", heads, rows)


def profiled(step: MotionStep, batch: int) -> None:
    """Where the time of a step goes, by kernel."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        for _ in range(5):
            step.run(batch)
        torch.cuda.synchronize()
    print(found.key_averages().table(sort_by="cuda_time_total", row_limit=14, max_name_column_width=70))


def predicting(arguments: argparse.Namespace) -> None:
    """Rows of all tracks in, boxes out, as a tracker asks once a frame; both in the memory of the host.

    Ways, blocks and numbers of tracks take turns, so that other work on the machine disturbs them alike. Processor time
    is that of all threads: a busy machine changes it little, waiting changes it not at all.
    """
    rows = []
    torch.backends.cuda.matmul.allow_tf32 = False
    places = [("cpu", threads) for threads in arguments.threads]
    for where, threads in places if arguments.device == "cpu" else [(arguments.device, 1), *places]:
        torch.set_num_threads(threads)
        ways: dict[tuple[int, int, str], Callable[[], object]] = {}
        for blocks in arguments.blocks:
            model = TrackSSM(TrackSSMShape(blocks=blocks)).to(where).eval().requires_grad_(False)
            ask = MotionPredictor(model, torch.device(where))
            for tracks in arguments.tracks:
                history = torch.rand(tracks, 5, 8)
                ways[blocks, tracks, "as written"] = partial(_as_written, model, history, where)
                ways[blocks, tracks, "ours"] = partial(ask, history.numpy())
        for (blocks, tracks, way), (wall, work) in milliseconds_of(ways, arguments.repeats).items():
            times = [f"{figure(one):.2f}" for one in (wall, work) for figure in (np.min, np.median)]
            rows.append([where, str(threads), str(blocks), str(tracks), way, *times])
    heads = ["", "CPU threads", "blocks", "tracks", "", "wall, least", "median", "processor, least", "median"]
    table(f"Predicting, ms a frame, {arguments.repeats} rounds", heads, rows)


def _as_written(model: TrackSSM, history: torch.Tensor, where: str) -> torch.Tensor:
    return model(history.to(where))[-1].cpu()


Key = TypeVar("Key")


def milliseconds_of(ways: dict[Key, Callable[[], object]], repeats: int) -> dict[Key, tuple[list[float], list[float]]]:
    """Wall and processor time of each way, all of them once a round."""
    times: dict[Key, tuple[list[float], list[float]]] = {key: ([], []) for key in ways}
    for number in range(repeats + _WARM_UP):
        for key, work in ways.items():
            begun, used = time.perf_counter(), time.process_time()
            work()
            took = time.perf_counter() - begun, time.process_time() - used
            if number >= _WARM_UP:
                for kept, seconds in zip(times[key], took, strict=True):
                    kept.append(1e3 * seconds)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--samples", type=int, default=1_000_000, help="boxes of all tracks")
    parser.add_argument("--steps", type=int, default=100, help="timed")
    parser.add_argument("--plain-steps", type=int, default=6, help="of the plain loop; 0: none")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 8], help="of the plain loop")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4], help="of a CPU that predicts")
    parser.add_argument("--blocks", type=int, nargs="+", default=[2, 6])
    parser.add_argument("--ways", nargs="*", default=["eager", "plain", "kernels", "pieces", "whole"])
    parser.add_argument("--tracks", type=int, nargs="+", default=[10, 50, 200], help="predicted at once")
    parser.add_argument("--repeats", type=int, default=50, help="of a prediction")
    parser.add_argument("--profile", action="store_true", help="also show the kernels that take longest")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.machine()
    print(f"{name}, torch {torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} threads")
    if arguments.ways:
        training(arguments, device)
    predicting(arguments)


if __name__ == "__main__":
    main()
