"""How exactly the camera's motion is found, and in how much time: at half size as published, on the frame, and on the
frame as a detector resizes it.

`OMP_NUM_THREADS=1 python -m benchmarks.bench_camera IMAGES`. A scenery is laid out of the photographs of a folder. Two
views of it differ by a known warp (up to 1° and 2 %, and 30 pixels at 1920), each with noise of its own. An error is
the greatest distance of a corner of the frame from where it should be, in pixels of the frame. Times are processor
time.
"""

import argparse
import platform
import time
from pathlib import Path

import cv2
import numpy as np

from yolofast.media.pictures import fit
from yolofast.track.trackers import camera_motion
from yolofast.track.trackers.camera_motion import ESTIMATED, CameraMotion

FRAMES = ((1920, 1080), (1280, 720), (640, 480))
INPUTS = (1280, 960, 640, 512, 416, 320, 256, 192, 128)
NOBODY = np.zeros((0, 4))


def scenery(folder: Path, width: int, height: int, rng: np.random.Generator) -> np.ndarray:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".jpg", ".png"))
    canvas = np.zeros((height, width, 3), np.uint8)
    for top in range(0, height, 400):
        for left in range(0, width, 500):
            image = cv2.imread(str(files[rng.integers(len(files))]))
            image = cv2.resize(image, (500, 400), interpolation=cv2.INTER_AREA)
            canvas[top : top + 400, left : left + 500] = image[: height - top, : width - left]
    return canvas


def views(folder: Path, size: tuple[int, int], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two views, and the warp from the first to the second."""
    rng, (width, height) = np.random.default_rng(seed), size
    canvas = scenery(folder, width + 200, height + 200, rng)
    angle, zoom = np.deg2rad(rng.uniform(-1, 1)), 1 + rng.uniform(-0.02, 0.02)
    turn = zoom * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    centre = np.array([width, height]) / 2
    warp = np.column_stack((turn, centre - turn @ centre + rng.uniform(-30, 30, 2) * width / 1920))
    off = np.array([[1.0, 0, -100], [0, 1, -100]])
    later = warp @ np.vstack((off, (0, 0, 1)))
    made = [cv2.warpAffine(canvas, matrix, size, flags=cv2.INTER_CUBIC) for matrix in (off, later)]
    noisy = [(one + rng.normal(0, 3, one.shape)).clip(0, 255).astype(np.uint8) for one in made]
    return noisy[0], noisy[1], warp


def corner_error(found: np.ndarray | None, true: np.ndarray, size: tuple[int, int]) -> float:
    warp = np.eye(2, 3) if found is None else found
    corners = np.array([[x, y, 1] for x in (0, size[0]) for y in (0, size[1])])
    return float(np.linalg.norm(corners @ (warp - true).T, axis=1).max())


def measure(
    method: str, pairs: list[tuple[np.ndarray, np.ndarray, np.ndarray]], long_side: int | None, faithful: bool
) -> tuple[list[float], float]:
    """Errors, and the median of milliseconds for a frame."""
    errors, took = [], []
    for first, second, true in pairs:
        size = first.shape[1::-1]
        motion = CameraMotion(method, faithful=faithful)
        for image in (first, second):
            resized = None if long_side is None else fit(image, (long_side, long_side), 32).resized
            begun = time.process_time()
            found = motion.warp(image, NOBODY, resized)
            took.append(time.process_time() - begun)
        errors.append(corner_error(found, true, size))
    return errors, float(np.median(took[1::2])) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--methods", nargs="+", default=ESTIMATED, choices=ESTIMATED)
    args = parser.parse_args()
    cv2.setNumThreads(1)
    camera_motion._LEAST_SIDE = dict.fromkeys(ESTIMATED, 1)  # also what is too small to be used
    print(f"{platform.machine()}, Python {platform.python_version()}, OpenCV {cv2.__version__}; {args.pairs} pairs")
    print("| frame | method | looked at | median error | 90 % | worst | ms |\n|---|---|---|---|---|---|---|")
    for size in FRAMES:
        pairs = [views(args.images, size, seed) for seed in range(args.pairs)]
        for method in args.methods:
            ways: list[tuple[str, int | None, bool]] = [("half size, as published", None, True), ("frame", None, False)]
            ways += [(f"detector's {one}", one, False) for one in INPUTS if one < size[0]]
            for name, long_side, faithful in ways:
                errors, ms = measure(method, pairs, long_side, faithful)
                middle, most = np.percentile(errors, (50, 90))
                shown = f"{middle:.2f} | {most:.2f} | {max(errors):.2f} | {ms:.1f}"
                print(f"| {size[0]}×{size[1]} | {method} | {name} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
