"""What docs/tracking.md says repairs do to scores is what `benchmarks.tracker_repairs` prints."""

from pathlib import Path

import pytest

from benchmarks.tracker_repairs import GOLDEN, gates, read, show

PAGE = Path(__file__).parents[2] / "docs" / "tracking.md"


@pytest.mark.slow
def test_what_the_gates_of_appearance_do_is_what_the_page_says(capsys):
    sequences = read([GOLDEN])
    show("botsort with appearance, SYNC-71", gates(sequences))
    lines = capsys.readouterr().out.splitlines()
    assert list(sequences) == ["SYNC-71"] and len(lines) == 3
    assert all(line in PAGE.read_text(encoding="utf-8") for line in lines)
