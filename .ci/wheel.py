"""Installs the built wheel into an empty environment and uses it there, away from the repository.

    python .ci/wheel.py dist .venv/bin/python

Libraries are those of the environment named last, so that nothing is downloaded twice. `pip check` sees that it holds
what running needs; what else is there, of a developer's tools, is not asked.
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMANDS = (
    "--version",
    "info --cfg yolov7-custom",
    "dataset shapes --out shapes --n 16",
    "check --data shapes",
    "train --data shapes --cfg mini --img 64 --batch-size 4 --epochs 1 --max-steps 2 --workers 0 --device cpu",
    "predict --source shapes/images/val --conf 0.01",
    "report runs/train/exp",
)
"""A network, a data set, pages: each needs files that are not Python."""


def run(*words: "str | Path", **how: object) -> str:
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **how)  # type: ignore
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}\n{done.stdout}")
    return str(done.stdout)


def missing_files(wheel: Path) -> list[str]:
    """What the repository has in the package and the wheel has not."""
    tracked = run("git", "ls-files", "yolofast", cwd=ROOT).split()
    return sorted(set(tracked) - set(zipfile.ZipFile(wheel).namelist()))


def unmet(report: str) -> list[str]:
    """The lines of `pip check` that are of yolofast, or of what it needs to run."""
    names = re.findall(r"^([\w.-]+)==", (ROOT / "requirements" / "run.txt").read_text("utf-8"), re.MULTILINE)
    needed = {"yolofast", "torch", *map(_normal, names)}
    return [line for line in report.splitlines() if _normal(line.split(" ")[0]) in needed]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(dist: str, python: str) -> None:
    (wheel,) = Path(dist).glob("*.whl")
    if missing := missing_files(wheel):
        sys.exit(f"{wheel.name} lacks {', '.join(missing)}; see package-data in pyproject.toml")
    report = subprocess.run([python, "-m", "pip", "check"], capture_output=True, text=True).stdout
    if lines := unmet(report):
        sys.exit("\n".join(lines))
    libraries = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", f"{folder}/clean")
        run(f"{folder}/clean/bin/python", "-m", "pip", "install", "--quiet", "--no-deps", wheel)
        # An editable install is a .pth file, which counts in an environment's own folder only: not on this path.
        there = {"cwd": folder, "env": {**os.environ, "PYTHONPATH": libraries, "YOLOFAST_CACHE": f"{folder}/cache"}}
        where = run(f"{folder}/clean/bin/python", "-c", "import yolofast; print(yolofast.__file__)", **there)
        if not where.startswith(f"{folder}/clean/"):
            sys.exit(f"not the wheel was imported but {where}")
        for command in COMMANDS:
            run(f"{folder}/clean/bin/yolofast", *command.split(), **there)
    print(f"{wheel.name}: {len(COMMANDS)} commands work in an environment of its own")


if __name__ == "__main__":
    main(*sys.argv[1:])
