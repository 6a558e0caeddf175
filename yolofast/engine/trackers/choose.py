"""Which trackers a run has: TensorBoard if it is installed, the others if their variables or flags ask for them.

A key in the environment asks for nothing: figures leave the machine only when somebody said so.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from yolofast.config.train import TrainConfig
from yolofast.dataset.listing import label_path
from yolofast.engine.trackers.mlflow import MlflowTracker
from yolofast.engine.trackers.tensorboard import TensorBoardTracker
from yolofast.engine.trackers.tracker import DatasetUpload, Tracker
from yolofast.engine.trackers.wandb import WandbTracker
from yolofast.image_index import ImageIndex

Say = Callable[[str], None]
_WANDB_VARIABLES = ("WANDB_PROJECT", "WANDB_ENTITY", "WANDB_RUN_ID", "WANDB_MODE")


def choose_trackers(
    config: TrainConfig, splits: Sequence[ImageIndex], environment: Mapping[str, str], say: Say
) -> list[Tracker]:
    """`splits` are what `--upload_dataset` uploads."""
    trackers: list[Tracker] = []
    if find_spec("tensorboard") is not None:
        trackers.append(TensorBoardTracker())
    if environment.get("MLFLOW_TRACKING_URI") and _installed("mlflow", "MLFLOW_TRACKING_URI is set", say):
        trackers.append(MlflowTracker())
    reason = _reason_for_wandb(config, environment)
    if reason and _installed("wandb", reason, say):
        upload = dataset_upload(config, splits) if config.upload_dataset else None
        trackers.append(WandbTracker(config.entity, upload))
    return trackers


def dataset_upload(config: TrainConfig, splits: Sequence[ImageIndex]) -> DatasetUpload:
    """Every image and its labels: text files beside the images, or the annotation file of the split."""
    files: dict[Path, None] = {}  # in order, each once
    for index in splits:
        for image in map(index.path, range(len(index))):
            files[image] = None
            if index.annotations is None:
                files[Path(label_path(str(image)))] = None
        if index.annotations is not None:
            files[index.annotations] = None
    name = Path(config.data).stem or "data"
    return DatasetUpload(name=name, alias=config.artifact_alias, files=[path for path in files if path.is_file()])


def _reason_for_wandb(config: TrainConfig, environment: Mapping[str, str]) -> str | None:
    if environment.get("WANDB_MODE") == "disabled" or environment.get("WANDB_DISABLED", "").lower() in ("true", "1"):
        return None
    flags = {"--entity": config.entity, "--upload_dataset": config.upload_dataset}
    given = [f"{flag} is given" for flag, value in flags.items() if value]
    given += [f"{variable} is set" for variable in _WANDB_VARIABLES if environment.get(variable)]
    return given[0] if given else None


def _installed(package: str, reason: str, say: Say) -> bool:
    if find_spec(package) is not None:
        return True
    say(f"warning: {reason}, but {package} is not installed, so nothing goes there: pip install 'yolofast[{package}]'")
    return False
