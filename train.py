"""For commands that already say `python train.py`: YOLOv7's flags, defaults and behaviour."""

import sys

from yolofast.commands.scripts import train

if __name__ == "__main__":
    sys.exit(train())
