"""The same step at three speeds: as written, captured as a CUDA graph, compiled."""
