"""The files of this package that some of its modules are made of: their own, and those of all they import."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent


def sources_of(modules: Iterable[str], package: Path = PACKAGE) -> list[Path]:
    """Found by reading, without importing anything; imports inside functions count. `package` may be a copy."""
    found: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        path = None if module in found else _source(module, package)
        if path is not None:
            found[module] = path
            waiting += _imported(path)
    return sorted(found.values())


def _source(module: str, package: Path) -> Path | None:
    """None of what is a name in a module, or of another package. That of the package itself says nothing."""
    top, *names = module.split(".")
    if top != PACKAGE.name or not names:
        return None
    path = package.joinpath(*names)
    files = (path.with_name(f"{path.name}.py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _imported(path: Path) -> Iterator[str]:
    """Names that may be modules: `from a.b import c` may mean `a.b` or `a.b.c`, and tables say `a.b:c`."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
            yield node.value.partition(":")[0]
