"""A data set of any known form made into one to train on: read, checked, divided, written; and what became of it.

The folder appears whole or not at all. What was left out is counted by reason, and every fault is in `conversion.json`.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from yolofast.dataset.data_yaml import IMAGE_SUFFIXES
from yolofast.dataset.faults import Fault, FaultKind
from yolofast.dataset.formats.fit import Choice, choose, onto_images, without_bad_images
from yolofast.dataset.formats.labelled import Labelled
from yolofast.dataset.formats.places import ANNOTATIONS, ImagePlaces, root_of
from yolofast.dataset.formats.recognise import JUNK, recognise, recognise_unread
from yolofast.dataset.formats.splits import asked_for, divide
from yolofast.dataset.formats.write import Place, copy_image, link_image, move_image, write_data_set
from yolofast.dataset.shapes.made_once import make_once
from yolofast.errors import UserError
from yolofast.extensions import FORMATS
from yolofast.files.archive import Archive, is_archive
from yolofast.words import counted

REPORT = "conversion.json"
_SHOWN, _SHOWN_OF_A_KIND = 8, 2


@dataclass(frozen=True)
class ConvertRequest:
    source: Path
    to: str
    """yolo or coco."""
    form: str = "auto"
    images: Path | None = None
    """Where the images are, if not near their labels."""
    choice: Choice = field(default_factory=Choice)
    splits: tuple[str, ...] = ()
    group: str = "auto"
    seed: int = 0
    copy: bool = False
    skip_bad: bool = False


@dataclass(frozen=True)
class SplitSummary:
    images: int
    boxes: int
    outlines: int
    background: int
    classes: dict[str, int]


class Conversion:
    """To be made once, by `make`; then it says what was read, what was left out, and what there is."""

    def __init__(self, request: ConvertRequest, say: Callable[[str], None]) -> None:
        self.request, self._say = request, say
        self.found = Labelled()
        self.names: list[str] = []
        self.splits: dict[str, SplitSummary] = {}
        self.form, self.to = request.form, request.to

    def make(self, folder: str | Path) -> Path:
        """The folder, which must be new or empty. Raises `UserError`."""
        return make_once(folder, self)

    def is_complete(self, folder: Path) -> bool:
        return False  # it is never found to be there already

    def is_such(self, folder: Path) -> bool:
        return False

    def write(self, folder: Path) -> None:
        request = self.request
        asked_for(request.splits, request.group)
        with _source(request.source, folder) as (source, place, called), _aside(folder) as aside:
            self.form = known_form(request.source, request.form)
            self.found = found = read_labelled(source, self.form, request.images, aside)
            self._say(f"read: {counted(len(found.images), 'image')} of {FORMATS[self.form].title}")
            onto_images(found)
            if not request.skip_bad:
                refuse(found, request.source, self.form)
            without_bad_images(found)
            self.names = choose(found, request.choice, crowds=self.to == "coco")
            divide(found, request.splits, request.group, request.seed)
            _call(found, called)
            place = copy_image if request.copy else place
            self.write_found(folder, lambda file, to: (move_image if aside in Path(file).parents else place)(file, to))

    def write_found(self, folder: Path, place: Place) -> None:
        found, request = self.found, self.request
        if not found.images or not self.names:
            what = "no image is left to write" if not found.images else "no object is left to write"
            refused = _fatal(found)
            fix = "correct them" if refused else "check the folder"
            raise UserError(f"{what}: {_reasons(found)}{_in_lines(refused)}", where=request.source, fix=fix)
        about = f"# Made by `yolofast convert` of {FORMATS[self.form].title}; {REPORT} says what was left out.\n"
        write_data_set(folder, found.images, self.names, self.to, place, about, found.coco_ids)
        self.splits = _summaries(found)
        (folder / REPORT).write_text(json.dumps(self.report(), indent=1) + "\n", "utf-8")

    def report(self) -> dict[str, Any]:
        found = self.found
        return {
            "source": str(self.request.source),
            "from": self.form,
            "to": self.to,
            "classes": self.names,
            "splits": {name: asdict(one) for name, one in self.splits.items()},
            "left_out": dict(found.dropped),
            "changed": dict(found.changed),
            "remarks": found.remarks,
            "faults": [asdict(fault) for fault in found.faults],
        }


Called = Callable[[str], str]
"""A text whose paths are those that its reader knows."""


@contextmanager
def _source(source: Path, folder: Path) -> Iterator[tuple[Path, Place, Called]]:
    """What to read, how its images get to their new place, and what its files are called.

    A zip is unpacked beside the new folder. That place is gone when its messages are read: they name the zip.
    """
    if not is_archive(source):
        yield source, link_image, lambda text: text
        return
    with Archive(source) as archive, tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpacked-") as unpacked:
        endings = (*IMAGE_SUFFIXES, *ANNOTATIONS)
        count = archive.unpack(Path(unpacked), lambda name: name.lower().endswith(endings) and not JUNK.search(name))
        if not count:
            raise UserError("holds neither images nor labels", where=source, fix="give the zip of an export")
        inside = list(Path(unpacked).iterdir())
        top = inside[0] if len(inside) == 1 and inside[0].is_dir() else Path(unpacked)

        def called(text: str) -> str:
            return text.replace(str(Path(unpacked).resolve()), str(source)).replace(unpacked, str(source))

        try:
            yield top, move_image, called
        except UserError as error:
            error.where = error.where and called(error.where)
            error.say(called(error.what), error.fix and called(error.fix))
            raise


def _call(found: Labelled, called: Called) -> None:
    found.remarks = [called(remark) for remark in found.remarks]
    found.faults = [
        replace(one, where=called(one.where), what=called(one.what), fix=called(one.fix)) for one in found.faults
    ]


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """Beside the new folder, so pictures are moved there without being copied."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".pictures-") as aside:
        yield Path(aside)


def known_form(source: Path, form: str) -> str:
    """The form asked for, or the one that the content shows."""
    if form != "auto":
        return form
    root_of(source)
    if source.suffix.lower() in (".yaml", ".yml") or (source / "data.yaml").is_file():
        return "yolo"
    seen = recognise(source)
    if seen is None and (title := recognise_unread(source)):
        what = f"looks like {title}, which cannot be converted"
        raise UserError(what, where=source, fix="export it again as COCO or YOLO")
    if seen is None or FORMATS[seen.format].holds != "images":
        known = ", ".join(name for name, entry in FORMATS.items() if entry.holds == "images")
        raise UserError(
            "is of no form that is known", where=source, fix=f"name it with --from: {known}; sequences need --to"
        )
    return seen.format


def read_labelled(source: Path, form: str, images: Path | None, aside: Path | None = None) -> Labelled:
    """As the source has it: nothing is checked against the images yet. Pictures in label files are put `aside`."""
    found = Labelled()
    if images is not None and not images.is_dir():
        raise UserError("is not a folder", where=images, fix="give the folder of the images after --images")
    if source.suffix.lower() in (".yaml", ".yml"):
        places = ImagePlaces([])
    else:
        root = root_of(source)
        # Exports often have annotations and images side by side, and the annotations' folder is named.
        near = [root] if images is None else [images]
        places = ImagePlaces(near, aside)
        if not len(places) and images is None and root.parent != root:
            places = ImagePlaces([root.parent], aside, guessed=True)
    import_module(FORMATS[form].code).read(source, places, found)
    whole = source.is_dir() or images is not None  # beside one file lie images of others
    if whole and places.found and not places.guessed and (left := len(places) - len(places.found)):
        found.dropped["images without an annotation"] += left
    if images is None and len(places) and places.guessed and found.images:
        found.remarks.append(f"no image lies below {root}, so those of {root.parent} are used, or name them: --images")
    if not found.images and not any(fault.fatal for fault in found.faults):
        what = f"holds no labels of {FORMATS[form].title} for {counted(len(places), 'image')}"
        fix = _another_form(source, form) or "check --from, and name the images' folder with --images"
        raise UserError(what, where=source, fix=fix)
    return found


def _another_form(source: Path, form: str) -> str:
    seen = recognise(source)
    return "" if seen is None or seen.format == form else f"it looks like {seen.title}: --from {seen.format}"


def refuse(found: Labelled, source: Path, form: str) -> None:
    """Raises one message that shows the first fatal faults of each kind, and the way out."""
    fatal = _fatal(found)
    if not fatal:
        return
    fix = _another_form(source, form) if not found.images else ""
    fix = (
        fix or "correct them, or add --skip-bad, which leaves out images with faults and lists them in conversion.json"
    )
    raise UserError(f"{counted(len(fatal), 'fault')}:{_in_lines(fatal)}", where=source, fix=fix)


def _fatal(found: Labelled) -> list[Fault]:
    return [fault for fault in found.faults if fault.fatal]


def _in_lines(fatal: list[Fault]) -> str:
    """The first of each kind."""
    by_kind: dict[FaultKind, list[Fault]] = {}
    for fault in fatal:
        by_kind.setdefault(fault.kind, []).append(fault)
    lines = []
    for kind, own in list(by_kind.items())[:_SHOWN]:
        lines.append(f"\n  {kind} ({len(own):,})")
        lines += [f"\n    {fault}\n      fix: {fault.fix}" for fault in own[:_SHOWN_OF_A_KIND]]
    return "".join(lines)


def _reasons(found: Labelled) -> str:
    reasons = [f"{reason} ({count:,})" for reason, count in found.dropped.items()]
    return "; ".join(reasons) or ("faults" if _fatal(found) else "the source holds none")


def _summaries(found: Labelled) -> dict[str, SplitSummary]:
    made = {}
    for split in ("train", "val", "test"):
        own = [image for image in found.images if image.split == split]
        if own:
            objects = [one for image in own for one in image.objects]
            made[split] = SplitSummary(
                images=len(own),
                boxes=len(objects),
                outlines=sum(bool(one.parts) for one in objects),
                background=sum(not image.objects for image in own),
                classes=dict(Counter(one.name for one in objects)),
            )
    return made
