"""A window on the screen that shows frames as they come."""

import os
import sys
from collections.abc import Callable

import cv2

from yolofast.pixels import Image

_ESCAPE = 27


class Window:
    """`--view-img`: one window per source. Where none can be opened, one warning says so."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._why_not = say, why_no_window()
        if self._why_not:
            say(f"warning: --view-img shows nothing: {self._why_not}; results are saved as usual")

    def show(self, name: str, image: Image) -> bool:
        """False when the user ends it: `q` or Escape."""
        if self._why_not:
            return True
        try:
            cv2.imshow(name, image)
            return cv2.waitKey(1) & 0xFF not in (ord("q"), _ESCAPE)
        except cv2.error as error:
            self._why_not = error.err
            self._say(f"warning: --view-img shows nothing more: {error.err}")
            return True


def show_until_key(name: str, image: Image) -> None:
    cv2.imshow(name, image)
    cv2.waitKey(0)
    cv2.destroyWindow(name)


def why_no_window() -> str:
    """Empty if there can be one."""
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if sys.platform == "linux" and not has_screen:  # checked first, because OpenCV ends the process without one
        return "there is no display"
    try:
        cv2.namedWindow("yolofast")
        cv2.destroyWindow("yolofast")
    except cv2.error:
        return "this OpenCV cannot open windows: install opencv-python instead of opencv-python-headless"
    return ""
