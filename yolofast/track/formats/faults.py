"""What is done about faults of sequences: refused together in one message, or omitted and counted.

The faults are the values that data sets have (`dataset.faults`), so they are listed and counted alike.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from yolofast.dataset.faults import Fault
from yolofast.errors import UserError
from yolofast.words import counted

_SHOWN = 5
_WAY_OUT = "correct them; --skip-bad of the commands, skip_bad=True in Python, omits such rows"


def refuse_faults(faults: Sequence[Fault], where: str) -> None:
    """Raises one message that shows the first fatal faults and says how many there are."""
    fatal = [fault for fault in faults if fault.fatal]
    if not fatal:
        return
    first = "".join(f"\n  {fault}\n    fix: {fault.fix}" for fault in fatal[:_SHOWN])
    more = f"\n  … and {len(fatal) - _SHOWN:,} more" if len(fatal) > _SHOWN else ""
    raise UserError(f"{counted(len(fatal), 'fault')}:{first}{more}", where=where, line=fatal[0].line, fix=_WAY_OUT)


def told(faults: Sequence[Fault]) -> Iterator[str]:
    """A line for each file and kind: what was omitted or put right."""
    kinds = Counter((fault.where, fault.kind, fault.fatal) for fault in faults)
    for (where, kind, fatal), count in kinds.items():
        first = next(fault for fault in faults if (fault.where, fault.kind, fault.fatal) == (where, kind, fatal))
        place = where if first.line is None else f"{where}:{first.line}"
        what = f"{counted(count, 'row')} omitted, {kind}: " if fatal else f"{kind}: "
        others = f" (and {count - 1:,} more)" if count > 1 else ""
        yield f"{place}: {what}{first.what}{others}"
