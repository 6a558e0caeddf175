"""Stages do not import one another: they meet in shared modules and are composed by engine, loader and the commands.

What a run's folder looks like, `runs/`, is shared too: whoever writes or reads one may import it.
"""

import ast
from pathlib import Path

import pytest

import yolofast

PACKAGE = Path(yolofast.__file__).parent
COMPOSERS = {"engine", "loader", "commands"}
SHARED_FOLDERS = {"runs"}
NOT_STAGES = {"resources"} | SHARED_FOLDERS
STAGES = {p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__"} - COMPOSERS - NOT_STAGES


def imported_parts(source: str) -> set[str]:
    """First component below `yolofast` of every import, wherever in the file it stands."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the stage they reach into"
            assert node.module != "yolofast", "the public names hide the stage they come from"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("yolofast.")}


@pytest.mark.parametrize("stage", sorted(STAGES))
def test_stage_imports_no_other_stage_and_no_composer(stage):
    for path in (PACKAGE / stage).rglob("*.py"):
        foreign = imported_parts(path.read_text()) & ((STAGES | COMPOSERS | {"cli"}) - {stage})
        assert not foreign, f"{path.relative_to(PACKAGE)} imports {foreign}"


@pytest.mark.parametrize(
    "shared", sorted(p.name for p in PACKAGE.glob("*.py") if p.stem not in ("__init__", "__main__", "cli"))
)
def test_shared_modules_import_no_stage(shared):
    foreign = imported_parts((PACKAGE / shared).read_text()) & (STAGES | COMPOSERS | {"cli"})
    assert not foreign


@pytest.mark.parametrize("folder", sorted(SHARED_FOLDERS))
def test_shared_folders_import_no_stage(folder):
    for path in (PACKAGE / folder).rglob("*.py"):
        foreign = imported_parts(path.read_text()) & (STAGES | COMPOSERS | {"cli"})
        assert not foreign, f"{path.relative_to(PACKAGE)} imports {foreign}"


def test_the_rule_would_notice():
    assert imported_parts("from yolofast.model import x\nimport yolofast.checkpoint.load") == {"model", "checkpoint"}


def test_there_is_no_utils():
    assert not list(PACKAGE.rglob("util*"))
