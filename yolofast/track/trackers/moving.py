"""The models of motion by name, and what trackers that can use any of them share."""

from collections.abc import Mapping
from typing import Any, ClassVar

from yolofast.errors import UserError, nearest
from yolofast.track.trackers.motion.box_filters import KalmanAspect, KalmanSides
from yolofast.track.trackers.motion.model import Motion
from yolofast.track.trackers.motion.trackssm import TrackSSMMotion
from yolofast.track.trackers.tracker import Tracker

MOTIONS: dict[str, type[Motion]] = {kind.name: kind for kind in (KalmanAspect, KalmanSides, TrackSSMMotion)}
"""One more is a file in `motion/` and a line here."""
OWN = "kalman"


class MovingTracker(Tracker):
    """Its `motion` setting names a model of motion."""

    own_motion: ClassVar[type[Motion]]
    """What "kalman" means for it: the filter it was published with."""

    def __init__(self, settings: Any, *, frame_rate: float, faithful: bool, classes: str) -> None:
        kinds = {OWN: self.own_motion, **MOTIONS}
        if settings.motion not in kinds:
            hint = nearest(settings.motion, kinds)
            raise UserError(f"motion is {settings.motion!r}{hint}", fix=f"use one of {', '.join(kinds)}")
        self.motion = kinds[settings.motion](settings)
        super().__init__(settings, frame_rate=frame_rate, faithful=faithful, classes=classes)

    @property
    def kind(self) -> str:
        return self.name if isinstance(self.motion, self.own_motion) else f"{self.name} with {self.motion.name}"

    def reset(self) -> None:
        super().reset()
        self.motion.clear()

    def _motion_state(self) -> dict[str, Any]:
        return self.motion.state_dict()

    def _load_motion(self, given: Mapping[str, Any], count: int) -> None:
        self.motion.load_state_dict(given, count)
