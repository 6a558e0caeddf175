"""The one exception for mistakes in what a user gave us.

Every boundary (files, flags, Python arguments) raises `UserError` with what is wrong, where, and the fix; the command
line turns it into one message and exit code 2. Anything else that escapes is a defect of ours and keeps its traceback.
"""

import difflib
import reprlib
from collections.abc import Iterable
from pathlib import Path

_SURELY_A_SLIP = 0.75
"""Of `difflib`'s ratio: below, half of a short word may be different."""
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80
_short.maxlist = _short.maxtuple = 8
_short.maxlevel = 3


class UserError(ValueError):
    """Bad input: `what` is wrong, `where` (file, and line when known), and the `fix`."""

    def __init__(
        self, what: str, *, where: str | Path | None = None, line: int | None = None, fix: str | None = None
    ) -> None:
        super().__init__()
        self.where, self.line = None if where is None else str(where), line
        self.say(what, fix)

    def say(self, what: str, fix: str | None) -> None:
        """In these words; the place stays."""
        self.what, self.fix = what, fix
        place = "" if self.where is None else f"{self.where}: " if self.line is None else f"{self.where}:{self.line}: "
        self.args = (place + what + ("" if fix is None else f"\n  fix: {fix}"),)


class LostDeviceError(UserError):
    """A GPU that answers nothing any more in this process, which cannot even free its memory there."""


def shorten(value: object) -> str:
    """A value as it appears in a message: bounded in length however large or nested it is."""
    try:
        return _short.repr(value)
    except ValueError:  # an integer with more digits than Python is willing to print
        return "a number of thousands of digits"


def in_one_line(error: Exception) -> str:
    """What somebody else's error says, without its details."""
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first[:200]}" if first else type(error).__name__


def nearest(word: str, known: Iterable[str], folder: Path | None = None) -> str:
    """', did you mean 'x'?' for the closest known word, or '' when nothing is close. `folder` goes before the word."""
    close = difflib.get_close_matches(word, list(known))
    meant = next((one for one in close if _is_slip(word, one)), None)
    return "" if meant is None else f", did you mean {meant if folder is None else str(folder / meant)!r}?"


def nearest_file(path: str | Path) -> str:
    """As `nearest`, among the neighbours of a file that does not exist: a path, to be typed as it is."""
    folder = Path(path).parent
    try:
        others = [other.name for other in folder.iterdir() if other.name != Path(path).name]  # which may be a pipe
        return nearest(Path(path).name, others, folder)
    except (OSError, ValueError):  # no such folder either, or a name that no file can have
        return ""


def _is_slip(word: str, meant: str) -> bool:
    """Letters in another order, a word that was cut short, or one that is otherwise nearly right."""
    if sorted(word) == sorted(meant) or meant.startswith(word):
        return True
    return difflib.SequenceMatcher(None, meant, word).ratio() >= _SURELY_A_SLIP
