"""Names that would clear the screen, set its title or turn text around are shown, whichever way they are printed."""

import io
import re
import sys
from pathlib import Path

import pytest
from rich.progress import Progress, TextColumn
from rich.text import Text

import yolofast
from yolofast import cli
from yolofast.commands.predict import folder_name
from yolofast.errors import UserError
from yolofast.exit_codes import call
from yolofast.terminal.console import console, table
from yolofast.terminal.escaping import SafeConsole, escaped_output, shown_escaped
from yolofast.train.display import Display

HOSTILE = "\x1b[2J\x1b]0;title\x07\x9b31m\r\x7f\u202e\x00"
SHOWN = r"\x1b[2J\x1b]0;title\x07\x9b31m\r\x7f\u202e\x00"
ORDINARY = "größe 日本 😀\tעברית a\u0301 👩\u200d🚀\nnext"


def test_ordinary_text_stays():
    assert shown_escaped(ORDINARY) == ORDINARY and shown_escaped(HOSTILE) == SHOWN


def test_print_while_a_command_runs(capsys):
    def command():
        print(HOSTILE, ORDINARY)
        sys.stderr.writelines([HOSTILE])
        raise UserError(f"no class {HOSTILE}")

    before = sys.stdout, sys.stderr
    assert call(command) == 2 and (sys.stdout, sys.stderr) == before
    out, err = capsys.readouterr()
    assert out == f"{SHOWN} {ORDINARY}\n" and err == f"{SHOWN}yolofast: error: no class {SHOWN}\n"


def test_what_a_shell_makes_of_a_star(capsys):
    """Names of files become arguments, also such as no command has."""
    with pytest.raises(SystemExit):
        cli.main(["predict", "--source", "x.jpg", f"--{HOSTILE}"])
    assert capsys.readouterr().err.startswith(f"yolofast: error: unknown argument --{SHOWN}")


def test_a_closed_stream_stays_closed(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with escaped_output():
        assert sys.stderr is None and not sys.stdout.isatty()


@pytest.mark.parametrize("made", [str, Text])
def test_consoles_and_tables(capsys, made):
    """A table measures what it shows."""
    listing = table("name", ">n")
    listing.add_row(made(HOSTILE) if made is str else HOSTILE, "1")
    with escaped_output():
        out = console()
        out.print(made(HOSTILE), ORDINARY)
        out.print(listing)
        Display(1).say(HOSTILE)
    said = capsys.readouterr().out
    assert not set(said) & set(HOSTILE) - set("[]2J0;title31m") and said.count(r"\x1b[2J\x1b]0;title") == 3
    assert r"\x00  1" in said.splitlines()[3]


def test_colours_and_movements_of_rich_stay(monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stdout", terminal)
    with escaped_output():
        out = SafeConsole(force_terminal=True, color_system="standard", width=80, _environ={"TERM": "xterm"})
        assert out.file is terminal
        out.print(Text(HOSTILE, style="red"))
        with Progress(TextColumn("{task.description}"), console=out, auto_refresh=False) as bar:
            bar.add_task("\x1b[5mvideo")
    said = terminal.getvalue()
    assert said.startswith("\x1b[31m\\x1b[2J") and "\x1b[?25l" in said and "\x1b[5m" not in said
    assert r"\x1b[5mv" in said and r"\r" not in said, "its own movements are not escaped"


def test_no_other_consoles_are_made():
    """Progress of decoding names no file; a quiet console says nothing."""
    package = Path(yolofast.__file__).parent
    made = {path.name for path in package.rglob("*.py") if re.search(r"(?<!\w)Console\(", path.read_text())}
    assert made == {"console.py", "display.py"}


@pytest.mark.parametrize(
    "name", ["x" * 300, "ü" * 150, "😀" * 80, "..", ".", "a/../b", "\x1b[2J", "\x00", "\ud800", "車"]
)
def test_folders_of_crops_have_names_that_a_disk_allows(tmp_path, name):
    found = folder_name(7, ("other",) * 7 + (name,))
    (tmp_path / "crops" / found).mkdir(parents=True)
    assert [one.name for one in (tmp_path / "crops").iterdir()] == [found] and len(found.encode()) <= 210
    assert folder_name(0, ("traffic light",)) == "traffic light"


def test_long_names_that_begin_alike_have_folders_of_their_own():
    names = ("x" * 300 + "a", "x" * 300 + "b")
    assert folder_name(0, names) != folder_name(1, names)
