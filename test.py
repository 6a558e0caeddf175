"""For commands that already say `python test.py`: YOLOv7's flags, defaults and behaviour."""

import sys

from yolofast.interrupts import interrupts_end_at_once

if __name__ == "__main__":
    interrupts_end_at_once()
    from yolofast.commands.scripts import run  # only now: it takes seconds

    sys.exit(run("test.py"))
