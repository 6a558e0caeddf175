"""What can be set of each tracker, by the published names."""

from dataclasses import dataclass, fields

_WORDS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False, "none": None, "null": None}


@dataclass(frozen=True)
class ByteTrackSettings:
    track_thresh: float = 0.6
    track_low_thresh: float = 0.1
    new_track_thresh: float | None = None
    """By default `track_thresh` + 0.1."""
    match_thresh: float = 0.9
    """The greatest cost of a match, below 1: higher is more permissive."""
    track_buffer: int = 30
    mot20: bool = False
    """Costs are overlaps alone, without the detection's score."""
    motion: str = "kalman"
    """The model of motion: "kalman" is the filter that was published with the tracker, or one of `moving.py`."""
    motion_weights: str = ""
    """Of a learned model: its weight file."""
    motion_sigmoid: bool = True
    """Whether its boxes stay inside the image, for files that do not say it: off in those published for MOT17."""
    motion_device: str = ""
    """Where it computes: by default on a GPU if there is one."""

    @property
    def track_high_thresh(self) -> float:
        return self.track_thresh


@dataclass(frozen=True)
class BotSortSettings:
    track_high_thresh: float = 0.6
    track_low_thresh: float = 0.1
    new_track_thresh: float | None = 0.7
    match_thresh: float = 0.8
    track_buffer: int = 30
    mot20: bool = False
    with_reid: bool = False
    proximity_thresh: float = 0.5
    """Appearance counts up to this distance (1 − IoU)."""
    appearance_thresh: float = 0.25
    cmc_method: str = "sparseOptFlow"
    motion: str = "kalman"
    motion_weights: str = ""
    motion_sigmoid: bool = True
    motion_device: str = ""


@dataclass(frozen=True)
class OcSortSettings:
    det_thresh: float = 0.6
    max_age: int = 30
    """How long a lost one is kept: frames, if there are 30 in a second."""
    min_hits: int = 3
    iou_threshold: float = 0.3
    delta_t: int = 3
    asso_func: str = "iou"
    inertia: float = 0.2
    use_byte: bool = False
    motion: str = "kalman"
    motion_weights: str = ""
    motion_sigmoid: bool = True
    motion_device: str = ""


@dataclass(frozen=True)
class BoostTrackSettings:
    det_thresh: float = 0.6
    max_age: int | None = None
    """By default two seconds; faithful: 30 frames at least."""
    min_hits: int = 3
    iou_threshold: float = 0.3
    lambda_iou: float = 0.5
    lambda_mhd: float = 0.25
    lambda_shape: float = 0.25
    use_dlo_boost: bool = True
    """Raise detections near tracks."""
    use_duo_boost: bool = True
    """Raise detections far from all tracks."""
    dlo_boost_coef: float = 0.65
    use_rich_s: bool = False
    """BoostTrack++: overlap, distance and shape together say whether a track is near."""
    s_sim_corr: bool = False
    """Divide differences of height by the height; the published default divides them by the width."""
    with_reid: bool = False
    cmc_method: str = "none"


_TEXTS = {
    one.name
    for kind in (ByteTrackSettings, BotSortSettings, OcSortSettings, BoostTrackSettings)
    for one in fields(kind)
    if isinstance(one.default, str)
}


def value_of(name: str, text: str) -> bool | int | float | str | None:
    """Of a setting that is written as text; what is a word for trackers stays one: `cmc_method=none`."""
    if name in _TEXTS:
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
