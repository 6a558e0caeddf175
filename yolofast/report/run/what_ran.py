"""The parts of a report that say what was run: the command that repeats it, the settings, the machine."""

import shlex
from collections.abc import Mapping
from typing import Any

from yolofast.config.flags import from_settings, shown
from yolofast.config.motion import MotionTrainConfig
from yolofast.config.settings import Setting, Settings, is_switch, settings_of
from yolofast.config.train import TrainConfig
from yolofast.errors import UserError, shorten
from yolofast.pages.elements import Callout, Cell, Code, Element, Paragraph, Table
from yolofast.runs.layout import FILES
from yolofast.runs.reader import RunFolder

_COMMANDS: Mapping[type[Settings], str] = {TrainConfig: "train", MotionTrainConfig: "motion train"}
_NOT_OF_THE_RUN = {"resume", "explain", "exist_ok"}
_ALWAYS = ("data", "cfg", "seed")
"""Said even where they are the defaults: a command without any setting would be the demonstration."""


def repeat_command(config: TrainConfig | MotionTrainConfig) -> str:
    """For `yolofast train` or `motion train`, or for the drop-in script if the run was of that kind."""
    kind, is_script = type(config), config.faithful and isinstance(config, TrainConfig)
    defaults = TrainConfig.published() if is_script else kind
    words = ["python", "train.py"] if is_script else ["yolofast", *_COMMANDS[kind].split()]
    for name, declared in settings_of(kind).items():
        value = getattr(config, name)
        if name not in _NOT_OF_THE_RUN and (value != getattr(defaults, name) or name in _ALWAYS):
            words += _flag(kind, name, declared, value)
    return shlex.join(words)


def _kind(run: RunFolder) -> type[TrainConfig] | type[MotionTrainConfig]:
    """Whose settings a run has."""
    return MotionTrainConfig if "true_time" in run.args else TrainConfig


def _flag(kind: type[Settings], name: str, declared: Setting, value: Any) -> list[str]:
    for flag, meaning in declared.shortcuts.items():
        if value == meaning and type(value) is type(meaning) and isinstance(value, bool):
            return [flag]
    if is_switch(kind, name):
        return [declared.flag] if value else []
    if value is None or value == ():
        return []  # no flag says that; a default that is something has no such value
    if value is True or value == declared.bare:
        return [declared.flag]
    if isinstance(value, tuple):
        return [declared.flag, *map(str, value)]
    return [declared.flag, shown(value)] if not str(value).startswith("-") else [f"{declared.flag}={value}"]


def repeat(run: RunFolder) -> tuple[Element, ...]:
    if not run.args:
        return ()
    try:
        config: TrainConfig | MotionTrainConfig = from_settings(_kind(run), run.args)
    except UserError as error:  # of another version, or edited since
        return (Callout("warn", f"{FILES.settings} does not describe a run of this version: {error.what}"),)
    note = f"{FILES.hyp} of this folder holds the hyper-parameters that ran, in case the file named above has changed."
    return (Code(repeat_command(config)), *((Paragraph(note),) if run.hyp else ()))


def settings(run: RunFolder) -> tuple[Element, ...]:
    usual = _kind(run)
    declared = settings_of(usual)
    changed: list[tuple[Cell, ...]] = []
    others: list[tuple[Cell, ...]] = []
    for name, value in run.args.items():
        default = _text(getattr(usual, name, ""))
        meaning = declared[name].help if name in declared else ""
        if _text(value) != default:
            changed.append((name, _text(value), default, meaning))
        else:
            others.append((name, default, meaning))
    hyp: list[tuple[Cell, ...]] = [(str(name), _text(value)) for name, value in run.hyp.items()]
    tables = (
        (("setting", "value", "default", "meaning"), changed, "Settings that are not the defaults"),
        (("hyper-parameter", "value"), hyp, "Hyper-parameters"),
        (("setting", "value", "meaning"), others, "All other settings"),
    )
    return tuple(Table(columns, tuple(rows), caption) for columns, rows, caption in tables if rows)


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
