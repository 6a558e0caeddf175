"""What `yolofast import` reads as a stream: zip and tar files of images and YOLO labels, and parquet files.

A zip or tar file has `images/…` and `labels/…`, or labels beside the images, as in WebDataset's shards; its `data.yaml`
or `classes.txt` names the classes. In a tar file that is a stream, an image and its labels come next to each other.
Parquet has the columns that the Hub gives sets of objects: `image` with bytes, `objects` with `bbox` (x, y, w, h in
pixels) and `category`.
"""

import json
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolofast.dataset.data_yaml import is_image_name, label_path
from yolofast.dataset.image_header import BadImageError, decoded_size
from yolofast.dataset.packed.write import Item, is_url, open_url
from yolofast.errors import UserError, in_one_line, shorten
from yolofast.extensions import needed
from yolofast.files.archive import Archive
from yolofast.files.budget import LARGEST_IMAGE
from yolofast.files.tar_file import SafeMember, members_of, open_member
from yolofast.files.yaml_file import parse_yaml
from yolofast.image_bytes import PNG_START
from yolofast.words import amount

_SPLITS = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}
_NAMES = ("data.yaml", "classes.txt", "obj.names")
_MOST_WAITING = 2000
"""Images and labels of a tar file whose other half has not come."""
_LARGEST_TEXT, _MOST_TEXTS = 2**22, 8
"""Of files that may name the classes."""
_SIZES, _LARGEST_RATIO = ("total_compressed_size", "total_uncompressed_size"), 20
"""Of columns of a parquet file: images hardly shrink."""
_WHOLE_FIX = "unpack it, and use yolofast convert, which knows more forms"
HUB = "hf:"


@dataclass(frozen=True)
class Source:
    names: tuple[str, ...]
    items: Iterable[Item]


def open_source(source: str, names: Sequence[str]) -> Source:
    """`names` are those that the user gave, if any."""
    if source.startswith(HUB):
        return _parquet(_of_hub(source.removeprefix(HUB)), names)
    ending = os.path.splitext(source)[1].lower()
    if not is_url(source) and not os.path.isfile(source):
        raise UserError("there is no such file", where=source, fix="give X.zip, X.tar, X.parquet, hf:NAME or a URL")
    if ending == ".zip" and not is_url(source):
        return _zip(source, names)
    if ending == ".tar":
        return _tar(source, names) if is_url(source) else _local_tar(source, names)
    if ending == ".parquet":
        return _parquet([source], names)
    raise UserError(f"is of no form that is imported: {ending or 'no ending'}", where=source, fix=_WHOLE_FIX)


def _split_of(name: str) -> str:
    parts = re.split(r"[/_.-]", name.lower())
    return next((_SPLITS[part] for part in parts if part in _SPLITS), "train")


def _class_names(files: dict[str, bytes], given: Sequence[str], source: str) -> tuple[str, ...]:
    if given:
        return tuple(given)
    for name, content in files.items():
        text = content.decode("utf-8", "replace")
        if name.endswith(".yaml"):
            names = parse_yaml(text, source).values.get("names")
            names = list(names.values()) if isinstance(names, dict) else names
            if isinstance(names, list) and names:
                return tuple(map(str, names))
        elif lines := [line.strip() for line in text.splitlines() if line.strip()]:
            return tuple(lines)
    raise UserError("it does not name its classes", where=source, fix="--names cat dog, or a data.yaml in it")


def _item(name: str, image: bytes, rows: bytes) -> Item:
    """Its name keeps its folders, so that two of one name stay apart."""
    flat = re.sub(r"(^|/)images/", r"\1", name).replace("/", "-")
    return Item(_split_of(name), flat, image, rows.decode("utf-8", "replace"))


def _zip(source: str, given: Sequence[str]) -> Source:
    archive = Archive(source)
    return _by_name(source, given, archive.names, lambda name: archive.head(name, _LARGEST_TEXT), archive.read, archive)


def _by_name(
    source: str,
    given: Sequence[str],
    files: Sequence[str],
    text: Callable[[str], bytes],
    read: Callable[[str], bytes],
    opened: AbstractContextManager[object],
) -> Source:
    """Of what is read in any order."""
    texts = sorted((name for name in files if os.path.basename(name) in _NAMES), key=lambda name: name.count("/"))
    known = {name: text(name) for name in texts[:_MOST_TEXTS]}
    there = set(files)
    images = [name for name in files if is_image_name(name)]
    if not any(_label_of(name) in there for name in images):
        raise UserError("it has no image with a YOLO label", where=source, fix=_WHOLE_FIX)

    def items() -> Iterator[Item]:
        with opened:
            for name in images:
                label = _label_of(name)
                yield _item(name, read(name), read(label) if label in there else b"")

    return Source(_class_names(known, given, source), items())


def _label_of(image: str) -> str:
    return label_path(f"/{image}")[1:]


def _local_tar(source: str, given: Sequence[str]) -> Source:
    """A folder as `tar -cf` takes it, all images before all labels, or a shard."""
    names = [os.fsdecode(name) for name in members_of(source).names.tolist()]

    def read(name: str) -> bytes:
        return open_member(source, name, LARGEST_IMAGE).read()

    return _by_name(source, given, names, lambda name: read(name)[:_LARGEST_TEXT], read, nullcontext())


def _tar(source: str, given: Sequence[str]) -> Source:
    """Class names stand in it before the images, or are given: it is read once."""
    stream = _tar_files(source)
    known: dict[str, bytes] = {}
    held: list[tuple[str, bytes]] = []
    for name, content in stream:
        if os.path.basename(name) in _NAMES:
            known[name] = content
        elif is_image_name(name) or name.endswith(".txt"):  # others are of no use, and say nothing of what follows
            held.append((name, content))
            if given or known or len(held) > 1:
                break
    try:
        names = _class_names(known, given, source)
    except UserError as error:
        fix = "--names cat dog, or a data.yaml that comes before its images"
        raise UserError(error.what, where=error.where, line=error.line, fix=fix) from None

    def items() -> Iterator[Item]:
        yield from _paired(source, [*held], stream)

    return Source(names, items())


def _tar_files(source: str) -> Iterator[tuple[str, bytes]]:
    try:
        with open_url(source, "rb") as file, tarfile.open(fileobj=file, mode="r|", tarinfo=SafeMember) as tar:
            for member in tar:
                if member.isreg() and not member.issparse() and (content := tar.extractfile(member)) is not None:
                    if member.size > LARGEST_IMAGE:
                        what = f"{shorten(member.name)} has {amount(member.size)}, more than {amount(LARGEST_IMAGE)}"
                        raise UserError(what, where=source, fix="leave it out of the tar file")
                    yield member.name.removeprefix("./"), content.read()
                tar.members = []  # type: ignore[attr-defined]  # or it would keep an object for each
    except UserError:
        raise
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        fix = "make it again without compression: tar -cf NAME.tar images labels"
        raise UserError(f"cannot be read as a tar file: {error}", where=source, fix=fix) from None


def _paired(source: str, held: list[tuple[str, bytes]], rest: Iterator[tuple[str, bytes]]) -> Iterator[Item]:
    images, labels = dict[str, tuple[str, bytes]](), dict[str, bytes]()
    for some in (held, rest):
        for name, content in some:
            if is_image_name(name):
                key = os.path.splitext(_label_of(name))[0]
                images[key] = name, content
            elif name.endswith(".txt") and os.path.basename(name) not in _NAMES:
                key = os.path.splitext(name)[0]
                labels[key] = content
            else:
                continue
            if key in images and key in labels:
                yield _item(*images.pop(key), labels.pop(key))
            if len(images) + len(labels) > _MOST_WAITING:
                what = f"{len(images):,} images wait for their labels, the first {shorten(next(iter(images), ''))}"
                raise UserError(what, where=source, fix=f"put each image next to its labels; or {_WHOLE_FIX}")
    for name, content in images.values():
        yield _item(name, content, b"")  # background


def _parquet(sources: Sequence[str], given: Sequence[str]) -> Source:
    parquet = needed("pyarrow.parquet", "parquet", "a parquet file")
    opened = _opened(parquet, sources[0])
    missing = {"image", "objects"} - set(opened.schema_arrow.names)
    if missing:
        has = ", ".join(opened.schema_arrow.names)
        raise UserError(f"it has no column {missing.pop()}, but {has}", where=sources[0], fix=_WHOLE_FIX)
    names = tuple(given) or _names_of_hub(opened.schema_arrow.metadata or {})
    if not names:
        raise UserError("it does not name its classes", where=sources[0], fix="--names cat dog")

    def items() -> Iterator[Item]:
        for source in sources:
            file, number = _opened(parquet, source), 0
            for batch in _batches(file, source):
                for row in batch:
                    yield _of_row(row, source, number)
                    number += 1

    return Source(names, items())


def _opened(parquet: Any, source: str) -> Any:
    try:
        return parquet.ParquetFile(open_url(source, "rb"))
    except UserError:
        raise
    except (OSError, ValueError, TypeError) as error:
        what = f"cannot be read as a parquet file: {in_one_line(error)}"
        raise UserError(what, where=source, fix="download it again") from None


def _batches(file: Any, source: str) -> Iterator[list[dict[str, Any]]]:
    """Rows, a few at a time. A group that swells when it is unpacked is refused before."""
    for number in range(file.num_row_groups):
        parts = [file.metadata.row_group(number).column(place) for place in range(file.metadata.num_columns)]
        packed, size = (sum(getattr(part, name) for part in parts) for name in _SIZES)
        if size > max(LARGEST_IMAGE, packed * _LARGEST_RATIO) or size < 0:
            what = f"rows of {amount(packed)} would unpack to {amount(size)}"
            raise UserError(what, where=source, fix=_WHOLE_FIX)
    try:
        for batch in file.iter_batches(batch_size=64, columns=["image", "objects"]):
            yield batch.to_pylist()
    except (OSError, ValueError, TypeError, MemoryError) as error:
        what = f"cannot be read as a parquet file: {in_one_line(error)}"
        raise UserError(what, where=source, fix="download it again") from None


def _of_row(row: dict[str, Any], source: str, number: int) -> Item:
    where = f"{source}, row {number}"
    try:
        image, objects = row["image"]["bytes"], row["objects"]
        boxes, labels = objects["bbox"], objects.get("category", objects.get("label"))
        width, height = decoded_size(image)
        rows = [
            f"{int(label)} {(x + w / 2) / width:.6f} {(y + h / 2) / height:.6f} {w / width:.6f} {h / height:.6f}\n"
            for (x, y, w, h), label in zip(boxes, labels, strict=True)
        ]
    except (KeyError, TypeError, ValueError, AttributeError, BadImageError) as error:
        what = f"it is not an image with bbox (x, y, w, h in pixels) and category: {error}"
        raise UserError(what, where=where, fix=_WHOLE_FIX) from None
    ending = ".png" if image.startswith(PNG_START) else ".jpg"
    stem = Path(source).stem
    return Item(_split_of(stem), f"{re.sub(r'[^A-Za-z0-9_-]', '-', stem)}-{number:07}{ending}", image, "".join(rows))


def _names_of_hub(metadata: dict[bytes, bytes]) -> tuple[str, ...]:
    """Of the features that the Hub's library writes into the file."""

    def search(value: Any) -> tuple[str, ...]:
        if isinstance(value, dict):
            names = value.get("names")
            if isinstance(names, list) and names and all(isinstance(one, str) for one in names):
                return tuple(names)
            value = list(value.values())
        found = (search(one) for one in value) if isinstance(value, list) else ()
        return next((one for one in found if one), ())

    try:
        return search(json.loads(metadata.get(b"huggingface", b"{}")))
    except (ValueError, RecursionError):
        return ()


def _of_hub(name: str) -> list[str]:
    """The parquet files of a data set on the Hub."""
    import fsspec

    where = f"{HUB}{name}"
    try:
        files = fsspec.filesystem("hf").glob(f"datasets/{name}/**/*.parquet")
    except (ImportError, ValueError) as error:
        raise UserError(f"the Hub cannot be asked: {error}", where=where, fix="pip install huggingface_hub") from None
    except OSError as error:
        raise UserError(f"the Hub cannot be asked: {error}", where=where, fix="check name and network") from None
    if not files:
        raise UserError("it has no parquet files", where=where, fix="download it, and use yolofast convert")
    return [f"hf://{file}" for file in sorted(files)]
