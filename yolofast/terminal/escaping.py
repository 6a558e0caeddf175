"""Text that comes from files is shown on a terminal and never steers it.

Names of classes, files and runs may hold escape sequences, which clear the screen, change its title or hide what was
said. Control characters are shown escaped (`\\x1b[2J`), and so are marks that turn text around. Other Unicode stays.
This is for what `print` writes while a command runs; `SafeConsole` is for what Rich is given.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def shown_escaped(text: str) -> str:
    """Ends of lines and tabs stay."""
    return STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class _Escaping:
    """Rich looks for an attribute of that name and writes to that stream itself, with its colours."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        self.rich_proxied_file.write(shown_escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def escaped_output() -> Iterator[None]:
    """While a command runs. A stream that the shell has closed stays so."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and cast(TextIO, _Escaping(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class SafeConsole(Console):
    """Of Rich: its text cannot steer the terminal, its own colours and movements can."""

    @property
    def file(self) -> IO[str]:
        """The stream behind `escaped_output`, also while a live display has put a stream of its own before that."""
        found: IO[str] = super().file
        return getattr(found, "rich_proxied_file", found)

    @file.setter
    def file(self, stream: IO[str]) -> None:
        self._file = stream

    def render_str(self, text: str, **how: Any) -> Text:
        """Before it is measured, so that columns fit."""
        return super().render_str(shown_escaped(text), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """What is not made from a `str` too."""
        for segment in super().render(renderable, options):
            if segment.control or not STEERING.search(segment.text):
                yield segment
            else:
                yield Segment(shown_escaped(segment.text), segment.style)
