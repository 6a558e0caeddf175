"""`plan.yaml` of a run's folder: the plan as it was when the run began, so that the run can go on without the file.

It says of how many epochs its shares (`40%`) are: a run that gets more of them later keeps its phases where they were,
and the last one goes on. Going back to a phase that is over would freeze again what has been thawed.
"""

from pathlib import Path

from yolofast.config.plan_file import PlanSpec, read_plan
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.resources import find_resource
from yolofast.runs.layout import FILES
from yolofast.yaml_file import dump_yaml, read_yaml

PLAN_FILE = FILES.plan


def plan_text(config: TrainConfig) -> bytes:
    """Of a run with `--plan`. What `--freeze` and `--stage` say is among the settings."""
    values = read_yaml(find_resource(config.plan, "plan")).values
    return dump_yaml({"epochs": config.epochs, **values}).encode()


def kept_plan(config: TrainConfig, folder: Path) -> PlanSpec | None:
    """The plan of a run that goes on; None if it has none of its own. The file it came from may be gone by now."""
    path = folder / PLAN_FILE
    if not config.plan or not path.is_file():
        return None
    own = read_plan(path)
    given = _still_there(config.plan)
    if given is not None and given.written != own.written:
        fix = f"restore it (the run's folder has a copy, {PLAN_FILE}), or start a new run with --weights last.pt"
        raise UserError("the plan says something else than when the run was started", where=config.plan, fix=fix)
    return own


def _still_there(name: str) -> PlanSpec | None:
    try:
        find_resource(name, "plan")
    except UserError:
        return None
    return read_plan(name)
