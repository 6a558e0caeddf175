"""How long looking for objects takes, per image: the network, and suppression."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Timing:
    inference: float
    """Milliseconds per image, from levels on the device to decoded predictions."""
    suppression: float
    """Milliseconds per image, to detections on the host."""
    images: int
    size: int
    """Pixels of the long side."""
    batch: int

    @property
    def total(self) -> float:
        return self.inference + self.suppression

    def __str__(self) -> str:
        return (
            f"speed: {self.inference:.2f} ms inference, {self.suppression:.2f} ms NMS, {self.total:.2f} ms total per "
            f"image at {self.size} pixels and batch size {self.batch} ({self.images:,} images)"
        )
