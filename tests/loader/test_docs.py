"""The example of the GPU path in docs/loaders.md runs as printed, on the CPU."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "loaders.md"


@pytest.mark.slow
def test_the_example_of_the_gpu_path_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("YOLOFAST_CACHE", str(tmp_path / "cache"))
    section = PAGE.read_text(encoding="utf-8").split("## The GPU path")[1]
    example = re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]
    exec(compile(example, str(PAGE), "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("images: cache ")
    assert [line.split()[0] for line in lines[1:]] == list("000111222")
    for line, images in zip(lines[1:], [16, 16, 8] * 3, strict=True):
        assert f"[{images}, 3, 160, 160]" in line and f"[{images}, 64, 4]" in line
