"""Every command that a page prints is one that can be typed: its flags exist and their values are possible.

A block has nothing that is left open (`…`, `[--flag]`): such a line could not be tried. Of results of benchmarks only
the commands that can be parsed are looked at: what they say happened, and may have had other flags.
"""

import re
import shlex

import pytest

from benchmarks.bench_train import configuration
from tests.docs.pages import NEEDS, PAGES, README, ROOT, commands_of, commands_of_others
from yolofast.cli import build_parser
from yolofast.config.commands import COMMANDS
from yolofast.config.flags import from_args

RESULTS = sorted((ROOT / "benchmarks").rglob("*.md"))
OPEN = re.compile(r"…|\[--|\$\w")


@pytest.fixture(scope="module")
def parser():
    return build_parser()[0]


@pytest.mark.parametrize("page", [*PAGES, *RESULTS], ids=lambda page: page.name)
def test_commands_can_be_typed(page, parser, capsys):
    for command in commands_of(page):
        if command.program != "yolofast" or OPEN.search(command.line) or command.line == "yolofast --version":
            continue
        words = shlex.split(command.line)
        try:
            args, unknown = parser.parse_known_args(words[words.index("yolofast") + 1 :])
        except SystemExit:
            pytest.fail(f"{command.line}\n{capsys.readouterr().err}")
        assert not unknown, command.line
        known = next(one for one in COMMANDS if one.run == args.run)
        for settings in (known.settings, *known.also):
            from_args(settings, args)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_leave_nothing_open(page):
    """What a shell fills in (`$seed`) is for blocks that say what they need."""
    typed = [one for one in commands_of(page) if one.program == "yolofast" and not one.needs]
    assert [one.line for one in typed if OPEN.search(one.line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_programs_that_no_test_runs_say_what_they_need(page):
    assert commands_of_others(page.read_text(encoding="utf-8")) == []


def test_a_program_that_says_nothing_is_seen():
    block = "```\n# needs Docker\ndocker run -p 1:1 x\n```\n```\nyolofast train --img 64\nA=b curl -L there\n```\n"
    assert commands_of_others(block) == ["A=b curl -L there"]


def test_the_speed_table_of_the_readme_says_what_was_measured():
    """A figure is one of the page that its row names, and its command one that the benchmark takes."""
    rows = re.findall(
        r"^\| (.*) \| ([\d.]+) m?s \| .* \| `(.+)` .*\((.+)\)\) \|$", README.read_text("utf-8"), re.MULTILINE
    )
    assert len(rows) == 4
    for what, figure, command, page in rows:
        numbers = map(float, re.findall(r"\d+\.\d+", (ROOT / page).read_text("utf-8")))
        assert float(figure) in {float(f"{number:.3g}") for number in numbers}, what
        words = shlex.split(command)
        assert (ROOT / f"{words[2].replace('.', '/')}.py").is_file()
        for case in words[words.index("--cases") + 1 :] if "--cases" in words else []:
            config = configuration(case, "data.yaml", "auto")
            assert config.img_size == (640,) and config.batch_size == 64 and config.cfg in what.lower()


def test_every_command_has_an_example():
    (page,) = [page for page in PAGES if page.name == "commands.md"]
    lines = [one.line for one in commands_of(page)]
    assert [one.name for one in COMMANDS if not any(line.startswith(f"yolofast {one.name}") for line in lines)] == []


def test_what_a_test_cannot_run_is_said_in_words_people_see():
    assert NEEDS.match("# needs a GPU: six runs") and NEEDS.search("yolofast watch   # serves until Ctrl+C")
    assert not NEEDS.search("# needs patience")


def test_the_page_of_corrections_shows_each_with_a_command():
    page = ROOT / "docs" / "reports-corrected.md"
    sections = re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    without = [section.splitlines()[0] for section in sections if "\nyolofast " not in section]
    assert len(sections) >= 13 and without == []
