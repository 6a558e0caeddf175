"""Which image belongs to which split: as the source says, by lists, or by shares, without a group in two of them.

Frames of a video look alike, and so do augmented copies: if some are learnt from and others measured on, the measure is
of memory. So a group is never divided. Which group goes where is a function of the seed and its name alone; a split is
filled with whichever group comes next, if it is the one that lacks most.
"""

import hashlib
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from yolofast.dataset.data_yaml import SPLITS
from yolofast.dataset.formats.labelled import Labelled, LabelledImage
from yolofast.dataset.yolo_labels import read_label
from yolofast.errors import UserError, nearest, shorten
from yolofast.words import counted

USUAL = {"train": 0.8, "val": 0.2}
"""Of sources that have no splits, or nothing to validate on."""
GROUPS = ("auto", "none", "video", "folder")
_COPY = re.compile(r"(.+)\.rf\.[0-9A-Za-z]{8,}")
_FRAME_NUMBER = re.compile(r"[-_. ]*(?:frame|img|image|f)?[-_. ]*\d+$", re.IGNORECASE)
_FAR_OFF = 0.5
_FEW_VIDEOS, _MANY_FRAMES = 50, 10


def divide(found: Labelled, wanted: Sequence[str], group: str, seed: int) -> None:
    """Sets the split of every image. `wanted` is `train=0.8 val=0.2`, or `train=list.txt`; empty: as in the source."""
    shares, lists, key = asked_for(wanted, group)
    for image in found.images:
        image.group = key(image)
    if lists:
        _by_lists(found, lists)
    elif shares:
        _by_shares(found.images, shares, seed)
        _remark_on_empty(found, shares)
    else:
        _as_in_source(found, seed)
    _remark_on_leaks(found, group)


def asked_for(
    wanted: Sequence[str], group: str
) -> tuple[dict[str, float], dict[str, str], Callable[[LabelledImage], str]]:
    """Shares, lists, and what names an image's group. Raises `UserError`, before the source is read."""
    parsed = [_parsed(one) for one in wanted]
    shares = {name: value for name, value in parsed if isinstance(value, float)}
    lists = {name: value for name, value in parsed if not isinstance(value, float)}
    if shares and lists:
        raise UserError("--split has both shares and lists", fix="give train=0.8 val=0.2, or train=FILE val=FILE")
    return shares, lists, _grouping(group)


def _parsed(text: str) -> tuple[str, float | str]:
    name, found, value = text.partition("=")
    if not found or name not in SPLITS or not value:
        what = f"--split is {shorten(text)}{nearest(name, SPLITS) if found else ''}"
        raise UserError(what, fix="give train=0.8 val=0.2, or train=train.txt val=val.txt; splits are train, val, test")
    try:
        share = float(value)
    except ValueError:
        return name, value
    if not 0 < share < math.inf:
        raise UserError(f"--split is {shorten(text)}", fix="give shares above 0: train=0.8 val=0.2")
    return name, share


def _grouping(group: str) -> Callable[[LabelledImage], str]:
    """What names an image's group."""
    if group == "none":
        return lambda image: image.called
    if group == "folder":
        return lambda image: os.path.dirname(image.called)
    if group == "video":
        return lambda image: image.group or _video(image.called)
    if group == "auto":
        return lambda image: image.group or _original(image.called)
    try:
        pattern = re.compile(group)
    except re.error as error:
        fix = f"give {', '.join(GROUPS)}, or a regular expression such as '(clip\\d+)_'"
        raise UserError(f"--group is {shorten(group)}: {error}", fix=fix) from None

    def matched(image: LabelledImage) -> str:
        part = pattern.search(image.called)
        return image.called if part is None else part[1] if pattern.groups else part[0]

    return matched


def _original(file: str) -> str:
    """Roboflow's copies of one picture are called alike up to `.rf.`."""
    folder, name = os.path.split(file)
    copy = _COPY.fullmatch(os.path.splitext(name)[0])
    return copy[1] if copy else os.path.join(folder, name)


def _video(file: str) -> str:
    """The path without the frame's number: `clips/a_0001.jpg` is of `clips/a`."""
    stem = os.path.splitext(_original(file))[0]
    return _FRAME_NUMBER.sub("", stem)


def _by_lists(found: Labelled, lists: Mapping[str, str]) -> None:
    """A line names an image, by its path, its name or its stem, or a group: a video, a folder."""
    named = _Named(found.images)
    for image in found.images:
        image.split = ""
    for split, path in lists.items():
        file = read_label(path)
        if file.text is None:
            raise UserError(f"--split {split}={path}: {file.reason or 'no such file'}", fix="give a share or a list")
        for number, line in enumerate(file.text.splitlines(), 1):
            if not (word := line.strip().replace("\\", "/").removeprefix("./")):
                continue
            images = named.by(word)
            if not images:
                what = f"{shorten(word)} names neither one image nor a group of the source"
                raise UserError(what, where=path, line=number, fix="correct or remove the line")
            if taken := next((image.split for image in images if image.split not in ("", split)), None):
                what = f"{shorten(word)} is in {taken} already"
                raise UserError(what, where=path, line=number, fix="keep it in one list only")
            for image in images:
                image.split = split
    if left := sum(not image.split for image in found.images):
        found.dropped["images that no list names"] += left
        found.images = [image for image in found.images if image.split]


class _Named:
    def __init__(self, images: Sequence[LabelledImage]) -> None:
        self._images: dict[str, list[LabelledImage]] = defaultdict(list)
        self._groups: dict[str, list[LabelledImage]] = defaultdict(list)
        for image in images:
            name = os.path.basename(image.called)
            for word in {name, os.path.splitext(name)[0]}:
                self._images[word].append(image)
            for word in {image.group, os.path.basename(image.group)}:
                self._groups[word].append(image)

    def by(self, word: str) -> list[LabelledImage]:
        """The one image of that name, whose path ends so if several have it; else the group of that name."""
        same = self._images.get(os.path.basename(word), [])
        tail = f"/{word.lstrip('/')}"
        ends = [one for one in same if one.called.endswith(tail) or os.path.splitext(one.called)[0].endswith(tail)]
        exact = ends if len(ends) == 1 else same if len(same) == 1 else []
        return exact or self._groups.get(word) or self._groups.get(os.path.basename(word.rstrip("/")), [])


def _by_shares(images: Sequence[LabelledImage], shares: Mapping[str, float], seed: int) -> None:
    groups: dict[str, list[LabelledImage]] = defaultdict(list)
    for image in images:
        groups[image.group].append(image)
    # The name without its folders: the same pictures in another place are divided alike.
    drawn = sorted(groups, key=lambda group: _drawn(seed, os.path.basename(group), group))
    sizes = {group: len(own) for group, own in groups.items()}
    whole = sum(shares.values())
    wanted = {split: round(share / whole * len(images), 6) for split, share in shares.items()}
    filled = _filled(drawn, sizes, wanted)
    if _worst(filled, sizes, wanted) > _FAR_OFF:  # a few groups of very different sizes: the largest go first
        by_size = _filled(sorted(drawn, key=lambda group: -sizes[group]), sizes, wanted)
        filled = min(filled, by_size, key=lambda one: _worst(one, sizes, wanted))
    for group, split in filled.items():
        for image in groups[group]:
            image.split = split


def _filled(order: Sequence[str], sizes: Mapping[str, int], wanted: Mapping[str, float]) -> dict[str, str]:
    """The split of every group: each goes where most is lacking."""
    lacking, filled = dict(wanted), {}
    for group in order:
        filled[group] = split = max(lacking, key=lambda name: lacking[name])
        lacking[split] -= sizes[group]
    for split in wanted:
        if split not in filled.values() and len(filled) >= len(wanted):  # a small one would get nothing
            fullest = Counter(filled.values()).most_common(1)[0][0]
            last = next(group for group in reversed(order) if filled[group] == fullest)
            filled[last] = split
    return filled


def _worst(filled: Mapping[str, str], sizes: Mapping[str, int], wanted: Mapping[str, float]) -> float:
    """The largest share of a split by which it is too large or too small."""
    got = Counter[str]()
    for group, split in filled.items():
        got[split] += sizes[group]
    return max(abs(got[split] - count) / max(count, 1e-6) for split, count in wanted.items())


def _drawn(seed: int, *words: str) -> bytes:
    return b"".join(
        hashlib.blake2b(f"{seed} {word}".encode("utf-8", "surrogateescape"), digest_size=8).digest() for word in words
    )


def _as_in_source(found: Labelled, seed: int) -> None:
    """What has no split, or a train split with nothing beside it to validate on, is divided."""
    without = [image for image in found.images if not image.split]
    present = {image.split for image in found.images if image.split}
    if without and present:
        found.dropped["images in no split of the source"] += len(without)
        found.images = [image for image in found.images if image.split]
        without = []
    lacks = not {"train", "val"} <= present
    to_divide = without or [one for one in found.images if lacks and one.split in ("train", "val")]
    if len({image.group for image in to_divide}) < 2:
        for image in without:
            image.split = "train"
        if to_divide:
            _remark_on_empty(found, USUAL)
        return
    _by_shares(to_divide, USUAL, seed)
    what = "train on" if "train" not in present else "validate on"
    why = "the source has no splits" if without else f"the source has nothing else to {what}"
    shares = " ".join(f"{name}={share:g}" for name, share in USUAL.items())
    found.remarks.append(f"{why}: {counted(len(to_divide), 'image')} divided as by --split {shares}")


def _remark_on_empty(found: Labelled, shares: Mapping[str, float]) -> None:
    present = {image.split for image in found.images}
    if empty := [split for split in shares if split not in present]:
        groups, images = len({image.group for image in found.images}), counted(len(found.images), "image")
        why = f"of {counted(groups, 'group')} none is divided; --group none does"
        if groups == len(found.images):
            why = "there is 1 image" if groups == 1 else f"there are {images}"
        found.remarks.append(f"nothing is left for {', '.join(empty)}: {why}")


def _remark_on_leaks(found: Labelled, group: str) -> None:
    splits_of: dict[str, set[str]] = defaultdict(set)
    for image in found.images:
        splits_of[image.group].add(image.split)
    shared = sorted(name for name, splits in splits_of.items() if len(splits) > 1)
    if shared:
        example = os.path.basename(shared[0])
        found.remarks.append(
            f"{counted(len(shared), 'group')} of images that belong together are in several splits, such as {example}: "
            "--split train=0.8 val=0.2 divides anew, by groups"
        )
    if group != "auto" or len(found.images) < _MANY_FRAMES:
        return
    videos = {_video(image.called) for image in found.images}
    in_two = len({(_video(image.called), image.split) for image in found.images}) > len(videos)
    if 1 < len(videos) <= min(_FEW_VIDEOS, len(found.images) // _MANY_FRAMES) and in_two:
        found.remarks.append(
            f"by their names these may be frames of {len(videos)} videos, some of them in several splits: "
            "--group video keeps each in one"
        )
