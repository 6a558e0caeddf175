"""The command line: flags in, one function called, one message and exit code 2 for anything the user can mend."""

import argparse
import importlib
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from yolofast._version import __version__
from yolofast.config.commands import COMMANDS
from yolofast.config.flags import FlagParser, add_flags
from yolofast.errors import nearest
from yolofast.exit_codes import EXIT_BAD_INPUT, EXIT_OK, call
from yolofast.interrupts import interrupts_raise


class _Parser(FlagParser):
    """Messages begin with the name of the program rather than of the command."""

    def error(self, message: str) -> NoReturn:
        if wrong := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            message += nearest(wrong[1], re.findall(r"[\w-]+", wrong[2]))
        self.exit(EXIT_BAD_INPUT, f"yolofast: error: {message}\n  fix: see {self.prog} --help\n")

    def refuse_unknown(self, unknown: Sequence[str]) -> NoReturn:
        flag = unknown[0].split("=")[0]
        known = [option for action in self._actions for option in action.option_strings]
        self.error(f"unknown argument {flag}{nearest(flag, known)}")


def build_parser() -> tuple[_Parser, dict[str, _Parser]]:
    """The parser, and those of its commands by name."""
    parser = _Parser(
        prog="yolofast", description="Train, fine-tune, evaluate and explain YOLOv7 and YOLOX at the speed of the GPU."
    )
    parser.add_argument("--version", action="version", version=f"yolofast {__version__}")
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for command in COMMANDS:
        one = parsers.add_parser(command.name, help=command.help)
        one.set_defaults(run=command.run)
        for settings in (command.settings, *command.also):
            add_flags(one, settings)
    return parser, dict(parsers.choices)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser, commands = build_parser()
    args: argparse.Namespace
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        commands.get(args.command, parser).refuse_unknown(unknown)
    if args.command is None:
        parser.print_help()
        parser.exit(EXIT_OK)
    if isinstance(sizes := getattr(args, "img_size", None), list) and len(sizes) > 2:
        commands[args.command].error("--img-size takes one or two numbers")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    if sys.stdout is None:  # closed by the shell: nobody wants to read
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it lives as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show × shows ? instead of failing
    args = parse(sys.argv[1:] if argv is None else argv)
    return call(lambda: _run(args))


def _run(args: argparse.Namespace) -> int | None:
    module, function = args.run.split(":")
    command: Callable[[argparse.Namespace], int | None] = getattr(importlib.import_module(module), function)
    interrupts_raise()
    return command(args)


if __name__ == "__main__":
    sys.exit(main())
