"""docs/flags.md, made from the settings by `python -m yolofast.config.flags_page`; a test compares the two."""

import sys
from typing import Any

from yolofast.config.commands import COMMANDS, Command
from yolofast.config.flags import help_text, shown
from yolofast.config.hyp import HYP_KEYS
from yolofast.config.section import HEADINGS
from yolofast.config.settings import REQUIRED, Setting, Settings, choices, settings_of
from yolofast.config.train import TrainConfig

_INTRODUCTION = """\
# Flags and hyper-parameters

`yolofast train`, `val` and `predict` have the same flags as the drop-in scripts `train.py`, `test.py` and `detect.py`;
only defaults differ. The other commands follow at the end. All flags are declared in `yolofast/config/`; this page
is made from it.

- `_` and `-` are the same in a flag (`--close_mosaic`), and a flag may be cut short (`--label 0.1`). A prefix that was
  clear in the published scripts means the same here: `--p` is `--project`.
- `name=value` is `--name value`: `yolofast train data=data.yaml epochs=3 nosave=true img_size=320,640`. What no flag of
  `train` is called goes to `--set`: `lr0=0.001`.
- **published** marks the flags of the published scripts.
- Python uses the same names with `_`: `TrainConfig(img_size=(320,))`. `from_settings(TrainConfig, {"imgsz": 320})`
  takes every other spelling too.
- A run folder holds its settings in `args.yaml`. With `--resume` they are those of the checkpoint. Only flags marked ↻
  may then be changed, and those that name a file which no longer exists.
- *no effect*: known so that old commands are understood."""
_ENVIRONMENT = """\
## Environment variables

| variable | effect |
|---|---|
| `USE_COMPILE=1` | `--gear compile`, unless a gear is named |
| `DIAGNOSE_COMPILE=1` | print where the compiler breaks the graph, then exit with 0 |"""
_HYPER_PARAMETERS = """\
## Hyper-parameters

`--hyp FILE`. A file may contain only what it changes. Other keys have the values published for the model
(`hyp.scratch.tiny`, `p5` or `p6`; defaults below are those of `p5`). `--set lr0=0.001 mosaic=0.5` goes above the file;
flags that mean the same, such as `--assigner`, above both. Unknown keys and values of the wrong kind are
refused, with the line."""


def flags_page() -> str:
    parts = [_INTRODUCTION]
    for command in (one for one in COMMANDS if one.script):
        parts.append(f"## `yolofast {command.name}` and `{command.script}`")
        parts += filter(None, (_table(command, section) for section in HEADINGS))
    parts += [_ENVIRONMENT, _HYPER_PARAMETERS, _hyp_table()]
    parts += [_tool(one) for one in COMMANDS if not one.script]
    return "\n\n".join(parts) + "\n"


def _tool(command: Command) -> str:
    """A command that no published script has."""
    lines = [f"## `yolofast {command.name}`", "", f"{command.help[0].upper()}{command.help[1:]}.", ""]
    lines += ["| flag | |", "|---|---|"]
    for name, declared in settings_of(command.settings).items():
        default = getattr(command.settings, name, REQUIRED)
        text = help_text(declared, default) + ("; required" if default is REQUIRED else "")
        lines.append(f"| {_flag_cell(command.settings, name, declared)} | {text} |")
    others = [one.name for one in COMMANDS if one.settings in command.also]
    return "\n".join([*lines, *(f"\nAnd the flags of `yolofast {name}`." for name in others)])


def _table(command: Command, section: str) -> str:
    """Empty if the command has no settings in that section."""
    lines = [f"| {section} | `{command.name}` | `{command.script}` | |", "|---|---|---|---|"]
    for name, declared in settings_of(command.settings).items():
        if declared.section == section:
            values = f"{_value(getattr(command.settings, name))} | {_value(declared.published)}"
            flags, meaning = _flag_cell(command.settings, name, declared), _meaning(command.settings, declared)
            lines.append(f"| {flags} | {values} | {meaning} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _flag_cell(config_class: type[Settings], name: str, declared: Setting) -> str:
    spellings = " ".join(f"`{flag}`" for flag in declared.flags)
    if declared.positional:
        spellings = f"`{declared.metavar or name}`"
    return " ".join([spellings, ", ".join(filter(None, choices(config_class, name)))]).rstrip()


def _meaning(config_class: type[Settings], declared: Setting) -> str:
    notes = [f"`{flag}`: {shown(value)}" for flag, value in declared.shortcuts.items()]
    if declared.published_flag:
        other = "" if declared.published_flag in declared.flags else f" as `{declared.published_flag}`"
        notes.append(f"**published**{other}")
    if declared.without_effect:
        notes.append("*no effect*")
    if declared.changes_on_resume and config_class is TrainConfig:
        notes.append("↻")
    return "; ".join([declared.help, *notes])


def _value(value: Any) -> str:
    return shown(value) if isinstance(value, bool) else f"`{shown(value)}`" if shown(value) else "–"


def _hyp_table() -> str:
    lines = ["| key | default | takes | meaning |", "|---|---|---|---|"]
    for key, known in HYP_KEYS.items():
        default = "–" if known.default is None else f"{known.default:g}"
        lines.append(f"| `{key}` | {default} | {known.takes} | {known.meaning} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(flags_page())
