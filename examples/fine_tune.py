"""A detector trained a little further, and how much better it became: `examples/fine_tune.py best.pt data.yaml`."""

import sys

from yolofast import Detector

weights, data = sys.argv[1:3]
detector = Detector(weights)
before = detector.val(data, batch_size=16)
run = detector.train(data, epochs=1, batch_size=16, workers=2, name="fine_tune")
after = run.detector.val(data, batch_size=16)
print(f"mAP50 {before.metrics.map50:.3f} -> {after.metrics.map50:.3f}; everything about it: {run.folder}/report.html")
