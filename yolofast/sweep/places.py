"""Where trials run: on this machine, behind a launcher such as `srun`, or on a Ray cluster; `slurm.py` has jobs.

The queue decides what is trained and starts processes; a place says how many at once, and how one is started. So all
that holds of a sweep holds everywhere: pausing and promoting, populations, resuming what was killed.
"""

import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from yolofast.config.reports import SweepConfig
from yolofast.errors import UserError, in_one_line


class Process(Protocol):
    """What the queue asks of one: `subprocess.Popen` has it."""

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def send_signal(self, number: int, /) -> None: ...


Start = Callable[..., Process]
"""As `subprocess.Popen`."""
_PATIENCE_S = 10
LOST = -1000
"""The exit code of a process whose machine has gone."""
FROM_HERE = ("OMP_NUM_THREADS", "YOLOFAST_CACHE")
"""What a process elsewhere has from here; all else is that machine's."""


@dataclass(frozen=True)
class Slot:
    """Room for one trial."""

    device: str
    number: int

    @property
    def is_cpu(self) -> bool:
        return self.device == "cpu"


@dataclass(frozen=True)
class Place:
    slots: list[Slot]
    start: Start
    title: str
    per_device: int = 1
    """Trials at once on each."""


def slots_of(device: str, parallel: int) -> list[Slot]:
    """`device` as for `train`: the GPUs named, or all; the CPU if there is none."""
    import torch  # not on the machines of a cluster, which import this file too

    found = list(map(str, range(torch.cuda.device_count()))) or ["cpu"]
    named = device.split(",") if device else found
    if any(one not in ("cpu", *found) for one in named):
        raise UserError(f"--device {device}: this machine has {', '.join(found)}", fix="name those, or leave it out")
    return [Slot(one, number) for one in named for number in range(parallel)]


@contextmanager
def place_of(config: SweepConfig, parallel: int, start: Start) -> Iterator[Place]:
    if config.launch:
        yield _launched(config.launch, config.at_once, config.device or "0", start)
    elif config.address:
        with _ray_cluster(config.address, parallel) as place:
            yield place
    else:
        slots = slots_of(config.device, parallel)
        devices = dict.fromkeys("the CPU" if one.is_cpu else f"GPU {one.device}" for one in slots)
        yield Place(slots, start, ", ".join(devices), parallel)


def _launched(launch: str, at_once: int, device: str, start: Start) -> Place:
    try:
        before = shlex.split(launch)
    except ValueError as error:
        raise UserError(f"--launch cannot be understood: {error}", fix="close its quotes") from None
    if not before or shutil.which(before[0]) is None:
        raise UserError(f"--launch: there is no program {before[:1]}", fix='--launch "srun --gres=gpu:1"')

    def begin(words: Sequence[str], **options: Any) -> Process:
        return start([*before, *words], **options)

    return Place([Slot(device, number) for number in range(at_once)], begin, f"what {before[0]} finds")


@contextmanager
def _ray_cluster(address: str, parallel: int) -> Iterator[Place]:
    ray = _ray()
    fix = "give the address of a cluster that runs (ray start --head), or --address local"
    try:
        _reach(address)
        ray.init(None if address == "local" else address, log_to_driver=False, include_dashboard=False)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise UserError(f"--address {address}: {in_one_line(error)}", fix=fix) from None
    try:
        count, per_trial, title = _shares(ray, parallel, address)
        slots = [Slot("0" if "num_gpus" in per_trial else "cpu", number) for number in range(count)]
        runners = _Runners(ray, ray.remote(max_restarts=0, max_concurrency=2, **per_trial)(_Runner))
        yield Place(slots, partial(_RayProcess, ray, runners), f"Ray, {title}", parallel)
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Ray itself would ask for minutes whether somebody is there."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE_S).close()


def _shares(ray: Any, parallel: int, address: str) -> tuple[int, dict[str, float], str]:
    """How many trials at once, and what each asks Ray for: on a cluster of CPUs no more than its smallest node has."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    gpus, cores = (([int(node[kind]) for node in nodes if node.get(kind, 0) >= 1]) for kind in ("GPU", "CPU"))
    if gpus:
        return sum(gpus) * parallel, {"num_gpus": 1 / parallel}, f"{sum(gpus)} GPUs"
    if not cores:
        raise UserError(f"--address {address}: the cluster has no cores", fix="start a node: ray start --address …")
    each = max(min(cores) // parallel, 1)
    return len(cores) * parallel, {"num_cpus": each}, f"{sum(cores)} cores"


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        fix = "pip install 'yolofast[sweep]', here and on the machines of the cluster"
        raise UserError("--address needs Ray, which is not installed", fix=fix) from None
    return ray


class _Runner:
    """On a machine of the cluster, which Ray has given a GPU: one process there at a time."""

    def __init__(self) -> None:
        self._begun = threading.Event()

    def run(self, words: list[str], log: str, folder: str, more: dict[str, str]) -> int:
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, *words], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=folder,
                env={**os.environ, **more}, start_new_session=True,
            )  # fmt: skip
        self._begun.set()
        code = self._process.wait()
        self._begun.clear()
        return code

    def signal(self, number: int) -> None:
        """Beside `run`, in another thread."""
        self._begun.wait()
        self._process.send_signal(number)


class _Runners:
    """To start one takes Ray seconds, so one that has ended its process gets the next. Whoever rests is let go."""

    def __init__(self, ray: Any, made: Any) -> None:
        self._ray, self._made = ray, made
        self._resting: list[tuple[float, Any]] = []

    def take(self) -> Any:
        return self._resting.pop()[1] if self._resting else self._made.remote()

    def give_back(self, runner: Any) -> None:
        self._resting.append((time.monotonic(), runner))

    def let_go(self, rest_s: float = 10.0) -> None:
        """What they hold is for others: a GPU of the cluster, or one that costs money."""
        while self._resting and time.monotonic() - self._resting[0][0] > rest_s:
            self._ray.kill(self._resting.pop(0)[1])


class _RayProcess:
    """As `subprocess.Popen`, of a process that runs on the cluster."""

    def __init__(
        self, ray: Any, runners: _Runners, words: list[str], *, stdout: Any, env: dict[str, str], **_: Any
    ) -> None:
        self._ray, self._runners, self._log = ray, runners, os.path.abspath(stdout.name)
        self._code: int | None = None
        self._runner = runners.take()
        more = {name: env[name] for name in FROM_HERE if name in env}
        self._ended = self._runner.run.remote(words[1:], self._log, os.getcwd(), more)

    @property
    def returncode(self) -> int | None:
        return self._code

    def poll(self) -> int | None:
        self._runners.let_go()
        if self._code is None and self._ray.wait([self._ended], timeout=0)[0]:
            self.wait()
        return self._code

    def wait(self) -> int:
        if self._code is None:
            try:
                self._code = int(self._ray.get(self._ended))
                self._runners.give_back(self._runner)
            except self._ray.exceptions.RayError as error:
                self._code = LOST
                with open(self._log, "a", encoding="utf-8") as file:
                    file.write(f"{in_one_line(error)}\n")
                self._ray.kill(self._runner)
        return self._code

    def send_signal(self, number: int) -> None:
        self._runner.signal.remote(number)
