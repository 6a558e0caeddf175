"""The calls of SkyPilot's program `sky`, and of those that copy. `PROJECT/NAME.cloud.json` keeps what was launched.

With a bucket the task is a managed job: SkyPilot replaces a machine that was taken away. Without one it is a machine of
its own, which stops ten minutes after the run where the provider can do that.
"""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from yolofast.cloud.task import RUNS, Task
from yolofast.config.reports import PROVIDERS, CloudUpConfig
from yolofast.errors import UserError, nearest
from yolofast.files.atomic_file import write_whole
from yolofast.files.yaml_file import dump_yaml

_SUFFIX = ".cloud.json"
_IDLE_MINUTES = 10
_INSTALL = {
    "sky": "install SkyPilot: pip install 'skypilot[vast]>=0.14', best in an environment of its own; then `sky check`",
    "rsync": "install rsync",
    "aws": "install the AWS CLI",
    "gcloud": "install the Google Cloud CLI",
}


class Launched(NamedTuple):
    name: str
    provider: str
    bucket: str
    """Empty: its runs are on the machine."""


def launch(task: Task, config: CloudUpConfig, project: Path) -> Path:
    """The record of it; nothing is kept of what SkyPilot has refused."""
    record = project / f"{task.name}{_SUFFIX}"
    file = project / f"{task.name}.sky.yaml"
    if record.exists():
        fix = f"--name another, or end that one: yolofast cloud stop {task.name}"
        raise UserError(f"{task.name} has been launched already", where=record, fix=fix)
    _require("sky")
    project.mkdir(parents=True, exist_ok=True)
    write_whole(file, task_yaml(task).encode())
    if task.bucket:
        words = ["sky", "jobs", "launch", "--yes", "--detach-run", "--name", task.name, str(file)]
    else:
        words = ["sky", "launch", "--yes", "--detach-run", "--cluster", task.name]
        words += ["--idle-minutes-to-autostop", str(_IDLE_MINUTES)] * PROVIDERS[config.provider].stops + [str(file)]
    _run(words, "`sky check` says which accounts SkyPilot knows; nothing is kept of this launch")
    write_whole(record, json.dumps(Launched(task.name, config.provider, task.bucket)._asdict()).encode() + b"\n")
    return record


def task_yaml(task: Task) -> str:
    return dump_yaml(task.values)


def pull(name: str, project: Path) -> Path:
    """The folder of the run or sweep here."""
    launched, target = launched_as(name, project), project / name
    target.mkdir(parents=True, exist_ok=True)
    if not launched.bucket:
        words = ["rsync", "--archive", "--compress", f"{name}:{RUNS}/{name}/", f"{target}/"]
    else:
        source = f"{launched.bucket.rstrip('/')}/{name}"
        of_google = ["gcloud", "storage", "rsync", "--recursive", source, str(target)]
        words = ["aws", "s3", "sync", source, str(target)] if source.startswith("s3:") else of_google
    _require(words[0])
    _run(words, "look at the machine: sky status, sky logs " + name)
    return target


def stop(name: str, project: Path, *, keep: bool, with_runs: bool) -> Path | None:
    """Copies the runs first: a machine that is given back has none. Returns their folder, if it was asked for."""
    launched = launched_as(name, project)
    _require("sky")
    if keep and (launched.bucket or not PROVIDERS[launched.provider].stops):
        why = f"SkyPilot cannot stop one at {launched.provider}"
        why = "a job has no machine of its own" if launched.bucket else why
        raise UserError(f"--keep: {why}", fix="leave it out: the machine is given back")
    if launched.bucket:  # its end reaches the bucket before the copy is made
        _run(["sky", "jobs", "cancel", "--yes", "--graceful", "--name", name], "see sky jobs queue")
    found = pull(name, project) if with_runs else None
    if not launched.bucket:
        _run(["sky", "stop" if keep else "down", "--yes", name], "the machine still costs money: see sky status")
    if not keep:
        (project / f"{name}{_SUFFIX}").unlink(missing_ok=True)
    return found


def cost(days: int) -> None:
    _require("sky")
    _run(["sky", "cost-report", "--days", str(days)], "`sky check` says which accounts SkyPilot knows")


def launched_as(name: str, project: Path) -> Launched:
    record = project / f"{name}{_SUFFIX}"
    known = [path.name.removesuffix(_SUFFIX) for path in project.glob(f"*{_SUFFIX}")]
    if name not in known:
        fix = f"name one of {', '.join(sorted(known))}" if known else "launch one: yolofast cloud up --data data.yaml"
        raise UserError(f"nothing was launched as {name}{nearest(name, known)}", where=project, fix=fix)
    try:
        values: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
        found = Launched(**{key: str(value) for key, value in values.items()})
        PROVIDERS[found.provider]
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        fix = "look for the machine with sky status, and end it with sky down"
        raise UserError("cannot be read", where=record, fix=fix) from error
    return found


def _require(program: str) -> None:
    if shutil.which(program) is None:
        raise UserError(f"{program} is not installed", fix=_INSTALL[program])


def _run(words: Sequence[str], fix: str) -> None:
    """Its output is shown."""
    code = subprocess.run(words, check=False).returncode
    if code:
        raise UserError(f"{' '.join(words[:3])} ended with {code}: it says why above", fix=fix)
