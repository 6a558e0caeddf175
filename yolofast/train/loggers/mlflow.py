"""MLflow: where `MLFLOW_TRACKING_URI` says; `MLFLOW_EXPERIMENT_NAME` is the experiment, else the project's folder.

The client is used rather than `mlflow.log_…`, whose run belongs to a thread and would get in the way of the caller's.
"""

import os
import re
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from yolofast.runs.layout import FILES
from yolofast.train.loggers.logger import LoggedRun, LoggerRequest, id_of_resumed, keep_id

_AT_ONCE = 100  # MLflow's limit of settings per request
_LONGEST_VALUE = 500
_NOT_IN_NAMES = re.compile(r"\(B\)|[^\w\-./ ]")


class MlflowLogger:
    title = "MLflow"

    def __init__(self) -> None:
        self._mlflow: Any = None
        self._client: Any = None
        self._id = ""
        self._run: LoggedRun | None = None

    def start(self, run: LoggedRun) -> str | None:
        self._mlflow = import_module("mlflow")
        self._client, self._run = self._mlflow.MlflowClient(), run
        known = os.environ.get("MLFLOW_RUN_ID") or id_of_resumed(run, "mlflow")
        self._id = (known and self._reopened(known)) or self._new(run)
        keep_id(run, "mlflow", self._id)
        self._log_settings(run.settings)
        return f"run {self._id}"

    def scalars(self, epoch: int, values: dict[str, float]) -> None:
        now, metric = int(time.time() * 1000), self._mlflow.entities.Metric
        metrics = [metric(_NOT_IN_NAMES.sub("", name), value, now, epoch) for name, value in values.items()]
        self._client.log_batch(self._id, metrics=metrics)

    def picture(self, epoch: int, path: Path) -> None:
        self._client.log_artifact(self._id, str(path), "predictions")

    def finish(self, complete: bool) -> None:
        assert self._run is not None
        if complete:
            for path in self._run.files():
                self._client.log_artifact(self._id, str(path))
            if (best := self._run.folder / FILES.weights / FILES.best).exists():
                self._client.log_artifact(self._id, str(best), FILES.weights)
        self._client.set_terminated(self._id, "FINISHED" if complete else "KILLED")

    def _new(self, run: LoggedRun) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or run.project
        experiment = self._client.get_experiment_by_name(name)
        experiment_id = experiment.experiment_id if experiment else self._client.create_experiment(name)
        return str(self._client.create_run(experiment_id, run_name=run.name).info.run_id)

    def _reopened(self, identity: str) -> str | None:
        try:
            self._client.update_run(identity, status="RUNNING")
        except self._mlflow.exceptions.MlflowException:  # of another server
            return None
        return identity

    def _log_settings(self, settings: dict[str, Any]) -> None:
        """Once: MLflow refuses to change them, and a resumed run may have more epochs."""
        if self._client.get_run(self._id).data.params:
            return
        param = self._mlflow.entities.Param
        params = [param(name, str(value)[:_LONGEST_VALUE]) for name, value in settings.items()]
        for start in range(0, len(params), _AT_ONCE):
            self._client.log_batch(self._id, params=params[start : start + _AT_ONCE])


def mlflow_of(request: LoggerRequest) -> MlflowLogger:
    return MlflowLogger()
