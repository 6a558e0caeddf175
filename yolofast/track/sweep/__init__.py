"""Settings and checkpoints searched by evidence: many settings tracked and scored from detections made once."""
