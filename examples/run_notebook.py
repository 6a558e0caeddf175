"""Runs a notebook from its first cell to its last and writes what it showed: `run_notebook.py IN.ipynb OUT.ipynb`.

A third argument replaces the cell that is tagged `parameters`, so that a test has time for it. A cell that fails ends
it with that cell's error.
"""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

SMALL = 'flags = "--data shapes --cfg mini --img 64 --batch-size 8 --epochs 1 --workers 0 --no-plots"\npictures = 24'


def run(source: str, target: str, parameters: str = SMALL) -> None:
    notebook = nbformat.read(source, as_version=4)
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", ()) and parameters:
            cell.source = parameters
    folder = Path(target).resolve().parent / Path(target).stem
    folder.mkdir(parents=True, exist_ok=True)  # it works there: no two share a folder of runs
    # Commands of the notebook are those of this environment, as in a Jupyter that is installed there.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(folder)}}).execute()
    nbformat.write(notebook, target)
    print(f"{source}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells ran; see {target}")


if __name__ == "__main__":
    run(*sys.argv[1:])
