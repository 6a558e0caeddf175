"""A run that continues from the state of another one with other hyper-parameters, in a folder of its own.

What has been learnt, and the rows of its epochs, are those of the run it comes from; a resumed run does not know the
difference. The rates of its schedule follow from the new values, from the next epoch on.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yolofast.checkpoint.save import save_checkpoint
from yolofast.config.flags import from_settings
from yolofast.config.resumed import plain_values, to_yaml
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError
from yolofast.files.atomic_file import name_beside, write_whole
from yolofast.files.yaml_file import dump_yaml
from yolofast.runs.layout import FILES
from yolofast.train.checkpoints import OF_A_DETECTOR, read_state

_HISTORY = (FILES.results, FILES.batches, FILES.images, FILES.environment, FILES.plan)


def fork(source: Path, target: Path, changes: Mapping[str, Any], recipe_values: tuple[str, ...], epochs: int) -> None:
    """`changes` are hyper-parameters, `recipe_values` the words of `--set` that say them. The folder appears whole.

    Raises `UserError` if `source` has not paused after exactly `epochs`.
    """
    state, _ = read_state(source / FILES.weights / FILES.last, OF_A_DETECTOR)
    if state["next_epoch"] != epochs:
        what = f"it has {state['next_epoch']} epochs, not the {epochs} after which it was to be copied"
        raise UserError(what, where=source, fix="continue runs of a sweep by the sweep alone")
    stored = {**state["config"], "name": target.name, "project": str(target.parent), "recipe_values": recipe_values}
    config, hyp = from_settings(TrainConfig, stored), {**state["hyp"], **changes}
    unfinished = name_beside(target)
    (unfinished / FILES.weights).mkdir(parents=True)
    try:
        save_checkpoint(unfinished / FILES.weights / FILES.last, {**state, "config": plain_values(config), "hyp": hyp})
        for name in (*_HISTORY, f"{FILES.weights}/{FILES.best}"):
            if (source / name).is_file():
                shutil.copyfile(source / name, unfinished / name)
        to_yaml(config, unfinished / FILES.settings)
        write_whole(unfinished / FILES.hyp, dump_yaml(hyp).encode())
        shutil.rmtree(target, ignore_errors=True)  # of a sweep that was killed before it knew of this one
        unfinished.rename(target)
    except OSError as error:
        what = f"the run could not be copied: {error.strerror or error}"
        raise UserError(what, where=target, fix="make room, and check the permissions") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
