"""`yolofast pack`: the images of a data set decoded and resized once, before training."""

import argparse
import time
from functools import partial
from pathlib import Path

from rich.progress import MofNCompleteColumn

from yolofast.commands.import_data import publish
from yolofast.config.flags import from_args
from yolofast.config.tools import PackConfig
from yolofast.dataset.data_argument import data_file
from yolofast.dataset.split import read_split
from yolofast.errors import UserError
from yolofast.files.threads import usable_cores
from yolofast.image_index import ImageIndex
from yolofast.store import PackedStore, pack, store_folder, store_name, verify
from yolofast.store.fitted import Fit
from yolofast.store.packing import Flavour
from yolofast.terminal.console import progress_bar
from yolofast.words import amount

_MOST_NAMED = 10


def run(args: argparse.Namespace) -> None:
    config = from_args(PackConfig, args)
    height, width = (*config.img_size, config.img_size[0])[:2]
    data = data_file(config.data)
    if config.to is not None:
        publish(data, config.splits, config.skip_bad, config.to)
        return
    for split in config.splits:
        index = read_split(data, split, skip_bad=config.skip_bad, trust=config.trust_index)
        store = _pack_split(index, split, width, height, config)
        if config.verify:
            _verify(store, split, config.workers)


def _pack_split(index: ImageIndex, split: str, width: int, height: int, config: PackConfig) -> PackedStore:
    """Packs as training will ask for it: the train split resized for augmentation, the others for evaluation."""
    augmented = split == "train"
    flavour: Flavour = "jpeg" if config.cache == "jpeg" else "pixels"
    name = store_name(index, Fit(width, height, augmented), flavour)
    folder = store_folder(index, name) if config.out is None else Path(config.out)
    started, packed = time.perf_counter(), 0
    with progress_bar(f"packing {split}", MofNCompleteColumn()) as show:

        def count(done: int, total: int) -> None:
            nonlocal packed
            packed += 1
            show(done, total)

        say = partial(print, flush=True)
        store = pack(
            index, width, height, folder,
            flavour=flavour, augmented=augmented, threads=config.workers, progress=count, say=say,
        )  # fmt: skip
    seconds = time.perf_counter() - started
    work = f"{packed:,} packed in {seconds:.1f} s, {packed / seconds:,.0f} img/s" if packed else "already packed"
    print(f"{split}: {len(store):,} images, {amount(store.nbytes)}, {work}\n  {store.data}")
    return store


def _verify(store: PackedStore, split: str, threads: int | None) -> None:
    with progress_bar(f"verifying {split}", MofNCompleteColumn()) as show:
        damaged = verify(store, threads=threads or usable_cores(), progress=show)
    if damaged:
        named = "".join(f"\n  {file}" for file in damaged[:_MOST_NAMED])
        more = f"\n  … and {len(damaged) - _MOST_NAMED:,} more" if len(damaged) > _MOST_NAMED else ""
        what = f"{len(damaged):,} of {len(store):,} stored images are damaged:{named}{more}"
        raise UserError(what, where=store.data, fix="delete this file and pack again; check the disk")
    print(f"  all {len(store):,} checksums are right")
