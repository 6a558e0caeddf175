"""Weights -> network -> detections -> how good they are."""
