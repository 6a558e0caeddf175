"""What is done about faults of sequences: refused together in one message, or omitted and counted.

The faults are the values that data sets have (`dataset.faults`), so they are listed and counted alike.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from yolofast.dataset.faults import Fault
from yolofast.errors import UserError
from yolofast.words import counted

_SHOWN, _SHOWN_OF_EACH, _FILES = 5, 2, 8
"""Faults of one file, or of each of several."""
_WAY_OUT = (
    "correct them; --skip-bad of convert, track, trackval and tracksweep, skip_bad=True in Python, omits such rows"
)


def refuse_faults(faults: Sequence[Fault], where: str | None) -> None:
    """Raises one message that shows the first fatal faults of each file and says how many there are."""
    by_file: dict[str, list[Fault]] = {}
    for fault in faults:
        if fault.fatal:
            by_file.setdefault(fault.where, []).append(fault)
    if not by_file:
        return
    several, every = len(by_file) > 1, sum(map(len, by_file.values()))
    shown = [fault for own in list(by_file.values())[:_FILES] for fault in own[: _SHOWN_OF_EACH if several else _SHOWN]]
    first = "".join(f"\n  {fault}\n    fix: {fault.fix}" for fault in shown)
    more = f"\n  … and {every - len(shown):,} more" if every > len(shown) else ""
    what = f"{counted(every, 'fault')}{f' in {len(by_file):,} places' if several else ''}:{first}{more}"
    place, line = (where, None) if several else (shown[0].where, shown[0].line)
    raise UserError(what, where=place, line=line, fix=_WAY_OUT)


def told(faults: Sequence[Fault]) -> Iterator[str]:
    """A line for each file and kind: what was omitted or put right."""
    kinds = Counter((fault.where, fault.kind, fault.fatal) for fault in faults)
    for (where, kind, fatal), count in kinds.items():
        first = next(fault for fault in faults if (fault.where, fault.kind, fault.fatal) == (where, kind, fatal))
        place = where if first.line is None else f"{where}:{first.line}"
        what = f"{counted(count, 'row')} omitted, {kind}: " if fatal else f"{kind}: "
        others = f" (and {count - 1:,} more)" if count > 1 else ""
        yield f"{place}: {what}{first.what}{others}"
