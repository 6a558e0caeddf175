"""What a run's folder holds, as far as it can be read: a report of a torn or half-finished run shows what there is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yolofast.engine.run_report_samples import SAMPLES_FILE, SAMPLES_FOLDER
from yolofast.engine.run_report_scores import SCORES_FILE
from yolofast.errors import UserError, nearest_file
from yolofast.known_numbers import parse_json
from yolofast.report.finished_run import summary_of
from yolofast.report.table_file import Columns, read_columns
from yolofast.yaml_file import read_yaml

_MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    folder: Path
    results: Columns
    batches: Columns | None
    args: Mapping[str, Any]
    hyp: Mapping[str, Any]
    environment: Mapping[str, Any]
    summary: Mapping[str, Any]
    scores: Mapping[str, Any]
    profile: Mapping[str, Any]
    samples: list[Mapping[str, Any]]
    problems: list[str] = field(default_factory=list)
    """Files that are there and cannot be read."""


def read_run_files(folder: Path) -> RunFiles:
    """Only `results.csv` has to be there: `UserError` if it is not."""
    if not folder.is_dir():
        what = f"there is no such folder{nearest_file(folder)}"
        raise UserError(what, where=folder, fix="name a run's folder: runs/train/exp")
    if not (folder / "results.csv").is_file():
        raise UserError("has no results.csv", where=folder, fix="name the folder of a run that has trained an epoch")
    problems: list[str] = []
    samples = _read(folder / SAMPLES_FOLDER / SAMPLES_FILE, list, problems)
    results = read_columns(folder / "results.csv")
    return RunFiles(
        folder=folder,
        results=results,
        batches=_batches(folder / "batches.csv", problems),
        args=_read(folder / "args.yaml", dict, problems),
        hyp=_read(folder / "hyp.yaml", dict, problems),
        environment=_read(folder / "env.json", dict, problems),
        summary=summary_of(_read(folder / "summary.json", dict, problems), len(results)),
        scores=_read(folder / SCORES_FILE, dict, problems),
        profile=_read(folder / "profile.json", dict, problems),
        samples=[row for row in samples if isinstance(row, dict)],
        problems=problems,
    )


def _batches(path: Path, problems: list[str]) -> Columns | None:
    if not path.is_file():  # older runs have none
        return None
    try:
        return read_columns(path)
    except UserError as error:
        problems.append(f"{path.name} {error.what}: it is left out")
        return None


def _read(path: Path, kind: type[Any], problems: list[str]) -> Any:
    """The content, or an empty one."""
    if not path.is_file():
        return kind()
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError("too large")
        content, unknown = _parsed(path)
        if not isinstance(content, kind):
            raise ValueError(f"not a {kind.__name__}")
    except (OSError, ValueError, RecursionError) as error:
        problems.append(f"{path.name} cannot be read and is left out: {error}")
        return kind()
    if unknown:
        problems.append(f"{path.name} says {', '.join(unknown[:3])}, which cannot be measured and is left out")
    return content


def _parsed(path: Path) -> tuple[Any, list[str]]:
    """And its numbers that are not known; settings may well be without bounds."""
    if path.suffix == ".yaml":
        return read_yaml(path).values, []
    return parse_json(path.read_text(encoding="utf-8"))
