"""The parts of a report that say what was run: the command, the settings, the machine."""

from yolofast.config.flags import from_settings
from yolofast.config.settings import settings_of
from yolofast.config.train import TrainConfig
from yolofast.engine.run_report_command import repeat_command
from yolofast.errors import UserError, shorten
from yolofast.pages.elements import Callout, Cell, Code, Element, Paragraph, Table
from yolofast.runs.layout import FILES
from yolofast.runs.reader import RunFolder


def repeat(run: RunFolder) -> tuple[Element, ...]:
    if not run.args:
        return ()
    try:
        config = from_settings(TrainConfig, run.args)
    except UserError as error:  # of another version, or edited since
        return (Callout("warn", f"{FILES.settings} does not describe a run of this version: {error.what}"),)
    note = f"{FILES.hyp} of this folder holds the hyper-parameters that ran, in case the file named above has changed."
    return (Code(repeat_command(config)), *((Paragraph(note),) if run.hyp else ()))


def settings(run: RunFolder) -> tuple[Element, ...]:
    declared, usual = settings_of(TrainConfig), TrainConfig()
    changed: list[tuple[Cell, ...]] = []
    others: list[tuple[Cell, ...]] = []
    for name, value in run.args.items():
        default = _text(getattr(usual, name, ""))
        meaning = declared[name].help if name in declared else ""
        if _text(value) != default:
            changed.append((name, _text(value), default, meaning))
        else:
            others.append((name, default, meaning))
    tables: list[Element] = []
    if changed:
        tables.append(
            Table(("setting", "value", "default", "meaning"), tuple(changed), "Settings that are not the defaults")
        )
    if run.hyp:
        rows = tuple((str(name), _text(value)) for name, value in run.hyp.items())
        tables.append(Table(("hyper-parameter", "value"), rows, "Hyper-parameters"))
    if others:
        tables.append(Table(("setting", "value", "meaning"), tuple(others), "All other settings"))
    return tuple(tables)


def environment(run: RunFolder) -> tuple[Element, ...]:
    rows = tuple(
        (str(name).replace("_", " "), _text(value)) for name, value in run.environment.items() if value is not None
    )
    return (Table(("", ""), rows),) if rows else ()


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return " ".join(map(_item, value))
    return "" if value is None else _item(value)


def _item(value: object) -> str:
    """Of bounded length where it holds others: aliases in yaml can make it endless."""
    return shorten(value) if isinstance(value, list | tuple | dict | set) else str(value)
