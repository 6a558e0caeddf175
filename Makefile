PYTHON ?= python3
BIN := .venv/bin

.PHONY: install demo demo-track examples quick test lint format info clean

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "yolofast needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# A detector learns to find shapes: about two minutes on two cores, plots and predictions included. Then it follows them
# through two short videos: ten seconds more.
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
examples: install
	$(BIN)/python examples/own_loop.py
	weights=$$(ls -t runs/train/*/weights/best.pt | head -1) && \
	$(BIN)/yolofast dataset shapes --out runs/shapes --n 40 && \
	$(BIN)/python examples/find_objects.py $$weights $$(ls runs/shapes/images/val/* | head -1) && \
	$(BIN)/python examples/fine_tune.py $$weights runs/shapes/data.yaml

# Before every push: all tests but those that train, start a process, compile or open a browser; about 90 seconds.
quick: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m 'not slow'

# One worker per core, one thread each; CI machines have two. Each begins with a half of its own, so files are seldom
# shared.
test: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

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
