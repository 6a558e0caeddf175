"""Networks asked: weights -> network -> detections -> how good they are."""
