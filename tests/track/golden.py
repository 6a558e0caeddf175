"""Golden sequences: those of the repository, and those that may only be used where they lie, beside it."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "tracking"


def beside():
    """`shared/golden_tracking` beside the repository, or None."""
    places = (parent / "shared" / "golden_tracking" for parent in ROOT.parents)
    return next((place for place in places if place.is_dir()), None)


def expected(folder):
    return json.loads((folder / "expected.json").read_text())


def differences(found, wanted, where=""):
    """Where values differ by more than 1e-9, or than the twelve digits that the files hold."""
    if isinstance(wanted, dict):
        return [one for key, value in wanted.items() for one in differences(found[key], value, f"{where}/{key}")]
    if isinstance(wanted, list):
        assert len(found) == len(wanted), where
        pairs = zip(found, wanted, strict=True)
        return [one for i, (a, b) in enumerate(pairs) for one in differences(a, b, f"{where}[{i}]")]
    return [] if abs(found - wanted) <= max(1e-9, 5.1e-12 * abs(wanted)) else [(where, found, wanted)]
