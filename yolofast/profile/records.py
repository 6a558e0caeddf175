"""What was measured of a run, as plain values, and the bottleneck that follows: evidence, flag to change, gain.

Verdicts, tables and files are made from these values alone.
"""

from collections.abc import Collection
from dataclasses import dataclass

DATA, TRANSFER, ASSIGNMENT, LOSSES = "data", "host→device", "assignment", "loss"
HOST, WAIT, UPDATE, BETWEEN = "host", "wait per step", "update", "between steps"
SHARED, NOTHING = "shared machine", "nothing"
ENOUGH_DATA = SLOW_TRANSFER = 0.10
SLOW_LOSS = 0.30
LONG_BETWEEN = 0.25
"""Shares of the step from which on data, copying, the loss or its assignment, what lies between phases are bottlenecks:
round numbers, below which a change would hardly be felt."""


@dataclass(frozen=True)
class TimeSpread:
    """Of several measurements."""

    mean: float
    std: float
    samples: int


@dataclass(frozen=True, kw_only=True)
class PhaseFigures:
    name: str
    mean_ms: float
    std_ms: float
    median_ms: float
    share: float
    """Of the step; of a phase parallel to it, its length in steps."""
    asleep_ms: float = 0.0
    """How long the process slept; known on the CPU only."""
    beside: str = ""
    """Where it runs, if parallel to the step."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What was measured."""

    network: str
    data: str
    height: int
    width: int
    """As batches come; `sizes` describes the inputs of the network where they differ."""
    batch: int
    """Images of the data set that a step uses up."""
    assigner: str
    device: str
    """Its name."""
    on_gpu: bool
    precision: str
    gear: str
    captured: bool
    """A graph is replayed, so launching costs nothing."""
    compiled: bool
    graph_failed: str
    compile_failed: str
    """Why, if it was tried."""
    loader: str
    """`gpu`, `workers` or `main process`."""
    workers: int
    cores: int
    cache: str
    """Where the pixels are: gpu, ram, disk, jpeg, or off (files are decoded every time)."""
    epoch: int
    """The one that was measured, from 0."""
    epochs: int
    sizes: str = ""
    joined: int = 1
    """Images of the data set that form one input image (`--quad`)."""
    steps_an_epoch: int = 0


@dataclass(frozen=True, kw_only=True)
class Usage:
    main_cpu: float
    """Of the training process, in percent of one core."""
    worker_cpu: float | None = None
    """Of all workers together, in percent of one core; None without workers."""
    others_cpu: float = 0.0
    """Of all other programs on the machine, in percent of one core."""
    gpu_busy: float | None = None
    """The share of the time in which some kernel or copy ran."""
    gpu_busy_by: str = ""
    gpu_memory_gib: float | None = None
    gpu_memory_total_gib: float | None = None


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a step has to do, counted."""

    flops: float
    """Of matrix products and convolutions, forward and backward."""
    bytes: float
    """Read and written by the operations as written: compiled, some of them never touch the memory."""
    sent_bytes: float = 0.0
    """From the host to the device as a batch; 0 where batches are made on the device."""


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """What the device can do, measured in the same run, per second."""

    flops: float
    bytes: float
    sent_bytes: float | None = None
    flops_by: str = ""


@dataclass(frozen=True)
class WaitPlace:
    phase: str
    place: str
    """File and line."""
    count: float
    """Per step."""


@dataclass(frozen=True)
class Waits:
    """Where the host waited for the GPU, most often first."""

    places: tuple[WaitPlace, ...] = ()

    @property
    def count(self) -> float:
        """Per step."""
        return sum(place.count for place in self.places)

    def within(self, phases: Collection[str], *, outside: bool = False) -> "Waits":
        """Those in these phases, or all others."""
        return Waits(tuple(place for place in self.places if (place.phase in phases) is not outside))


@dataclass(frozen=True, kw_only=True)
class Profile:
    setup: Setup
    steps: int
    step: TimeSpread
    """Milliseconds; the mean is that of all steps in a row."""
    phases: tuple[PhaseFigures, ...]
    measured_by: str
    usage: Usage
    split: tuple[PhaseFigures, ...] = ()
    """What a compiled region or a closed graph (`split_of`) consists of, measured on a twin that is neither; shares are
    those of the region."""
    split_of: str = ""
    split_by: str = ""
    work: Work | None = None
    ceilings: Ceilings | None = None
    waits: Waits | None = None
    """None where it was not measured."""
    compile_report: str = ""
    batch_ms: float | None = None
    """In which one process makes a batch; None where the GPU makes them."""
    measured_from: float = 0.0
    measured_until: float = 0.0
    """Seconds since 1970: whether processes that measured at once did so side by side."""

    @property
    def images_per_second(self) -> float:
        return self.setup.batch / self.step.mean * 1e3

    def phase_ms(self, *names: str) -> float:
        """Of the step itself; 0 for phases that are not there."""
        return sum(phase.mean_ms for phase in self.phases if phase.name in names and not phase.beside)


@dataclass(frozen=True)
class Slowdown:
    kind: str
    text: str
    """Slowdown and evidence."""
    change: str = ""
    """The flag, and why."""
    gain: str = ""
    saved_ms: float = 0.0
    """Per step, at best."""


def share_of(profile: Profile, ms: float) -> float:
    return ms / profile.step.mean if profile.step.mean else 0.0


def gain(profile: Profile, saved_ms: float) -> str:
    before = profile.step.mean
    after = max(before - saved_ms, 1e-3)
    return f"at best {before:.1f} → {after:.1f} ms per step, {before / after:.2f}× as fast"
