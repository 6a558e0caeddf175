"""For commands that already say `python train_aux.py`: YOLOv7's script for networks with auxiliary heads.

The network itself says which maps it has, so this is train.py but for one thing: as published, boxes are always
assigned by OTA, whatever `loss_ota` in the hyper-parameters says.
"""

import sys

from yolofast.interrupts import interrupts_end_at_once

if __name__ == "__main__":
    interrupts_end_at_once()
    from yolofast.cli import run_script  # only now: it takes seconds

    sys.exit(run_script("train.py", assigner="ota"))
