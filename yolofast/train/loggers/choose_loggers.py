"""Which trackers a run has: TensorBoard if it is installed, the others if their variables or flags ask for them.

A key in the environment asks for nothing: figures leave the machine only when somebody said so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from yolofast.config.train import TrainConfig
from yolofast.dataset.listing import label_path
from yolofast.image_index import ImageIndex
from yolofast.train.loggers.logger import DatasetUpload, ExperimentLogger
from yolofast.train.loggers.mlflow import MlflowLogger
from yolofast.train.loggers.tensorboard import TensorBoardLogger
from yolofast.train.loggers.wandb import WandbLogger

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class LoggerRequest:
    """By which a logger knows whether a run wants it."""

    config: TrainConfig
    splits: Sequence[ImageIndex]
    """What `--upload_dataset` uploads."""
    environment: Mapping[str, str]
    say: Say


_WANDB_VARIABLES = ("WANDB_PROJECT", "WANDB_ENTITY", "WANDB_RUN_ID", "WANDB_MODE")


def choose_loggers(
    config: TrainConfig, splits: Sequence[ImageIndex], environment: Mapping[str, str], say: Say
) -> list[ExperimentLogger]:
    """`splits` are what `--upload_dataset` uploads."""
    asked = LoggerRequest(config=config, splits=splits, environment=environment, say=say)
    return [tracker for wanted in LOGGERS.values() if (tracker := wanted(asked)) is not None]


def _tensorboard(asked: LoggerRequest) -> ExperimentLogger | None:
    return TensorBoardLogger() if find_spec("tensorboard") is not None else None


def _mlflow(asked: LoggerRequest) -> ExperimentLogger | None:
    wanted = asked.environment.get("MLFLOW_TRACKING_URI")
    return MlflowLogger() if wanted and _installed("mlflow", "MLFLOW_TRACKING_URI is set", asked.say) else None


def _wandb(asked: LoggerRequest) -> ExperimentLogger | None:
    config, reason = asked.config, _reason_for_wandb(asked.config, asked.environment)
    if reason is None or not _installed("wandb", reason, asked.say):
        return None
    upload = dataset_upload(config, asked.splits) if config.upload_dataset else None
    return WandbLogger(config.entity, upload)


LOGGERS: dict[str, Callable[[LoggerRequest], ExperimentLogger | None]] = {
    "tensorboard": _tensorboard,
    "mlflow": _mlflow,
    "wandb": _wandb,
}
"""Each gives None if the run does not ask for it."""


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
