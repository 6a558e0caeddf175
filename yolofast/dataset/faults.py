"""What can be wrong with a data set, as values: collected in full, then listed, counted, refused or skipped.

Readers append faults instead of raising at the first one, so that a user corrects a data set in one round. A fatal
fault makes its image unusable; the others are warnings, and training continues.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from yolofast.errors import UserError
from yolofast.words import own_command

_SHOWN_IN_A_REFUSAL = 5


class FaultKind(StrEnum):
    MISSING_IMAGE = "missing image"
    NOT_AN_IMAGE = "not an image"
    UNSUPPORTED = "unsupported image format"
    EMPTY_FILE = "empty file"
    TRUNCATED = "truncated image"
    UNREADABLE = "unreadable image"
    TOO_SMALL = "image too small"
    ROTATED = "rotated by EXIF"
    UNREADABLE_LABEL = "unreadable label file"
    COLUMNS = "wrong columns"
    NOT_A_NUMBER = "not a number"
    OUT_OF_RANGE = "outside the image"
    UNKNOWN_CLASS = "unknown class"
    DUPLICATE_ROW = "duplicate row"
    TINY_BOX = "box under 2 pixels"
    NO_LABEL = "image without label"
    NO_IMAGE = "label without image"
    NOT_IN_ANNOTATIONS = "image missing in the COCO file"
    LISTED_TWICE = "image listed twice"
    ELSEWHERE = "images of a list found elsewhere"
    EMPTY_SPLIT = "unusable split"
    BAD_ANNOTATION = "bad annotation"
    LEAKAGE = "same image in two splits"
    FRAME = "frame out of range"
    FRAME_ORDER = "frames out of order"
    IDENTITY = "bad identity"
    DUPLICATE_IDENTITY = "identity twice in a frame"
    BAD_BOX = "impossible box"
    UNKNOWN_KEY = "unknown key"
    TOKEN = "unknown token"


@dataclass(frozen=True, kw_only=True)
class Fault:
    kind: FaultKind
    where: str
    """The file to open."""
    line: int | None = None
    what: str
    fix: str
    fatal: bool = True
    image: str | None = None
    """The image that `skip_bad` omits because of it; None if no single image is to blame."""
    command: str | None = None
    """One that puts it right, if there is one."""

    def __str__(self) -> str:
        place = self.where if self.line is None else f"{self.where}:{self.line}"
        return f"{place}: {self.what}"

    @property
    def way_out(self) -> str:
        return self.fix if self.command is None else f"{self.fix}: {self.command}"


def refuse_fatal(faults: Sequence[Fault], split: str, data_yaml: str) -> None:
    """Raises one message that shows the first fatal faults, says how many there are, and the ways out."""
    fatal = [fault for fault in faults if fault.fatal]
    if not fatal:
        return
    first = "".join(f"\n  {fault}\n    fix: {fault.way_out}" for fault in fatal[:_SHOWN_IN_A_REFUSAL])
    rest = len(fatal) - _SHOWN_IN_A_REFUSAL
    more = f"\n  … and {rest:,} more" if rest > 0 else ""
    count = "a fault" if len(fatal) == 1 else f"{len(fatal):,} faults"
    skippable = all(fault.kind is not FaultKind.EMPTY_SPLIT for fault in fatal)
    way_out = "correct them, or leave the images out with --skip-bad" if skippable else "correct them"
    fix = f"`{own_command()} check --data {shlex.quote(data_yaml)}` shows all; {way_out}"
    raise UserError(f"the {split} split has {count}:{first}{more}", where=data_yaml, fix=fix)
