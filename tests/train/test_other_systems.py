"""A training where Windows' Python would do it: nothing that only POSIX has is there, and workers are spawned."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.train.small_run import flags
from yolofast.cli import main

ROOT = Path(__file__).parents[2]
# Spawned workers import this file too, so they lack the same.
PROGRAM = """
import signal

for name in ("pthread_sigmask", "SIGHUP", "SIGUSR1"):
    delattr(signal, name)

import importlib, multiprocessing, os, pkgutil, sys
import filelock, psutil, torch  # whose Linux versions need what those for other systems do not

for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty", "syslog"):
    sys.modules[name] = None
for name in (
    "O_NOFOLLOW", "O_CLOEXEC", "O_DIRECTORY", "fork", "getuid", "geteuid", "memfd_create", "pread", "pwrite",
    "posix_fallocate", "posix_fadvise", "register_at_fork", "sched_getaffinity", "mkfifo",
):
    delattr(os, name)

if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    import yolofast
    from yolofast.cli import main

    for found in pkgutil.walk_packages(yolofast.__path__, "yolofast."):
        if not found.name.endswith("_kernel"):  # Triton's, which other systems have not
            importlib.import_module(found.name)
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "elsewhere.py"
    path.write_text(PROGRAM)
    return path


def run(program, folder, *words):
    settings = os.environ | {"PYTHONPATH": str(ROOT), "YOLOFAST_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", program, *words]
    return subprocess.run(command, env=settings, cwd=folder, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_a_step_with_spawned_workers(program, tmp_path):
    words = [*flags(tmp_path, batch_size=4, cache="ram"), "--max-steps", "1", "--name"]
    done = run(program, tmp_path, "train", *words, "spawned", "--workers", "1", "--worker-tensor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "loader: batches are copied" in done.stdout
    assert main(["train", *words, "here"]) == 0
    assert losses(tmp_path, "spawned") == pytest.approx(losses(tmp_path, "here"), rel=1e-4)


def losses(folder, name):
    with (folder / "runs" / name / "results.csv").open() as file:
        (row,) = csv.DictReader(file)
    return [float(value) for key, value in row.items() if key.strip().startswith("train/")]
