"""The house stays walkable: rooms import only rooms of the layers above theirs, and a room is not stuffed with files.

The table of layers is the one a newcomer reads, in ARCHITECTURE.md. A room is a folder or a file, named by its module
(`report.compare`); a module belongs to the room with the longest name that fits. An import inside a function counts as
much as one at the top of a file.
"""

import ast
import fnmatch
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

import yolofast

PACKAGE = Path(yolofast.__file__).parent
ARCHITECTURE = Path(__file__).parents[1] / "ARCHITECTURE.md"
TOP_LEVEL = "*.py"
"""In the table: the modules at the top level that no row names."""

TORCH_FREE = (
    "config", "dataset", "pages", "profile", "report.compare", "report.diagnose", "report.logs",
    "report.tracks", "runs", "track.formats", "track.score", "watch",
)  # fmt: skip
"""Rooms that never wait for torch."""
MOST_FILES = 18
"""In a folder, `__init__.py` among them."""
ONE_FOR_EACH = {"commands"}
"""Folders that hold a file for each command, however many those are."""
FEW_LINES, MOST_LINES = 40, 350
ALONE = ("_*_kernel.py", "*_triton.py")
"""Kernels stand alone, however small; other files of fewer lines that a single one imports belong to it."""
MOST_IMPORTS = 25
"""Own modules that one imports."""


@dataclass(frozen=True)
class Module:
    path: Path
    imports: frozenset[str]
    """Own modules, by their names below the package; `yolofast` for its public names."""
    foreign: frozenset[str]
    """Other packages."""


def modules_of(package: Path) -> dict[str, Module]:
    """By their names below the package, without the package itself."""
    paths = {_name(path.relative_to(package)): path for path in package.rglob("*.py")}
    del paths[""]
    return {name: _module(path, paths.keys(), package.name) for name, path in paths.items()}


def _name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _module(path: Path, known: frozenset[str], package: str) -> Module:
    own, foreign = set(), set()
    for name in _imported(path.read_text()):
        first, _, rest = name.partition(".")
        if first != package:
            foreign.add(first)
        else:  # the last part may be a name in a module
            module = rest if rest in known else rest.rpartition(".")[0]
            own.add(module or package)
    return Module(path, frozenset(own), frozenset(foreign))


def _imported(source: str) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the room they reach into"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@dataclass(frozen=True)
class Layers:
    layer_of: dict[str, int]
    """By room."""
    beside: frozenset[tuple[str, str]]
    """Rooms of one layer, of which the first may import the second."""

    @classmethod
    def read(cls, text: str) -> "Layers":
        """From rows `| 3 | rooms | imports of their own layer |`: all, –, or `report.compare`: `report.logs`."""
        layer_of: dict[str, int] = {}
        beside: set[tuple[str, str]] = set()
        for layer, rooms, own in re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \|$", text, re.MULTILINE):
            names = re.findall(r"`([^`]+)`", rooms)
            layer_of |= dict.fromkeys(names, int(layer))
            if own.startswith("all"):
                beside |= {(one, other) for one in names for other in names}
            for pair in own.split(";") if ":" in own else ():
                importer, *imported = re.findall(r"`([^`]+)`", pair)
                beside |= {(importer, other) for other in imported}
        return cls(layer_of, frozenset(beside))

    def room(self, module: str) -> str:
        parts = module.split(".")
        names = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
        found = next((name for name in names if name in self.layer_of), None)
        assert found or len(parts) == 1, f"{module} is in no room of the table"
        return found or TOP_LEVEL

    def allow(self, importer: str, imported: str) -> bool:
        one, other = self.room(importer), self.room(imported)
        return one == other or (one, other) in self.beside or self.layer_of[other] < self.layer_of[one]


def forbidden(modules: dict[str, Module], layers: Layers) -> set[tuple[str, str]]:
    return {
        (name, other)
        for name, module in modules.items()
        for other in module.imports & modules.keys()
        if not layers.allow(name, other)
    }


def reached(name: str, modules: dict[str, Module]) -> set[str]:
    """All modules that importing one leads to; itself only if that comes back."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        more = (modules[waiting.pop()].imports & modules.keys()) - found
        found |= more
        waiting += more
    return found


def in_cycles(modules: dict[str, Module]) -> set[str]:
    return {name for name in modules if name in reached(name, modules)}


def leading_to(package: str, room: str, modules: dict[str, Module], layers: Layers) -> set[str]:
    """The modules by which those of a room reach another package."""
    inside = {name for name in modules if "." in name and layers.room(name) == room}
    all_of_them = inside.union(*(reached(name, modules) for name in inside)) if inside else set()
    return {name for name in all_of_them if package in modules[name].foreign}


def files_by_folder(modules: dict[str, Module], package: Path) -> Counter[str]:
    own = [package / "__init__.py", *(module.path for module in modules.values())]
    return Counter(".".join(path.relative_to(package).parent.parts) for path in own)


def small_files_of_one_importer(modules: dict[str, Module]) -> set[str]:
    importers = Counter(other for module in modules.values() for other in module.imports)
    return {
        name
        for name, module in modules.items()
        if importers[name] == 1
        and module.path.name != "__init__.py"
        and not any(fnmatch.fnmatch(module.path.name, kind) for kind in ALONE)
        and len(module.path.read_text().splitlines()) < FEW_LINES
    }


@pytest.fixture(scope="module")
def modules():
    return modules_of(PACKAGE)


@pytest.fixture(scope="module")
def layers():
    return Layers.read(ARCHITECTURE.read_text(encoding="utf-8"))


def test_files_that_are_named_are_there():
    """A name alone is in a folder that its row names, or at the top level."""
    named, missing = 0, []
    for row in ARCHITECTURE.read_text(encoding="utf-8").splitlines():
        files = re.findall(r"`((?:[a-z_0-9]+/)*)([a-z_0-9]+\.py)`", row)
        folders = {"", *(folder for folder, _ in files), *re.findall(r"`((?:[a-z_0-9]+/)+)`", row)}
        for folder, name in files:
            places = [
                root / one / name for root in (PACKAGE, PACKAGE.parent) for one in ({folder} if folder else folders)
            ]
            missing += [] if any(place.exists() for place in places) else [f"{folder}{name}"]
        named += len(files)
    assert named > 40 and not missing


def test_the_map_can_be_read_at_once():
    assert ARCHITECTURE.stat().st_size <= 6 * 1024


def test_every_room_of_the_table_is_there(modules, layers):
    assert layers.layer_of.keys() - {TOP_LEVEL} <= modules.keys()


def test_no_import_goes_up(modules, layers):
    assert not forbidden(modules, layers)


def test_nobody_imports_the_public_names(modules):
    """They would hide the room they come from."""
    assert not [name for name, module in modules.items() if PACKAGE.name in module.imports]


def test_no_module_is_imported_by_what_it_imports(modules):
    assert not in_cycles(modules)


def test_no_module_knows_too_many_others(modules):
    assert not {name: len(module.imports) for name, module in modules.items() if len(module.imports) > MOST_IMPORTS}


@pytest.mark.parametrize("room", TORCH_FREE)
def test_a_room_without_torch(modules, layers, room):
    assert not leading_to("torch", room, modules, layers)


def test_no_folder_is_stuffed(modules):
    counts = files_by_folder(modules, PACKAGE)
    assert not {name: count for name, count in counts.items() if count > MOST_FILES and name not in ONE_FOR_EACH}


def test_small_files_have_more_than_one_importer(modules):
    assert not small_files_of_one_importer(modules)


def test_no_file_is_long(modules):
    lines = {name: len(module.path.read_text().splitlines()) for name, module in modules.items()}
    assert not {name: count for name, count in lines.items() if count > MOST_LINES}


def test_class_names_are_given_once(modules):
    named = Counter(
        node.name
        for module in modules.values()
        for node in ast.parse(module.path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not {name for name, count in named.items() if count > 1}


def test_there_is_no_utils():
    assert not list(PACKAGE.rglob("util*"))


TABLE = """
| layer | rooms | imports of its own layer |
|---|---|---|
| 1 | `*.py` | all |
| 2 | `logs`, `runs` | – |
| 3 | `report.compare`, `report.run` | `report.compare`: `report.run` |
| 4 | `cli` | – |
"""


def made_up(folder, **sources):
    for name, source in {"__init__": "", **sources}.items():
        path = folder / "house" / f"{name.replace('__', '/') if name != '__init__' else name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return modules_of(folder / "house")


def test_the_rule_would_notice(tmp_path):
    modules = made_up(
        tmp_path,
        errors="import sys",
        boxes="from house.errors import E\ndef f():\n    from house.logs.read import g",  # up, inside a function
        logs__read="import house.errors\nimport house.runs.files",  # beside, not named
        runs__files="from house import errors\nfrom house.boxes import f",
        report__compare__page="from house.report.run.page import g\nimport house.logs.read",
        report__run__page="import house.report.compare.page\nimport torch",  # beside, the other way
        cli="from house.report.run import page",
    )
    assert forbidden(modules, Layers.read(TABLE)) == {
        ("boxes", "logs.read"),
        ("logs.read", "runs.files"),
        ("report.run.page", "report.compare.page"),
    }
    ring = {"boxes", "logs.read", "runs.files"}
    assert in_cycles(modules) == {*ring, "report.compare.page", "report.run.page"}
    layers = Layers.read(TABLE)
    assert leading_to("torch", "report.compare", modules, layers) == {"report.run.page"}
    assert not leading_to("torch", "runs", modules, layers)
    assert files_by_folder(modules, tmp_path / "house")[""] == 4
    assert "cli" not in small_files_of_one_importer(modules) and "boxes" in small_files_of_one_importer(modules)


def test_a_folder_that_no_row_names_is_noticed(tmp_path):
    modules = made_up(tmp_path, errors="", attic__box="from house import errors")
    with pytest.raises(AssertionError, match="in no room"):
        forbidden(modules, Layers.read(TABLE))
