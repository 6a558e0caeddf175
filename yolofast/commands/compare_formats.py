"""Which flag of `compare` writes which kind of file. A name that ends like one of another kind is a mistake: it would
hold what no program expects there, and the next call could replace a page with it."""

from pathlib import Path

from yolofast.config.reports import CompareConfig
from yolofast.errors import UserError

_ENDINGS = {"output": (".html", ".htm"), "markdown": (".md", ".markdown"), "json": (".json",)}
_WRITES = {"output": "a page of HTML", "markdown": "Markdown", "json": "JSON"}


def refuse_other_formats(config: CompareConfig) -> None:
    """Endings that no flag has are left to the user."""
    for flag, what in _WRITES.items():
        name = getattr(config, flag)
        ending = "" if name is None else Path(name).suffix.lower()
        other = next((one for one, endings in _ENDINGS.items() if ending in endings and one != flag), None)
        if other is not None:
            raise UserError(f"--{flag} writes {what}", where=name, fix=f"for {_WRITES[other]}: --{other} {name}")
