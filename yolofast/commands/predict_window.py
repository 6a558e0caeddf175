"""`--view-img`: pictures in a window, where there can be one."""

import os
import sys
from collections.abc import Callable

import cv2

from yolofast.pixels import Image

_ESCAPE = 27


class Window:
    """One window per film or folder. Where none can be opened this is said once, and nothing is shown."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._why_not = say, why_no_window()
        if self._why_not:
            say(f"warning: --view-img shows nothing: {self._why_not}; the pictures are saved as usual")

    def show(self, name: str, image: Image) -> bool:
        """False when the user has seen enough: `q` or Escape."""
        if self._why_not:
            return True
        try:
            cv2.imshow(name, image)
            return cv2.waitKey(1) & 0xFF not in (ord("q"), _ESCAPE)
        except cv2.error as error:
            self._why_not = error.err
            self._say(f"warning: --view-img shows nothing more: {error.err}")
            return True


def why_no_window() -> str:
    """Empty if there can be one."""
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if sys.platform == "linux" and not has_screen:  # asked first, because OpenCV ends the process without one
        return "there is no display"
    try:
        cv2.namedWindow("yolofast")
        cv2.destroyWindow("yolofast")
    except cv2.error:
        return "this OpenCV was built without windows: install opencv-python instead of opencv-python-headless"
    return ""
