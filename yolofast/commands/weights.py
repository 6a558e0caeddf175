"""`yolofast weights`: files that the authors of the networks have published, listed, or one of them downloaded."""

import argparse
from pathlib import Path

from rich.console import Console
from rich.progress import DownloadColumn

from yolofast.checkpoint.published import PUBLISHED, PublishedWeights, published_weights
from yolofast.config.flags import from_args
from yolofast.config.tools import WeightsConfig
from yolofast.errors import UserError, nearest, shorten
from yolofast.media.download import download, sum_of
from yolofast.terminal.console import console, progress_bar, table
from yolofast.words import amount, own_command


def run(args: argparse.Namespace) -> None:
    config, out = from_args(WeightsConfig, args), console()
    if config.name is None:
        _list(out)
        return
    wanted = published_weights(config.name)
    if wanted is None:
        names = [one.name for one in PUBLISHED]
        what = f"nobody has published {shorten(config.name)}{nearest(config.name, names)}"
        raise UserError(what, fix=f"give one of {', '.join(names)}")
    target = _target(wanted, config.out)
    if target.exists():
        _check_present(wanted, target, out)
        return
    address = wanted.address if config.source is None else f"{config.source.rstrip('/')}/{wanted.file}"
    out.print(f"{wanted.file} from {address}", soft_wrap=True)
    try:
        with progress_bar(wanted.file, DownloadColumn(), stays=True) as progress:
            found = download(address, target, wanted.sha256, progress)
    except UserError as error:
        raise _with_the_way_by_hand(error, wanted, target) from error
    checked = "as recorded" if wanted.sha256 else "not checked: no record of it is known"
    out.print(f"{target}: {amount(target.stat().st_size)}, sha256 {found} ({checked})", soft_wrap=True)


def _list(out: Console) -> None:
    listing = table("name", "file", "for", "sha256", "page")
    for one in PUBLISHED:
        known = "not known" if one.sha256 is None else f"{one.sha256[:12]}…"
        listing.add_row(one.name, one.file, one.use, known, one.page)
    out.print(listing)
    out.print(f"\n{own_command()} weights NAME downloads one. Their licences are their authors'.")


def _target(wanted: PublishedWeights, out: str | None) -> Path:
    place = Path(out or ".")
    return place / wanted.file if place.is_dir() or not place.suffix else place


def _check_present(wanted: PublishedWeights, target: Path, out: Console) -> None:
    found = sum_of(target)
    if wanted.sha256 is not None and found != wanted.sha256:
        what = f"is there already, and is not the published {wanted.file}: its sha256 is {found}, not {wanted.sha256}"
        raise UserError(what, where=target, fix="it may be a copy without the optimizer, which can be used; or --out")
    checked = "as recorded" if wanted.sha256 else "not checked: no record of it is known"
    out.print(f"{target} is there already, sha256 {found} ({checked})", soft_wrap=True)


def _with_the_way_by_hand(error: UserError, wanted: PublishedWeights, target: Path) -> UserError:
    """For machines without a network."""
    by_hand = f"or get {wanted.file} from {wanted.page} on another machine, and put it here as {target}"
    fix = f"{error.fix}; {by_hand}" if error.fix else by_hand
    return UserError(error.what, where=error.where, fix=fix)
