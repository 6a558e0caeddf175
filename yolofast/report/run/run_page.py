"""`report.html` of a run: everything to know about it on one page, made of the files in its folder.

Made after training from what is on the disk, so `yolofast report` can make it again. A part that cannot be made costs a
remark on the page; a page that cannot be made costs a warning.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from yolofast.detect.accumulator import Evaluated
from yolofast.errors import UserError
from yolofast.files.atomic_file import write_whole
from yolofast.pages.elements import Callout, Element, Page, Paragraph, Section
from yolofast.pages.html import render_page
from yolofast.report.diagnose.diagnosis import diagnose
from yolofast.report.diagnose.ship import shipped
from yolofast.report.logs.read_run import history_of
from yolofast.report.run import accuracy, course, what_ran
from yolofast.report.run.evaluation_files import save_scores
from yolofast.runs.layout import FILES
from yolofast.runs.reader import RunFolder


def diagnosis(run: RunFolder) -> tuple[Element, ...]:
    try:
        found = diagnose(history_of(run))
    except UserError:  # too little to say anything
        return ()
    verdicts: list[Element] = [Callout("warn", f"{one.kind}: {one.text}") for one in found.verdicts]
    if not verdicts:
        nothing = f"{found.nothing[0].upper()}{found.nothing[1:]}."
        verdicts.append(Paragraph(nothing) if found.around is None else Callout("good", nothing))
    lines = [*(f"Note: {remark}." for remark in found.remarks), *found.advice.lines]
    if found.advice.changes:
        lines.append(f"To try: {'; '.join(map(str, found.advice.changes))}.")
    if found.ships_nothing:
        lines.append(f"Epoch to ship: none, {found.ships_nothing}.")
    if found.choice is not None:
        lines.append(f"Epoch to ship: {shipped(found.choice, run.path / FILES.weights)[0]}.")
    return (*verdicts, *map(Paragraph, lines))


_Make = Callable[[RunFolder], tuple[Element, ...]]
_PARTS: tuple[tuple[str, _Make], ...] = (
    ("Summary", course.summary),
    ("Curves", course.curves),
    ("What the curves say", diagnosis),
    ("Predicted boxes", accuracy.motion),
    ("Classes", accuracy.per_class),
    ("Precision and recall", accuracy.precision_recall),
    ("Confusion", accuracy.confusion),
    ("Worst misses", accuracy.samples),
    ("Time and memory", course.timing),
    ("Batches", course.batches),
    ("Repeat it", what_ran.repeat),
    ("Settings", what_ran.settings),
    ("Environment", what_ran.environment),
)


def leave_report(folder: Path, found: Evaluated | None, names: Sequence[str], say: Callable[[str], None]) -> None:
    """After training: `found` is the evaluation of the best weights, if this process has seen it. Never fails a run."""
    try:
        if found is not None:
            save_scores(folder, found, names)
        write_report(folder)
    except Exception as error:  # noqa: BLE001 - no report is worth a run
        say(f"warning: {FILES.report} could not be written: {type(error).__name__}: {error}")


def write_report(folder: Path) -> Path:
    path = folder / FILES.report
    write_whole(path, render_page(report_page(folder)).encode())
    return path


def report_page(folder: Path) -> Page:
    """Raises `UserError` if the folder is not that of a run."""
    run = RunFolder(folder).read_all()
    made = [(title, _attempt(make, run)) for title, make in _PARTS]
    sections = tuple(Section(title, elements) for title, elements in made if elements)
    return Page(f"Run {folder.resolve().name}", _subtitle(run), sections)


def _attempt(make: _Make, run: RunFolder) -> tuple[Element, ...]:
    try:
        return make(run)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        # Files of a run may be of another version, or edited by hand.
        return (Callout("warn", f"The run's files do not fit together here: {type(error).__name__}: {error}"),)


def _subtitle(run: RunFolder) -> str:
    named = [Path(str(run.args[name])) for name in ("cfg", "data") if run.args.get(name)]
    parts = ["/".join(path.parts[-2:]) if path.is_absolute() else str(path) for path in named]
    if not run.args.get("cfg") and (network := run.environment.get("network")):  # that of the weights it began with
        parts.insert(0, str(network))
    if machine := run.environment.get("gpu") or run.environment.get("cpu"):
        parts.append(str(machine))
    if version := run.environment.get("yolofast"):
        parts.append(f"yolofast {version}")
    return " · ".join(parts)
