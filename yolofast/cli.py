"""The command line: flags in, one function called, one message and exit code 2 for a mistake of the user."""

import argparse
import io
import os
import sys
from collections.abc import Sequence

from yolofast._version import __version__
from yolofast.config.commands import COMMANDS
from yolofast.config.flags import FlagParser, add_flags
from yolofast.exit_codes import EXIT_OK, run_command


def build_parser() -> tuple[FlagParser, dict[str, FlagParser]]:
    """The parser, and those of its commands by name."""
    parser = FlagParser(
        prog="yolofast", description="Train, fine-tune, evaluate and explain YOLOv7 and YOLOX at the speed of the GPU."
    )
    parser.add_argument("--version", action="version", version=f"yolofast {__version__}")
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=FlagParser)
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
    return args


def main(argv: Sequence[str] | None = None) -> int:
    if sys.stdout is None:  # closed by the shell
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it lives as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show × shows ? instead of failing
    args = parse(sys.argv[1:] if argv is None else argv)
    return run_command(args.run, args)


if __name__ == "__main__":
    sys.exit(main())
