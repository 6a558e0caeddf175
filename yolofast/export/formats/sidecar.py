"""Formats that have no room for metadata: a folder holds the model and `yolofast.json`, its facts."""

import json
from pathlib import Path

from yolofast.errors import UserError
from yolofast.export.formats.facts import ExportFacts, facts_of

FACTS = "yolofast.json"
_LARGEST = 10_000_000
"""Bytes: a hundred thousand names of classes, and more."""


def write_facts(facts: ExportFacts, model: Path) -> None:
    _write(model, facts.metadata())


def add_fact(model: Path, name: str, value: str) -> None:
    """One of a single format; `value` is JSON, as those of all are."""
    _write(model, {**_read(model), name: value})


def facts_beside(model: Path) -> ExportFacts:
    """Of the folder that the model is in."""
    return facts_of(_read(model), model)


def fact_beside(model: Path, name: str) -> str:
    """Empty if it is not there."""
    return str(_read(model).get(name, ""))


def _write(model: Path, said: dict[str, str]) -> None:
    (model.parent / FACTS).write_text(json.dumps(said, ensure_ascii=False, indent=1), encoding="utf-8")


def _read(model: Path) -> dict[str, str]:
    path = model.parent / FACTS
    try:
        if path.stat().st_size > _LARGEST:
            raise UserError("is too large for what it is", where=path, fix="export it again")
        said = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"lies alone: {FACTS}, which says what its inputs and outputs mean, is not beside it"
        raise UserError(what, where=model, fix="copy the whole folder, or export it again") from error
    except (ValueError, RecursionError) as error:
        raise UserError("is damaged", where=path, fix="export it again") from error
    return said if isinstance(said, dict) else {}
