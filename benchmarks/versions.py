"""Two versions of the package measured in turn on one machine, in the same environment: this one, and that of a commit.

Clocks, temperature and other work drift. So rounds alternate, and every other round begins with the other version.
"""

import os
import statistics
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

Measured = TypeVar("Measured")
ROOT = Path(__file__).parents[1]
THIS = "this"


def versions(against: str, folder: Path) -> dict[str, Path]:
    """By name: where each version's code is. `folder` is to hold that of a commit, if one is named."""
    return {THIS: ROOT, against: checked_out(against, folder)} if against else {THIS: ROOT}


def checked_out(commit: str, folder: Path) -> Path:
    """Its package, beside the benchmarks of this version: both versions are measured by the same program.

    `commit` may also be a folder that has a package, where there is no repository.
    """
    folder.mkdir()
    package = Path(commit).resolve() / "yolofast"
    if package.is_dir():
        (folder / "yolofast").symlink_to(package)
    else:
        command = ["git", "archive", commit, "yolofast"]
        archive = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE)
        if archive.returncode:
            raise SystemExit(f"--against {commit}: this repository has no such commit with a package in it")
        subprocess.run(["tar", "x", "-C", str(folder)], input=archive.stdout, check=True)
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    return folder


def environment_of(code: Path) -> dict[str, str]:
    """For a process in the folder `code`, that imports the package from there."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(code), os.environ.get("PYTHONPATH", "")])}


def in_turn(names: Sequence[str], rounds: int, measure: Callable[[str], Measured]) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names[:: -1 if number % 2 else 1]:
            found[name].append(measure(name))
    return found


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median, and the smallest and largest beside it."""
    if not values:
        return "failed"
    middle, least, most = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({least} to {most})"
