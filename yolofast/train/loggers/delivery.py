"""The experiment loggers of a run: which ones it has, and threads that serve them.

TensorBoard is used if it is installed, the others if their variables or flags ask for them. Neither a slow server nor
one that fails can hold up or end a run: calls wait in a queue, so they reach a logger in order. The first failure is
reported once, and nothing more is sent.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from yolofast.errors import in_one_line
from yolofast.train.loggers.logger import ExperimentLogger, LoggedRun, LoggerRequest, Say, TensorBoardLogger
from yolofast.train.loggers.mlflow import mlflow_of
from yolofast.train.loggers.wandb import wandb_of


@dataclass(frozen=True, kw_only=True)
class LoggerEntry:
    """Which runs want a logger: those that set one of its variables or flags; without any, all."""

    make: Callable[[LoggerRequest], ExperimentLogger]
    package: str
    """What must be installed; the extra that brings it has the same name."""
    variables: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    """And the setting of each."""
    refused_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Variables, and the values by which they say no."""

    def is_wanted(self, request: LoggerRequest) -> bool:
        environment = request.environment
        if any(environment.get(name, "").lower() in values for name, values in self.refused_by.items()):
            return False
        given = [f"{flag} is given" for flag, name in self.flags.items() if getattr(request.config, name)]
        given += [f"{variable} is set" for variable in self.variables if environment.get(variable)]
        is_for_all = not (self.flags or self.variables)
        if not (given or is_for_all):
            return False
        if find_spec(self.package) is not None:
            return True
        how = f"pip install 'yolofast[{self.package}]'"
        if is_for_all:
            request.say(f"{self.package}: not installed, nothing is written for it; to get it: {how}")
        else:
            request.say(f"warning: {given[0]}, but {self.package} is not installed, so nothing goes there: {how}")
        return False


LOGGERS: dict[str, LoggerEntry] = {
    "tensorboard": LoggerEntry(make=lambda request: TensorBoardLogger(), package="tensorboard"),
    "mlflow": LoggerEntry(make=mlflow_of, package="mlflow", variables=("MLFLOW_TRACKING_URI",)),
    # A key in the environment is no request: figures leave the machine only when somebody said so.
    "wandb": LoggerEntry(
        make=wandb_of,
        package="wandb",
        variables=("WANDB_PROJECT", "WANDB_ENTITY", "WANDB_RUN_ID", "WANDB_MODE"),
        flags={"--entity": "entity", "--upload_dataset": "upload_dataset"},
        refused_by={"WANDB_MODE": ("disabled",), "WANDB_DISABLED": ("true", "1")},
    ),
}


def choose_loggers(request: LoggerRequest) -> list[ExperimentLogger]:
    return [entry.make(request) for entry in LOGGERS.values() if entry.is_wanted(request)]


Call = Callable[[ExperimentLogger], None]
_PATIENCE = 120.0
"""Seconds that the end of a run waits for a logger: weights may be on their way."""
_PATIENCE_WITH_THE_SILENT = 10.0
"""For one that has not even answered yet."""


class LoggerDelivery:
    """The loggers of a run; none of its methods waits, except `close`."""

    def __init__(self, loggers: Sequence[ExperimentLogger], run: LoggedRun, say: Say) -> None:
        self._say = say
        self._deliveries = [_Delivery(logger, say) for logger in loggers]
        self._send(lambda logger: self._start(logger, run))

    def epoch(self, row: dict[str, Any]) -> None:
        values = {name: float(value) for name, value in row.items() if name != "epoch" and value is not None}
        self._send(lambda logger: logger.scalars(row["epoch"], values))

    def picture(self, epoch: int, path: Path) -> None:
        self._send(lambda logger: logger.picture(epoch, path))

    def close(self, complete: bool, patience: float = _PATIENCE) -> None:
        """May be called again; only the first call counts."""
        self._send(lambda logger: logger.finish(complete))
        for delivery in self._deliveries:
            delivery.close(patience)
        self._deliveries = []

    def _start(self, logger: ExperimentLogger, run: LoggedRun) -> None:
        if where := logger.start(run):
            self._say(f"{logger.title}: {where}")

    def _send(self, call: Call) -> None:
        for delivery in self._deliveries:
            delivery.calls.put(call)


class _Delivery:
    def __init__(self, logger: ExperimentLogger, say: Say) -> None:
        self._logger, self._say, self._answers = logger, say, False
        self.calls: SimpleQueue[Call | None] = SimpleQueue()
        # A daemon, so that a server that never answers cannot keep the process alive.
        self._thread = threading.Thread(target=self._work, name=f"yolofast-{logger.title}", daemon=True)
        self._thread.start()

    def close(self, patience: float) -> None:
        self.calls.put(None)
        self._thread.join(min(patience, _PATIENCE_WITH_THE_SILENT))
        if self._answers:
            self._thread.join(max(patience - _PATIENCE_WITH_THE_SILENT, 0.0))
        if self._thread.is_alive():
            self._say(f"warning: {self._logger.title} takes too long, not everything has arrived; yolofast continues")

    def _work(self) -> None:
        while (call := self.calls.get()) is not None:
            try:
                call(self._logger)
                self._answers = True
            except Exception as error:  # noqa: BLE001 - whatever it is, the run is worth more
                self._say(f"warning: {self._logger.title} failed, nothing more is sent to it: {in_one_line(error)}")
                return
