"""For commands that already say `python detect.py`: YOLOv7's flags, defaults and behaviour."""

import sys

from yolofast.commands.scripts import detect

if __name__ == "__main__":
    sys.exit(detect())
