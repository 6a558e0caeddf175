"""How often `yolofast diagnose` names the cause that was planted into a made-up run, and how often it cries wolf.

    python -m benchmarks.count_verdicts [--runs 200] [--clean 500] [--files 20]

The runs are those of `tests/report/diagnose/planted.py`, with seeds from 5000 on, which no test looks at. A row
counts runs in which the planted cause, and no other, was named; of clean runs those in which nothing was. Runs
written as files, in each format and in several lengths, are counted apart where the format hardly holds the cause.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from tests.report.diagnose import planted, test_verdicts, test_verdicts_of_files
from tests.report.logs import written
from yolofast.report.logs.history import Epochs, Floats, History
from yolofast.report.logs.read_run import read_history

FIRST_SEED = 5000
WEAK_RUNS = 60
Plant = Callable[[np.random.Generator], History]
CAUSES: dict[str, tuple[Plant, ...]] = {
    "batch noise": (planted.noise_only,),
    "rare spikes": (planted.spikes,),
    "learning rate": (planted.lr_too_high, planted.lr_too_high_throughout),
    "data mix": (planted.data_mix,),
    "boxes": (planted.box_counts,),
    "overfitting": (planted.overfit, planted.overfit_but_scores_rise),
    "plateau": (planted.plateau,),
    "divergence": (planted.diverges, planted.breaks),
    "oscillation": (planted.oscillates,),
}
LENGTHS = ((20, 100), (40, 50), (100, 40), (200, 30))
"""Epochs, and batches of each."""
NOISES = (0.03, 0.06, 0.10, 0.15)
SIZES = [(form, every, flat) for form in ("line", "bend") for every in (1, 10) for flat in (False, True)]


VIEWS: dict[str, Callable[[History], History]] = {
    "all batches": test_verdicts.as_it_is,
    "by epochs": partial(replace, batches=None),
    "by epochs without learning rates": test_verdicts.by_epochs,
    "as YOLOX logs them": test_verdicts.as_yolox_logs,
    "mosaic closing": test_verdicts.with_closed_mosaic,
    "the assigner changing": test_verdicts.with_another_assigner,
    "sizes that do nothing, every batch": partial(test_verdicts.with_sizes, every=1),
    "sizes that do nothing, every ten": test_verdicts.with_sizes,
}


def weak_mix(strength: float, rng: np.random.Generator) -> History:
    effect = lambda c: 1 + strength * (0.5 * c["mosaic"] + 0.2 * c["mixup"])  # noqa: E731
    return planted.made_up(rng, planted.learns, noise=0.04, factor=effect)


def weak_sizes(half: float, every: int, rng: np.random.Generator) -> History:
    effect = lambda c: 1 + half * c["size"] / (np.ptp(planted.SIZES) / 2)  # noqa: E731
    return planted.made_up(
        rng, planted.learns, noise=0.04, factor=effect, sizes=planted.drawn_sizes(rng, every)
    )  # fmt: skip


def weak_overfit(rise: float, rng: np.random.Generator) -> History:
    """The validation loss ends so much higher than it was at 45 % of the run."""

    def val(share: Floats) -> Floats:
        return 1.05 * planted.learns(np.minimum(share, 0.45)) * (1 + rise * np.maximum(share - 0.45, 0) / 0.55)

    return planted.made_up(rng, planted.learns, val=val)


def weak_oscillation(amplitude: float, rng: np.random.Generator) -> History:
    period = 3.7 / planted.EPOCHS
    swing = lambda s: planted.learns(s) * (1 + amplitude * np.sin(2 * np.pi * s / period))  # noqa: E731
    return planted.made_up(rng, swing, noise=0.05)


WEAK: dict[str, tuple[str, Plant]] = {
    "oscillation of ±3 % under 5 % noise": ("oscillation", partial(weak_oscillation, 0.03)),
    "oscillation of ±5 % under 5 % noise": ("oscillation", partial(weak_oscillation, 0.05)),
    "data mix, 28 % of the variance": ("data mix", partial(weak_mix, 0.335)),
    "image size, 28 %, another every batch": ("image size", partial(weak_sizes, 0.039, 1)),
    "image size, 28 %, another every ten": ("image size", partial(weak_sizes, 0.039, 10)),
    "validation loss up by 5.5 %": ("overfitting", partial(weak_overfit, 0.055)),
    "validation loss up by 3.3 %": ("overfitting", partial(weak_overfit, 0.033)),
    "validation loss up by 1.7 %": ("overfitting", partial(weak_overfit, 0.0165)),
}


def found(history: History) -> str:
    return ", ".join(test_verdicts.kinds(history)) or "nothing"


def counted(name: str, runs: Iterator[tuple[str, History]]) -> str:
    right, others = 0, Counter[str]()
    for expected, history in runs:
        said = found(history)
        right += said == expected
        if said != expected:
            others[said] += 1
    wrong = "; ".join(f"{said} {count}" for said, count in others.most_common())
    return f"| {name} | {right:,} of {right + others.total():,} | {wrong} |"


def generators(count: int) -> Iterator[tuple[int, np.random.Generator]]:
    for seed in range(FIRST_SEED, FIRST_SEED + count):
        yield seed, np.random.default_rng(seed)


def causes(runs: int, every: int | None = None) -> Iterator[tuple[str, History]]:
    """With sizes that do nothing, if another one comes `every` so many batches."""
    for expected, plants in CAUSES.items():
        for plant in plants:
            for seed, rng in generators(runs):
                history = plant(rng)
                yield expected, history if every is None else test_verdicts.with_sizes(history, seed, every)


def sizes(runs: int) -> Iterator[tuple[str, History]]:
    for form, every, flat in SIZES:
        for _, rng in generators(runs):
            yield "image size", planted.image_sizes(rng, form, every, flat)


def clean(runs: int, seen: Callable[[History], History]) -> Iterator[tuple[str, History]]:
    for _, rng in generators(runs):
        yield "nothing", seen(planted.clean(rng))


def noisy_epochs(noise: float, runs: int) -> Iterator[tuple[str, History]]:
    """Clean runs known by epochs alone, flat or falling by a little or by much, of which each mean is as noisy."""
    for fall in (0.0, 0.2, 1.5):
        for epochs in (6, 8, 10, 12, 16, 24, 40, 100):
            course = 1 + fall * np.exp(-5 * np.arange(epochs) / epochs)
            unknown = np.full(epochs, np.nan)
            for _, rng in generators(runs):
                train, val = (course * height * (1 + noise * rng.standard_normal(epochs)) for height in (1, 1.1))
                made = Epochs(number=np.arange(1, epochs + 1), train=train, val=val, fitness=unknown, lr=unknown)
                yield "nothing", History(source="made up", format="CSV", epochs=made)


def from_files(runs: int, write: Callable[[History, Path], Path], can_see: bool) -> Iterator[tuple[str, History]]:
    """Of causes that the tests ask for in this format, or of the others, which long runs may show as well."""
    plants = [(p, c) for p, c, formats in test_verdicts_of_files.VISIBLE if (write.__name__ in formats) == can_see]
    for epochs, batches in LENGTHS:
        with patch.multiple(planted, EPOCHS=epochs, PER_EPOCH=batches):
            for plant, cause in plants:
                for _, rng in generators(runs):
                    with tempfile.TemporaryDirectory() as folder:
                        yield cause or "nothing", read_history(write(plant(rng), Path(folder)))


def table(runs: int, clean_runs: int, file_runs: int) -> Iterator[str]:
    yield from ("| runs | as planted | said otherwise |", "|---|---|---|")
    yield counted(f"12 causes × {runs}", causes(runs))
    for every in (1, 10):
        yield counted(f"the same, a size that does nothing every {every}", causes(runs, every))
    yield counted(f"image size, 8 × {runs}", sizes(runs))
    for name, seen in VIEWS.items():
        yield counted(f"clean, {name}", clean(clean_runs, seen))
    with patch.object(planted, "EPOCHS", 300):
        yield counted("clean, 300 epochs, by epochs", clean(clean_runs, test_verdicts.by_epochs))
    for noise in NOISES:
        yield counted(f"clean, epochs with {noise:.0%} noise", noisy_epochs(noise, runs // 2))
    for write in written.FORMATS:
        yield counted(f"files, {write.__name__}", from_files(file_runs, write, True))
        yield counted("… causes it hardly holds", from_files(file_runs, write, False))
    for name, (expected, plant) in WEAK.items():
        yield counted(name, ((expected, plant(rng)) for _, rng in generators(WEAK_RUNS)))
    with patch.object(planted, "EPOCHS", 10):
        short = ((form, flat) for form in ("line", "bend") for flat in (False, True))
        made = (planted.image_sizes(rng, form, 10, flat) for form, flat in short for _, rng in generators(runs // 2))
        yield counted("image size, 500 batches", (("image size", history) for history in made))
        plant = planted.lr_too_high_throughout
        yield counted(
            "learning rate, constant, 500 batches", (("learning rate", plant(rng)) for _, rng in generators(runs))
        )
        varied = (test_verdicts.with_sizes(plant(rng), seed) for seed, rng in generators(runs))
        yield counted("… and a size every ten", (("learning rate", history) for history in varied))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--clean", type=int, default=500)
    parser.add_argument("--files", type=int, default=20)
    args = parser.parse_args()
    for line in table(args.runs, args.clean, args.files):
        print(line, flush=True)


if __name__ == "__main__":
    main()
