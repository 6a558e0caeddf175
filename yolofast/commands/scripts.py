"""The drop-in scripts at the root of the repository: published flags, defaults and behaviour."""

import sys

from yolofast.config.commands import COMMANDS
from yolofast.config.common import RunConfig
from yolofast.config.flags import parse_flags
from yolofast.exit_codes import run_command


def run(script: str) -> int:
    command = next(one for one in COMMANDS if one.script == script)
    assert issubclass(command.settings, RunConfig)
    args = parse_flags(command.settings, command.settings.published(), sys.argv[1:], script)
    return run_command(command.run, args)
