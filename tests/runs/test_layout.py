"""`runs/layout.py` is the only place that spells the names of a run's files and columns."""

import ast
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import yolofast
from yolofast.runs import layout
from yolofast.runs.layout import COLUMNS, FILES, FITNESS, MAP, MAP50, TERM, TRAIN_LOSS, VAL_LOSS

PACKAGE = Path(yolofast.__file__).parent
OWNER = PACKAGE / "runs"
WORDS = {FILES.weights, FILES.samples, FILES.predictions_folder, "epoch", "time"}
"""Words that mean other things too: keys of checkpoints, attributes, settings."""
UNITS = {"img/s"}
"""The unit images per second is called the same as the column."""
FILE_NAMES = {getattr(FILES, one.name) for one in fields(FILES)} - WORDS
COLUMN_NAMES = {column.name for column in COLUMNS} - WORDS - UNITS


def as_pattern(name: str) -> str:
    """A number or a loss term may stand where the name has a place for it, also one that is filled in later."""
    return re.escape(name).replace(re.escape("*"), r"[\w{}*]+").replace(re.escape(TERM), r"[\w{}]+")


SPELLED = re.compile(rf"(?:\S*/)?(?:{'|'.join(map(as_pattern, sorted(FILE_NAMES | COLUMN_NAMES)))})")


def texts_of(source: str) -> list[tuple[int, str]]:
    """All texts but docstrings, with their lines; what is computed within one is `{}`."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values]
            found.append((node.lineno, "".join(pieces)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | parts:
            found.append((node.lineno, node.value))
    return found


def is_spelled(text: str) -> bool:
    """Sentences may name a file; a text that is a name, or a path that ends in one, is a second owner."""
    return SPELLED.fullmatch(text) is not None


@pytest.mark.slow
def test_nobody_else_spells_names_of_files_and_columns():
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text!r}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(OWNER)
        for line, text in texts_of(path.read_text())
        if is_spelled(text)
    ]
    assert not found, "take these from runs/layout.py:\n" + "\n".join(found)


def test_nor_does_the_page_of_watch():
    scripts = sorted((PACKAGE / "watch" / "web").glob("*.js"))
    code = "".join(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL) for path in scripts)
    texts = re.findall(r"[\"'`]([^\"'`\n]*)[\"'`]", code)
    assert texts and not [text for text in texts if is_spelled(text)]


@pytest.mark.parametrize(
    "text", ["results.csv", "weights/best.pt", "*/weights/last.pt", "epoch_{}.pt", "metrics/mAP50(B)", "train/{}_loss",
             "val/box_loss", "lr/pg0", "gpu_memory"]
)  # fmt: skip
def test_the_rule_would_notice(text):
    assert is_spelled(text) and not is_spelled(f"look at {text}: it is there")


def test_fitness_is_said_once():
    weights = rf"\b{FITNESS[MAP50.name]}\s*\*.*\b{FITNESS[MAP.name]}\s*\*|\b{FITNESS[MAP.name]}\s*\*.*\b0\.1\s*\*"
    for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.js")):
        assert not re.search(weights, path.read_text()), path


@pytest.mark.slow
def test_imports_neither_torch_nor_pictures():
    names = ", ".join(f"yolofast.runs.{path.stem}" for path in OWNER.glob("*.py") if path.stem != "__init__")
    code = f"import sys, {names}; print([m for m in ('torch', 'cv2', 'matplotlib') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_no_name_stands_twice():
    names = [getattr(FILES, one.name) for one in fields(FILES)]
    assert len(set(names)) == len(names) and len({column.name for column in COLUMNS}) == len(COLUMNS)


def test_columns_of_a_run_follow_the_terms_of_its_loss():
    names = [name for name, _ in layout.columns_with(["box", "angle"])]
    assert names[2:4] == ["train/box_loss", "train/angle_loss"] and "val/angle_loss" in names
    assert layout.terms_in(names) == ["box", "angle"] and TRAIN_LOSS.term_in("val/angle_loss") is None
    assert layout.losses_of(VAL_LOSS, {"angle": 0.5}) == {"val/angle_loss": 0.5}
    assert layout.term_title("obj") == "objectness" and layout.term_title("angle") == "angle"


def test_fitness_and_the_best_epoch():
    assert layout.fitness(1.0, 0.5) == pytest.approx(0.55) and layout.FITNESS_WORDS == "0.1 · mAP50 + 0.9 · mAP50-95"
    of_epochs = layout.fitness(np.array([0.5, 0.6, 0.6, np.nan]), np.array([0.3, 0.4, 0.4, 0.9]))
    assert layout.best_place(of_epochs) == 2, "of equally good ones the last"
    assert layout.best_place(np.full(3, np.nan)) is None


def test_metrics_have_an_order_for_people():
    assert [column.title for column in layout.metrics()] == ["mAP50", "mAP50-95", "precision", "recall"]
    assert list(layout.metric_charts()) == ["Accuracy", "Precision and recall", "Overlap of predicted and true boxes"]


def test_numbered_files():
    assert layout.weights_of_epoch(7) == "epoch_007.pt" and layout.numbered(FILES.train_batch, 2) == "train_batch2.jpg"
