PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo quick test lint format info clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "yolofast needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# A detector learns to find shapes: about two minutes on two cores, plots and predictions included.
demo: install
	$(BIN)/yolofast train

# Before every push: all tests but those that train, start a process, compile or open a browser; below 90 seconds.
quick: install
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'not slow'

# One worker per core; CI machines have two. Each begins with a half of its own, so files are seldom shared.
test: install
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

info: install
	$(BIN)/yolofast info --cfg yolov7-tiny --img 320

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
