"""The ranks after the first: they train and evaluate their parts, and leave talking and writing to it."""

from pathlib import Path
from typing import Any

from rich.console import Console

from yolofast.engine.checkpoints import Checkpoints
from yolofast.engine.display import Display
from yolofast.engine.record import Recorder


def quiet_display(epochs: int) -> Display:
    return Display(epochs, Console(quiet=True))


class NoCheckpoints(Checkpoints):
    """Those of the first rank are everybody's."""

    def __init__(self) -> None:
        pass

    def has(self, name: str) -> bool:
        return True

    def save(self, content: dict[str, Any], *names: str) -> None:
        pass

    def finish(self) -> None:
        pass


class NoRecorder(Recorder):
    def __init__(self) -> None:
        super().__init__(Path())

    def epoch(self, row: dict[str, Any]) -> None:
        pass
