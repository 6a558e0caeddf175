"""Something that is the matter with a run, and the numbers it rests on."""

from dataclasses import dataclass, field

DIVERGENCE, OVERFITTING, PLATEAU = "divergence", "overfitting", "plateau"
LEARNING_RATE, MIX, SIZE, BOXES = "learning rate", "data mix", "image size", "boxes"
OSCILLATION, NOISE = "oscillation", "batch noise"


@dataclass(frozen=True)
class Verdict:
    kind: str
    text: str
    numbers: dict[str, float] = field(default_factory=dict)
