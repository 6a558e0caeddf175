"""For commands that already say `python export.py`: YOLOv7's flags, defaults and behaviour."""

import sys

from yolofast.interrupts import interrupts_end_at_once

if __name__ == "__main__":
    interrupts_end_at_once()
    from yolofast.cli import run_script  # only now: it takes seconds

    sys.exit(run_script("export.py"))
