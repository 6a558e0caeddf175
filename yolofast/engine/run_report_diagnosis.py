"""The part of a report that reads the curves: what `yolofast diagnose` finds."""

from yolofast.errors import UserError
from yolofast.pages.elements import Callout, Element, Paragraph
from yolofast.report.advice import Advice
from yolofast.report.diagnosis import Diagnosis, diagnose
from yolofast.report.read_run import read_history
from yolofast.runs.reader import RunFolder


def diagnosis(run: RunFolder) -> tuple[Element, ...]:
    try:
        found = diagnose(read_history(run.path))
    except UserError:  # too little to say anything
        return ()
    verdicts: list[Element] = [Callout("warn", f"{one.kind}: {one.text}") for one in found.verdicts]
    if not verdicts:
        nothing = f"{found.nothing[0].upper()}{found.nothing[1:]}."
        verdicts.append(Paragraph(nothing) if found.around is None else Callout("good", nothing))
    notes = (Paragraph(f"Note: {remark}.") for remark in found.remarks)
    return (*verdicts, *notes, *advised(found.advice), *_choice(found))


def advised(advice: Advice) -> tuple[Paragraph, ...]:
    changes = [str(one) for one in advice.changes]
    lines = [*advice.lines, *([f"To try: {'; '.join(changes)}."] if changes else [])]
    return tuple(Paragraph(line) for line in lines)


def _choice(found: Diagnosis) -> tuple[Element, ...]:
    if found.choice is None:
        return ()
    return (Paragraph(f"Epoch to ship: {found.choice.epoch} ({found.choice.why})."),)
