"""Where the pixels shall live: a pure function of what is asked for, what is needed and what is free.

Every kind but `jpeg` and `off` starts from the packed file, so it needs room on the disk too. `auto` takes only a share
of free memory, because the training itself will want some; who asks for a kind by name may have nearly all of it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

from yolofast.errors import UserError, nearest, shorten
from yolofast.words import amount

Kind = Literal["gpu", "ram", "disk", "jpeg", "off"]
KINDS: tuple[Kind, ...] = get_args(Kind)

AUTO_GPU_SHARE = 0.5
AUTO_RAM_SHARE = 0.6
NAMED_SHARE = 0.9
DISK_SHARE = 0.95
JPEG_SHARE = 0.2
"""Room asked for per byte of pixels. About a seventh is used (0.13 to 0.15 measured at quality 95 on VOC and COCO at
320); more is asked for, because pictures differ."""
_GPU = "GPU memory"


@dataclass(frozen=True)
class Choice:
    kind: Kind
    reason: str
    """One sentence with the numbers."""


@dataclass(frozen=True)
class _Need:
    """What a kind takes of one resource, and how much of it there is."""

    needed: int
    resource: str
    free: int
    share: float

    @property
    def fits(self) -> bool:
        return self.needed <= self.free * self.share

    @property
    def is_absent_gpu(self) -> bool:
        return self.resource == _GPU and not self.free

    def __str__(self) -> str:
        if not self.needed:
            return f"no more {self.resource} is needed"
        if self.is_absent_gpu:
            return "there is no GPU to use"
        verb = "fits" if self.fits else "does not fit"
        return f"{amount(self.needed)} {verb} {self.share:.0%} of the {amount(self.free)} of free {self.resource}"


def choose_cache(
    request: str,
    bytes_needed: int,
    *,
    gpu_free: int,
    ram_free: int,
    disk_free: int,
    cores: int,
    pixels_on_disk: int = 0,
    jpeg_on_disk: int = 0,
    among: Collection[Kind] = KINDS,
) -> Choice:
    """The kind of cache for `bytes_needed` bytes of pixels. A kind asked for that cannot fit is a `UserError`.

    `auto` chooses `among` these, of which one has to be `off`.

    What is on the disk already, of a finished store or of one in the making, needs no more room there.
    """
    auto = request == "auto"
    if not auto and request not in KINDS:
        what = f"there is no cache {shorten(request)}{nearest(request, ('auto', *KINDS))}"
        raise UserError(what, fix=f"use one of auto, {', '.join(KINDS)}")
    disk = _Need(max(0, bytes_needed - pixels_on_disk), "disk", disk_free, DISK_SHARE)
    jpeg = _Need(0 if jpeg_on_disk else int(bytes_needed * JPEG_SHARE), "disk", disk_free, DISK_SHARE)
    needs: dict[Kind, tuple[_Need, ...]] = {
        "gpu": (_Need(bytes_needed, _GPU, gpu_free, AUTO_GPU_SHARE if auto else NAMED_SHARE), disk),
        "ram": (_Need(bytes_needed, "RAM", ram_free, AUTO_RAM_SHARE if auto else NAMED_SHARE), disk),
        "disk": (disk,),
        "jpeg": (jpeg,),
        "off": (),
    }
    if auto:
        return _first_that_fits({kind: needs[kind] for kind in needs if kind in among}, cores)
    kind = next(kind for kind in KINDS if kind == request)
    if lacking := [need for need in needs[kind] if not need.fits]:
        instead = _first_that_fits(needs, cores).kind
        what = f"--cache {request} cannot work: " + ", and ".join(map(str, lacking))
        raise UserError(what, fix=f"use --cache {instead} or auto, a smaller --img, or make room")
    return Choice(kind, "as asked for" + "".join(f"; {need}" for need in needs[kind][:1]))


def _first_that_fits(needs: dict[Kind, tuple[_Need, ...]], cores: int) -> Choice:
    refused: list[str] = []
    for kind, wanted in needs.items():
        lacking = [need for need in wanted if not need.fits]
        if not lacking:
            work = f"{cores} cores decode every image each time" if kind in ("jpeg", "off") else ""
            because = [*dict.fromkeys(refused), *(str(need) for need in wanted[:1]), *([work] if work else [])]
            return Choice(kind, "; ".join(because))
        # A machine without a GPU need not be told that its GPU is too small.
        refused += [str(need) for need in lacking if not need.is_absent_gpu]
    raise AssertionError("off always fits")
