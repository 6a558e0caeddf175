"""What `--profile-every` costs on the host: microseconds of a step that is timed, and of one that is not.

The calls that a step makes, without the step, on the CPU's clock; medians over rounds, the sides in turn.

    python -m benchmarks.bench_sampler
"""

import platform
import statistics
import time

from tests.train.small_step import small_step
from tests.train.test_phase_record import a_step_of
from yolofast.train.step import TrainStep
from yolofast.train.timing import HostClock, NoSampler, PhaseSampler

ROUNDS, STEPS = 50, 2_000
_NEVER = 10**9


def microseconds(sampler: PhaseSampler, step: TrainStep, first: int) -> float:
    """Of each of `STEPS` steps."""
    begun = time.perf_counter()
    for iteration in range(first, first + STEPS):
        a_step_of(sampler, step, iteration)
    spent = time.perf_counter() - begun
    sampler.take()
    return spent / STEPS * 1e6


def main() -> None:
    step, clock = small_step(), HostClock()
    samplers = {
        "without --profile-every": NoSampler(),
        "not timed": PhaseSampler(step, clock, every=_NEVER, in_graphs=False, first=1),
        "timed": PhaseSampler(step, clock, every=1, in_graphs=False),
    }
    costs: dict[str, list[float]] = {name: [] for name in samplers}
    for turn in range(ROUNDS + 1):
        for name, sampler in samplers.items():
            costs[name].append(microseconds(sampler, step, turn * STEPS))
    print(f"Python {platform.python_version()}, {ROUNDS} rounds of {STEPS:,} steps")
    for name, values in costs.items():
        kept = values[1:]  # the first warms up
        print(f"{name:<24} {statistics.median(kept):6.2f} µs (from {min(kept):.2f} to {max(kept):.2f})")


if __name__ == "__main__":
    main()
