"""The command line: flags in, one function called, one message and exit code 2 for a mistake of the user."""

import argparse
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from yolofast._version import __version__
from yolofast.config.commands import COMMANDS, GROUPS, LOOKS_AT
from yolofast.config.flags import DEFAULTS, FlagParser, add_flags, from_args, parse_flags
from yolofast.errors import UserError
from yolofast.exit_codes import EXIT_OK, run_command
from yolofast.terminal.escaping import escaped_output


def build_parser() -> tuple[FlagParser, dict[str, FlagParser]]:
    """The parser, and those of its commands by name."""
    parser = FlagParser(
        prog="yolofast", description="Train, fine-tune, evaluate and explain YOLOv7 and YOLOX at the speed of the GPU."
    )
    parser.add_argument("--version", action="version", version=f"yolofast {__version__}")
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=FlagParser)
    groups, commands = {"": parsers}, {}
    for command in COMMANDS:
        group, _, word = command.name.rpartition(" ")
        if group not in groups:
            outer = parsers.add_parser(group, help=f"{GROUPS[group]}: see {group} --help")
            groups[group] = outer.add_subparsers(metavar="COMMAND", parser_class=FlagParser, required=True)
        one = commands[command.name] = groups[group].add_parser(word, help=command.help)
        one.set_defaults(run=command.run, command=command.name, looks_at=LOOKS_AT.get(command.name, ()))
        for settings in (command.settings, *command.also):
            add_flags(one, settings)
    return parser, commands


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser, commands = build_parser()
    args: argparse.Namespace
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        commands.get(args.command, parser).refuse_unknown(unknown)
    if args.command is None:
        parser.print_help()
        parser.exit(EXIT_OK)
    return args


def main(argv: Sequence[str] | None = None) -> int:
    if sys.stdout is None:  # closed by the shell
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it lives as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show × shows ? instead of failing
    with escaped_output():  # a shell's `*` types the names of files
        words = sys.argv[1:] if argv is None else argv
        args = parse(words)
        args.words = tuple(words)
    return run_command(args.run, args, _look)


def run_script(name: str, **changed: Any) -> int:
    """The drop-in scripts at the root of the repository: published flags, defaults and behaviour.

    `changed` are settings by which a script differs from that of the name.
    """
    command = next(one for one in COMMANDS if one.script == name)
    defaults = replace(command.settings.published(), **changed)
    with escaped_output():
        args = parse_flags(command.settings, defaults, sys.argv[1:], os.path.basename(sys.argv[0]))
    args.looks_at = LOOKS_AT.get(command.name, ())
    return run_command(command.run, args, _look)


def _look(args: argparse.Namespace) -> None:
    """For the files that a command names, before it is imported: torch takes seconds, and a slip is reported at once.

    Only for what was typed, by the functions of the command itself. A resumed run has copies of its files.
    """
    from yolofast.checkpoint.published import find_weights  # not for `--help`
    from yolofast.dataset.data_argument import look_at_data
    from yolofast.resources import find_resource

    if not args.looks_at:
        return
    try:
        for settings in getattr(args, DEFAULTS):
            from_args(settings, args)
    except UserError:
        return  # flags come first, and the command speaks of them: it may know what `--explain RECIPE` means
    looks: dict[str, Callable[[str], object]] = {"data": look_at_data, "weights": find_weights}
    for name in () if getattr(args, "resume", False) else args.looks_at:
        typed = getattr(args, name, None)
        for one in typed if isinstance(typed, list | tuple) else (typed,):
            if isinstance(one, str) and one:
                looks.get(name, partial(find_resource, kind=name))(one)


if __name__ == "__main__":
    sys.exit(main())
