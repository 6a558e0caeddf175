"""What a trained detector sees in a picture: `python examples/find_objects.py best.pt street.jpg`."""

import sys

from yolofast import Detector

weights, picture = sys.argv[1:3]
detector = Detector(weights)
(found,) = detector.predict(picture, conf=0.3)
print(f"{len(found)} objects in {picture}")
for box, score, label in zip(found.boxes, found.scores, found.labels, strict=True):
    print(f"{detector.names[int(label)]:10} {score:.2f}  {' '.join(f'{side:.0f}' for side in box)}")
