PYTHON ?= python3
BIN := .venv/bin

# Tests and commands start many processes: each finds the modules compiled by the first.
unexport PYTHONDONTWRITEBYTECODE

# Wheels are compared with the checksums that are written down. Torch comes last, without: which build a machine needs is
# its owner's choice (SECURITY.md).
PIP_INSTALL := python -m pip install --quiet --disable-pip-version-check
SYSTEM ?= $(shell uname -s)
ifeq ($(SYSTEM),Linux)
wheels = $(1)/$(PIP_INSTALL) --require-hashes --no-deps --only-binary :all: -r requirements/$(2).txt
else  # checksums are those of Linux's wheels: the same versions without them
wheels = sed -e '/--hash=/d' -e 's/ *\\$$//' requirements/$(2).txt | $(1)/$(PIP_INSTALL) -r /dev/stdin
endif
OWN := $(PIP_INSTALL) --no-build-isolation -c constraints.txt

.PHONY: install develop demo demo-track examples quick test fuzz lint format info docs package sbom hashes clean

# What running needs; `develop` adds what tests, linters and examples need.
install: .venv/installed
develop: .venv/developed

.venv/installed: pyproject.toml constraints.txt requirements/run.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "yolofast needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(call wheels,$(BIN),run)
	$(BIN)/$(OWN) -e .
	touch $@

.venv/developed: .venv/installed requirements/develop.txt
	$(call wheels,$(BIN),develop)
	$(BIN)/$(OWN) -e '.[dev]'
	touch $@

# Mkdocs and the tools of a release have an environment of their own: they need nothing of yolofast, which only parses.
.venv-tools/installed: requirements/tools.txt
	$(PYTHON) -m venv .venv-tools
	$(call wheels,.venv-tools/bin,tools)
	touch $@

# A detector learns to find shapes: four minutes of one core's time, plots and predictions included. Then it follows them
# through two short videos: 13 seconds more.
demo: install
	$(BIN)/yolofast train
	$(MAKE) --no-print-directory demo-track

# The newest detector follows moving shapes; a drawn video of each, and scores against the true identities.
demo-track: install
	$(BIN)/yolofast dataset shapes-video --out runs/shapes-video --sequences 2 --objects 4 --video
	$(BIN)/yolofast track --source runs/shapes-video/SHAPES-01.mp4 runs/shapes-video/SHAPES-02.mp4 \
	    --img 192 --track track_high_thresh=0.4 new_track_thresh=0.5 --name shapes-video --exist-ok
	$(BIN)/yolofast trackval --truth runs/shapes-video --results runs/track/shapes-video \
	    --html runs/track/shapes-video/trackval.html

# Each script of examples/ with the weights of the newest run, which `make demo` leaves.
examples: develop
	$(BIN)/python examples/own_loop.py
	weights=$$(ls -t runs/train/*/weights/best.pt | head -1) && \
	$(BIN)/yolofast dataset shapes --out runs/shapes --n 40 && \
	$(BIN)/python examples/find_objects.py $$weights $$(ls runs/shapes/images/val/* | head -1) && \
	$(BIN)/python examples/fine_tune.py $$weights runs/shapes/data.yaml
	$(BIN)/python examples/run_notebook.py examples/first_steps.ipynb runs/first_steps.ipynb

# The site, in site/: pages are checked strictly, and nothing on them is fetched from elsewhere.
docs: .venv-tools/installed
	NO_MKDOCS_2_WARNING=1 .venv-tools/bin/mkdocs build --strict --quiet
	$(PYTHON) .ci/site.py site

# The wheel and the source archive, in dist/; the wheel is tried in an empty environment, with the libraries of .venv.
package: install .venv-tools/installed
	rm -rf build dist
	.venv-tools/bin/python -m build --no-isolation --outdir dist . >build.log 2>&1 || { cat build.log; exit 1; }
	.venv-tools/bin/twine check --strict dist/*
	$(PYTHON) .ci/wheel.py dist $(BIN)/python

# Before every push: all tests but those that train, start a process, compile or open a browser; 45 seconds on two quiet cores.
quick: develop
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m 'not slow'

# One worker more than cores (tests/conftest.py), one thread each: some tests wait. Each begins with a part of its own,
# so files are seldom shared.
test: develop
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

# Hostile inputs of all classes, each in a process of its own, with what they cost; about three a second on one core.
# Those that have not held are kept in fuzz-failures/.
N ?= 10000
fuzz: develop
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.hostile.fuzz --n $(N)

lint: develop
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: develop
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

info: install
	$(BIN)/yolofast info --cfg yolov7-tiny --img 320

# What is installed beside yolofast, as CycloneDX JSON; versions other than the pinned ones are an error.
sbom: develop
	$(BIN)/python .ci/sbom.py constraints.txt sbom.json

# After pins have changed: pip says what is needed, the registry its checksums.
hashes: develop
	$(BIN)/python .ci/hashes.py

clean:
	rm -rf .venv .venv-tools build build.log dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
