"""What the pages hold that can be typed, and which of it a test cannot run."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [README, *DOCS]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_CELL = re.compile(r"(?<=\| )`(yolofast [^`]+)`")
_PROGRAM = re.compile(r"(?:[A-Z_]+=\S+ )*(yolofast|python|torchrun|make|pip|find|for|cat|cd|tensorboard) ")
_OTHERS = re.compile(r"(?:[A-Z_]+=\S+ )*[a-z][\w.-]* (?:.* )?--?[a-zA-Z]")
"""A line like a command of some other program: a word with a flag behind it."""
_THING = "a GPU|several GPUs|a camera|a network|Docker|Slurm|that server"
NEEDS = re.compile(rf"# (?:needs (?:{_THING})\b|serves until Ctrl\+C)")
"""How a block or a line says that a test cannot run it."""
_SAYS_ENOUGH = re.compile(r"--device \d|^yolofast (watch|serve|cloud (pull|stop|cost))")
"""In a table, which has no room for comments: it names GPUs, serves, or needs an account."""


@dataclass(frozen=True)
class Command:
    line: str
    """Without its comment, the lines that it goes on in joined."""
    needs: bool
    """Whether it says that it needs what a test has not: a GPU, a camera, a network, somebody who presses Ctrl+C."""

    @property
    def program(self) -> str:
        match = _PROGRAM.match(f"{self.line} ")
        assert match is not None
        return match[1]


def commands_of_others(text: str) -> list[str]:
    """Lines of blocks that no test runs, because their program is none of ours, and that do not say what they need."""
    typed = [block for language, block in _BLOCK.findall(text) if not language and not NEEDS.match(block)]
    lines = [line for block in typed for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if _OTHERS.match(line) and not _PROGRAM.match(f"{line} ") and not NEEDS.search(line)]


def commands_of(page: Path) -> list[Command]:
    """In the order of the page; cells of tables come after its blocks."""
    text = page.read_text(encoding="utf-8")
    found = []
    for language, block in _BLOCK.findall(text):
        if language:
            continue  # Python, YAML
        whole = NEEDS.match(block) is not None
        for line in block.replace("\\\n", " ").splitlines():
            if _PROGRAM.match(f"{line.strip()} "):
                command = re.sub(r"\s+#\s.*", "", line.strip())
                found.append(Command(re.sub(r"\s+", " ", command), whole or NEEDS.search(line) is not None))
    cells = [cell for line in text.splitlines() if line.startswith("| ") for cell in _CELL.findall(line)]
    return found + [Command(cell, _SAYS_ENOUGH.search(cell) is not None) for cell in cells]
