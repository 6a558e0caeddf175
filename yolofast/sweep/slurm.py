"""Trials as jobs of a Slurm cluster, by submitit: each process of a trial is a job of its own.

A job that comes to its time limit, or is preempted, is told so before: its trial stops with its state, and the queue
hands in another job that continues it.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from yolofast.config.yolox_recipe import typed_values
from yolofast.errors import UserError, in_one_line
from yolofast.sweep.places import FROM_HERE, LOST, Place, Slot

_USUAL = {"timeout_min": 240, "gpus_per_node": 1, "cpus_per_task": 8}
_TOLD = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""How Slurm and submitit say that a job will end. Windows has the first alone."""


@contextmanager
def slurm_jobs(given: Sequence[str], at_once: int, folder: Path) -> Iterator[Place]:
    """`given` are submitit's parameters, `cluster` among them: slurm, or local to try it on this machine."""
    submitit = _submitit()
    settings = {**_USUAL, "name": folder.name, **typed_values(given, {}, "timeout_min=240 slurm_partition=gpu")}
    cluster = str(settings.pop("cluster", "slurm"))
    if cluster not in ("slurm", "local") or (cluster == "slurm" and shutil.which("sbatch") is None):
        what = f"--slurm: there is no {'program sbatch here' if cluster == 'slurm' else f'cluster {cluster}'}"
        raise UserError(what, fix="cluster=local tries it on this machine")
    executor = submitit.AutoExecutor(folder=folder / "jobs", cluster=cluster)
    try:
        executor.update_parameters(**settings)
    except (NameError, TypeError, ValueError, AssertionError) as error:
        fix = "docs/sweep.md names some; those of Slurm alone begin with slurm_"
        raise UserError(f"--slurm: {in_one_line(error)}", fix=fix) from None
    device = "0" if settings["gpus_per_node"] else "cpu"
    slots = [Slot(device, number) for number in range(at_once)]
    yield Place(slots, partial(_Job, executor, submitit), f"Slurm ({cluster})")


def _submitit() -> Any:
    try:
        import submitit
    except ImportError:
        fix = "pip install 'yolofast[slurm]', here and in the environment of the jobs"
        raise UserError("--slurm needs submitit, which is not installed", fix=fix) from None
    return submitit


def run_there(words: list[str], log: str, folder: str, more: dict[str, str]) -> int:
    """In the job: one process, which is told what the job is told."""
    with open(log, "ab") as file:
        process = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, cwd=folder,
            env={**os.environ, **more}, start_new_session=True,
        )  # fmt: skip

    def stop(number: int, frame: object) -> None:
        process.send_signal(signal.SIGTERM)

    for number in _TOLD:
        signal.signal(number, stop)
    return process.wait()


class _Job:
    """As `subprocess.Popen`, of a process that is a job."""

    def __init__(
        self, executor: Any, submitit: Any, words: list[str], *, stdout: Any, env: dict[str, str], **_: Any
    ) -> None:
        self._submitit, self._log = submitit, os.path.abspath(stdout.name)
        more = {name: env[name] for name in FROM_HERE if name in env}
        self._code: int | None = None
        self._job = executor.submit(run_there, words[1:], self._log, os.getcwd(), more)

    @property
    def returncode(self) -> int | None:
        return self._code

    def poll(self) -> int | None:
        if self._code is None and self._job.done():
            self.wait()
        return self._code

    def wait(self) -> int:
        if self._code is None:
            try:
                self._code = int(self._job.result())
            except (RuntimeError, OSError, EOFError) as error:  # it has gone: no result, or half of one
                self._code = LOST
                with open(self._log, "a", encoding="utf-8") as file:
                    file.write(f"{in_one_line(error)}\n")
        return self._code

    def send_signal(self, number: int) -> None:
        """A job that waits is taken back; one that runs is told."""
        if isinstance(self._job, self._submitit.LocalJob):
            os.kill(int(self._job.job_id), number)
        elif self._job.state == "PENDING":
            self._job.cancel()
        else:
            subprocess.run(["scancel", "--signal", str(number), self._job.job_id], check=False)
