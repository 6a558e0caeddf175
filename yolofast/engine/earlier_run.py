"""What an earlier run has left in the folder of a new one (`--exist-ok`): it goes, so that the two never mix.

Only what runs write is removed. The new run's settings are in the folder by then, and checkpoints go first: a kill in
between leaves either the earlier run as it was, or the new one, which can be started again.
"""

import shutil
from pathlib import Path

from yolofast.engine.checkpoints import BEST, FRESH, LAST, PREVIOUS

_IN_ORDER = (
    f"weights/{PREVIOUS}", f"weights/{LAST}", f"weights/{BEST}", f"weights/{FRESH}", "weights/epoch_*.pt",
    "summary.json", "results.csv", "results.txt", "batches.csv", "profile.csv", "profile.json",
    "report.html", "evaluation.json", "samples", "predictions",
    "labels.jpg", "train_batch*.jpg", "val_batch*_labels.jpg", "val_batch*_pred.jpg", "predictions.jpg", "results.png",
    "PR_curve.png", "F1_curve.png", "P_curve.png", "R_curve.png", "confusion_matrix.png",
    "trackers.json", "events.out.tfevents.*",
)  # fmt: skip


def forget_earlier_run(folder: Path) -> None:
    for pattern in _IN_ORDER:
        for path in folder.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
