"""What `yolofast track` keeps of each video: results, drawn video, counts and detections, and the progress it shows."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from yolofast.config.track import TrackConfig
from yolofast.errors import UserError
from yolofast.media.frames import Video
from yolofast.media.video_writer import VideoWriters
from yolofast.pixels import Image
from yolofast.track.counting import Counts, Shape
from yolofast.track.drawing import TrackDrawing
from yolofast.track.formats.detections import ENDING, Making, write_detections
from yolofast.track.formats.recorder import DetectionRecorder
from yolofast.track.pipeline import FollowedFrame
from yolofast.track.result_files import TrackFiles, class_name
from yolofast.track.timeline import FramePlace
from yolofast.words import counted

_SHOW_EVERY = 0.2
_SAY_EVERY = 30.0
"""Seconds, where output is not a terminal."""


class _OneVideo:
    def __init__(
        self, config: TrackConfig, place: FramePlace, names: Sequence[str], shapes: Sequence[Shape], folder: Path,
        made: Making | None,
    ) -> None:  # fmt: skip
        self.place, self._config, self._folder = place, config, folder
        about = {"tracker": config.tracker, "settings": list(config.track), "frame_rate": place.numbers_per_second}
        about |= {"vid_stride": place.every}
        self.files = TrackFiles(folder, place.video, about, names)
        self.counts = Counts(shapes, config.count_at)
        self._drawing = TrackDrawing(
            names, trail=config.trail, line_width=config.line_width, show_lost=config.show_lost, at=config.count_at
        )
        self._writer = VideoWriters()
        self._recorder = None
        if config.save_detections:
            rate = place.numbers_per_second
            self._recorder = DetectionRecorder(place.video, rate, names, every=place.every, made=made)
        self.source, self._is_images = "", False
        self.frames = self.boxes = self.last = self._seen = 0
        self._highest = 0.0
        self.is_closed = False

    def add(self, one: FollowedFrame) -> Image | None:
        self.frames += 1
        self.last = one.place.number
        self.boxes += len(one.tracks)
        self._seen += len(one.found)
        self._highest = max(self._highest, float(one.found.scores.max(initial=0.0)))
        self.files.add(one)
        image = None if one.frame is None else one.frame.image
        size = one.size
        if one.frame is not None:
            self.source, self._is_images = one.frame.name, one.frame.video is None
        self.counts.add(one.tracks, one.lost, size)
        if self._recorder is not None:
            found = one.found
            self._recorder.add(
                one.place.number, one.place.time, size, found.boxes, found.scores, found.labels, one.features, one.warp
            )
        if image is None or (self._config.nosave and not self._config.view_img):
            return image
        drawn = self._drawing.draw(image, one.tracks, one.lost, self.counts)
        if not self._config.nosave:
            place = one.place
            video = Video(place.video, place.frame_rate, place.length, place.live)
            self._writer.write(self._folder / f"{place.video}.mp4", drawn, video)
        return drawn

    def why_nothing(self) -> str | None:
        """Said where there are frames and no tracks."""
        if self.boxes or not self.frames:
            return None
        if not self._seen:
            return "no detection reached the tracker"
        found = f"none of {counted(self._seen, 'detection')} became a track, their highest score is {self._highest:.3g}"
        return f"{found}; --explain FRAME says what becomes of each"

    def _concerns(self, fault: UserError) -> bool:
        """The images of a folder are one video."""
        if fault.where is None or not self.source:
            return False
        in_folder = self._is_images and Path(fault.where).parent == Path(self.source).parent
        return in_folder or fault.where == self.source

    def close(self, faults: Sequence[UserError], *, complete: bool) -> None:
        """Results so far, whole files of them."""
        if self.is_closed:
            return
        self.is_closed = True
        self._writer.close()
        remarks = [str(fault) for fault in faults if self._concerns(fault)]
        self.files.close(self.counts, remarks, last_frame=self.last, complete=complete)
        if self._recorder is not None:
            path = self._folder / "detections" / f"{self.place.video}{ENDING}"
            write_detections(path, self._recorder.stored())


class TrackRun:
    """The folder is made with the first frame, so that a run without frames leaves no folder."""

    def __init__(
        self, config: TrackConfig, names: Sequence[str], shapes: Sequence[Shape], make_folder: Callable[[], Path],
        made: Making | None = None,
    ) -> None:  # fmt: skip
        """`made` says how the network's detections are made, to be stored with them."""
        self._made = made
        self._config, self._names, self._shapes, self._make_folder = config, names, shapes, make_folder
        self._videos: dict[str, _OneVideo] = {}
        self._folder: Path | None = None
        self.count = 0

    @property
    def folder(self) -> Path:
        if self._folder is None:
            self._folder = self._make_folder()
        return self._folder

    def add(self, one: FollowedFrame, faults: Sequence[UserError]) -> Image | None:
        """Writes what the settings name; the drawn image, if there is one."""
        self.count += 1
        video = self._videos.get(one.place.video)
        if video is None:
            if len(self._config.source) <= 1 and not one.place.live:  # the one before has ended
                self.close(faults)
            video = self._begin(one.place)
        return video.add(one)

    def add_empty(self, name: str, frame_rate: float) -> None:
        """A video without frames has results too, empty ones."""
        self._begin(FramePlace(name, 0, 0.0, frame_rate, 0, False)).close((), complete=True)

    def _begin(self, place: FramePlace) -> _OneVideo:
        video = _OneVideo(self._config, place, self._names, self._shapes, self.folder, self._made)
        self._videos[place.video] = video
        return video

    def close(self, faults: Sequence[UserError], *, complete: bool = True) -> None:
        for video in self._videos.values():
            video.close(faults, complete=complete)

    def so_far(self) -> str:
        """After an interrupt: what was kept."""
        ends = ", ".join(f"{name} to frame {video.last:,}" for name, video in self._videos.items())
        return f"results so far are in {self.folder}: {ends}"

    def summary(self) -> list[tuple[str, ...]]:
        """Video, frames, boxes, identities, and those by class."""
        rows: list[tuple[str, ...]] = []
        for name, video in self._videos.items():
            found = video.counts.identities()
            by_class = ", ".join(f"{count:,} {class_name(label, self._names)}" for label, count in found.most_common())
            rows.append((name, f"{video.frames:,}", f"{video.boxes:,}", f"{found.total():,}", by_class))
        return rows

    def nothing(self) -> Generator[str]:
        """Which videos have no tracks, and why."""
        for name, video in self._videos.items():
            if why := video.why_nothing():
                yield f"{name}: {why}"

    def counted_shapes(self) -> Generator[str]:
        for name, video in self._videos.items():
            for line, crossings in video.counts.lines.items():
                ways = f"{crossings.forwards.total():,} forwards, {crossings.backwards.total():,} backwards"
                yield f"{name}, {line}: {ways}"
            for zone, visitors in video.counts.zones.items():
                inside, entered = visitors.inside.total(), visitors.entered.total()
                yield f"{name}, {zone}: {inside:,} inside at the end, {entered:,} in all"

    @contextmanager
    def progress(self, out: Console) -> Generator[Callable[[FollowedFrame], None]]:
        """A moving line on terminals, elsewhere a line now and then."""
        began = shown = time.monotonic()

        def figures(one: FollowedFrame) -> str:
            speed = self.count / max(time.monotonic() - began, 1e-9)
            return f"{len(one.tracks)} tracks, {speed:,.1f} frames/s"

        if not out.is_terminal:

            def say(one: FollowedFrame) -> None:
                nonlocal shown
                if time.monotonic() - shown >= _SAY_EVERY:
                    shown = time.monotonic()
                    out.print(f"{one.place.video} frame {one.place.number}: {figures(one)}", soft_wrap=True)

            yield say
            return
        columns = TextColumn("{task.description}", markup=False), MofNCompleteColumn(), BarColumn(20)
        line = TextColumn("{task.fields[figures]}", markup=False)
        with Progress(*columns, line, console=out, transient=True, auto_refresh=False) as bar:
            task = bar.add_task("", total=None, figures="")

            def move(one: FollowedFrame) -> None:
                nonlocal shown
                if time.monotonic() - shown >= _SHOW_EVERY:
                    shown = time.monotonic()
                    place, text = one.place, figures(one)
                    bar.update(
                        task, description=place.video, completed=place.number, total=place.length, figures=text,
                        refresh=True,
                    )  # fmt: skip

            yield move
