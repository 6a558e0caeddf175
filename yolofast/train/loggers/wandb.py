"""Weights & Biases: project, mode and place as its own variables say (`WANDB_PROJECT`, `WANDB_MODE`, `WANDB_DIR`)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from yolofast.config.train import TrainConfig
from yolofast.dataset.data_yaml import label_path
from yolofast.image_index import ImageIndex
from yolofast.runs.layout import FILES
from yolofast.train.loggers.logger import LoggedRun, LoggerRequest, id_of_resumed, keep_id


@dataclass(frozen=True, kw_only=True)
class DatasetUpload:
    """The files of a data set, if they are to be uploaded, and the name their version gets."""

    name: str
    alias: str
    files: list[Path] = field(default_factory=list)


class WandbLogger:
    title = "Weights & Biases"

    def __init__(self, entity: str | None = None, dataset: DatasetUpload | None = None) -> None:
        self._entity, self._dataset = entity, dataset
        self._wandb: Any = None
        self._record: Any = None
        self._run: LoggedRun | None = None

    def start(self, run: LoggedRun) -> str | None:
        self._wandb, self._run = import_module("wandb"), run
        self._record = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT") or run.project,
            entity=self._entity,
            name=os.environ.get("WANDB_NAME") or run.name,
            config=run.settings,
            id=os.environ.get("WANDB_RUN_ID") or id_of_resumed(run, "wandb"),
            resume="allow",
            dir=os.environ.get("WANDB_DIR") or str(run.folder),
            settings=self._wandb.Settings(silent=True, console="off"),
        )
        # Steps of its own may not go back, as those of a resumed run do.
        self._record.define_metric("epoch")
        self._record.define_metric("*", step_metric="epoch")
        keep_id(run, "wandb", self._record.id)
        if self._dataset is not None and not run.next_epoch:
            self._upload(self._dataset)
        return str(self._record.dir if self._record.offline else self._record.url)

    def scalars(self, epoch: int, values: dict[str, float]) -> None:
        self._record.log({"epoch": epoch, **values})

    def picture(self, epoch: int, path: Path) -> None:
        self._record.log({"epoch": epoch, "predictions": self._wandb.Image(str(path))})

    def finish(self, complete: bool) -> None:
        assert self._run is not None
        if complete:
            pictures = [path for path in self._run.files() if path.suffix in (".png", ".jpg")]
            self._record.log({path.stem: self._wandb.Image(str(path)) for path in pictures})
            if (best := self._run.folder / FILES.weights / FILES.best).exists():
                model = self._wandb.Artifact(f"run_{self._record.id}_model", type="model")
                model.add_file(str(best))
                self._record.log_artifact(model, aliases=["latest", "best"])
        self._record.finish(exit_code=0 if complete else 1)

    def _upload(self, dataset: DatasetUpload) -> None:
        artifact = self._wandb.Artifact(dataset.name, type="dataset")
        root = os.path.commonpath([path.parent for path in dataset.files])
        for path in dataset.files:
            artifact.add_file(str(path), name=path.relative_to(root).as_posix())
        self._record.log_artifact(artifact, aliases=[dataset.alias])


def wandb_of(request: LoggerRequest) -> WandbLogger:
    config = request.config
    return WandbLogger(config.entity, dataset_upload(config, request.splits) if config.upload_dataset else None)


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
