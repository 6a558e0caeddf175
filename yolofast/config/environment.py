"""What environment variables ask for: `USE_COMPILE=1` the compiled gear, `DIAGNOSE_COMPILE=1` a report."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from yolofast.config.run import Gear
from yolofast.errors import UserError, shorten

_ON, _OFF = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


@dataclass(frozen=True)
class CompileRequest:
    gear: Gear
    diagnose: bool
    """Print the report and exit with code 0, instead of training."""


def compile_request(gear: Gear, environ: Mapping[str, str] | None = None) -> CompileRequest:
    """A gear named by a flag counts for more than the environment: it was typed later."""
    environ = os.environ if environ is None else environ
    compiled = _is_on("USE_COMPILE", environ)
    return CompileRequest("compile" if compiled and gear == "auto" else gear, _is_on("DIAGNOSE_COMPILE", environ))


def _is_on(name: str, environ: Mapping[str, str]) -> bool:
    value = environ.get(name, "").strip().lower()
    if value not in _ON + _OFF:
        raise UserError(f"the environment variable {name} is {shorten(environ[name])}", fix=f"set {name}=1 or {name}=0")
    return value in _ON
