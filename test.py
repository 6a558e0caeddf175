"""For commands that already say `python test.py`: YOLOv7's flags, defaults and behaviour."""

import sys

from yolofast.commands.scripts import test

if __name__ == "__main__":
    sys.exit(test())
