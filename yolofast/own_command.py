"""How `yolofast` is typed here: messages that say what to type next are of use only if it can be typed.

In an environment that is not active, as after `make demo`, the command is not on the path, or another one's is.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path

_NAME = "yolofast"


def own_command(python: str = sys.executable) -> str:
    """`yolofast`, or the path to that of the environment of `python`, or how to call it as a module."""
    own = shutil.which(_NAME, path=str(Path(python).parent))
    if own is None:
        return _NAME if shutil.which(_NAME) else f"{_shortest(python)} -m yolofast"
    on_path = shutil.which(_NAME)
    if on_path is not None and os.path.samefile(on_path, own):
        return _NAME
    return _shortest(own)


def _shortest(path: str) -> str:
    """From the current folder if it lies below; ready to be typed."""
    absolute, here = Path(path).absolute(), Path.cwd()
    return shlex.quote(str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute))
