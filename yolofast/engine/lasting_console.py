"""A console that outlives its readers: hours of a GPU are not thrown away because a `tee` or `head` has ended.

Commands that only print end with their reader, which is what Rich does. A run is wanted for what it writes to its
folder, so what it shows is dropped instead, and told once on standard error.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from rich.console import Console


class LastingConsole(Console):
    def __init__(self, on_lost: Callable[[str], None]) -> None:
        """`on_lost` hears what is wrong with standard output, once."""
        super().__init__(soft_wrap=True, highlight=False)
        self._on_lost = on_lost

    def on_broken_pipe(self) -> None:
        """Rich would end the program."""
        self._go_on_without("was closed")

    def _check_buffer(self) -> None:
        """Where Rich writes. A terminal that is gone and a log on a full disk are no broken pipes, and the first
        releases that we work with know none."""
        try:
            super()._check_buffer()
        except BrokenPipeError:
            self.on_broken_pipe()
        except OSError as error:
            self._go_on_without(f"cannot be written ({error.strerror or error})")

    def _go_on_without(self, why: str) -> None:
        self.quiet = True
        _write_to_nothing(self.file)  # also what others print, and what Python still holds when it ends
        self._on_lost(why)


def say_on_stderr(text: str) -> None:
    if sys.stderr is None:  # closed by the shell
        return
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:  # `2>&1 | tee`: both have lost the same reader
        _write_to_nothing(sys.stderr)


def _write_to_nothing(stream: IO[str]) -> None:
    with suppress(OSError):  # one that is no file, as in a notebook
        number = stream.fileno()
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, number)
        os.close(nothing)
