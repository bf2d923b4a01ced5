# The one front door. `make help` lists what it opens.
#
# Everything runs in `.venv`, made here from Python 3.11 or newer at the versions of `constraints/`.
# torch goes in first and by itself, so that no other package can choose another build of it.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:
# Every process of the suite would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3)
WORKERS ?= 2
# What has fallen is written into pyproject.toml; CI passes --exact, to which that is an error.
CEILINGS ?= --lower

BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --quiet \
	--no-warn-conflicts --constraint constraints/versions.txt
KERNELS := build/native/.built
BUNDLE := src/posenc/explore/static/bundle/explore.js
BUILT := $(READY) $(KERNELS) $(BUNDLE)
CMAKE := $(BIN)/cmake -S . -G Ninja -DPython_EXECUTABLE=$(abspath $(BIN))/python \
	-DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

.PHONY: help
help: ## this list
	@echo 'make TARGET, where TARGET is one of'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

# --- environment ------------------------------------------------------------------------------------

.PHONY: env
env: $(READY) ## make .venv; the other targets do so by themselves

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "posenc needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)." >&2; \
	  echo "Name one that is: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv

$(READY): pyproject.toml study/pyproject.toml constraints/versions.txt constraints/peers.txt | $(BIN)/python
	@echo 'Installing torch (1 of 3)'
	@$(PIP) torch
	@echo 'Installing posenc, its study and its tools (2 of 3)'
	@$(PIP) scikit-build-core nanobind cmake ninja transformers
	@$(PIP) --no-build-isolation --editable '.[all,check,docs,test]' --editable './study[cluster]'
	@echo 'Installing the peers (3 of 3)'
	@$(PIP) --no-deps --requirement constraints/peers.txt
	@touch $@

.PHONY: build
build: $(KERNELS) $(BUNDLE) ## compile the kernels in the tree; where that fails, all else runs without them

$(BUNDLE): tools/bundle.py src/posenc/explore/server/bundle.py $(wildcard src/posenc/explore/static/*.*)
	@$(PYTHON) tools/bundle.py

MISSING := src/posenc/kernels/_native_missing.txt

# A failure is told once and kept for `posenc doctor`; it is tried again by the next target.
$(KERNELS): $(READY) CMakeLists.txt $(wildcard src/posenc/kernels/native/*.* src/posenc/kernels/native/rows/*)
	@echo 'Compiling the kernels'
	@mkdir -p build/native && rm -f $(MISSING)
	@if $(CMAKE) -B build/native -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(CURDIR)/src/posenc/kernels \
	    >build/native/log 2>&1 && $(BIN)/cmake --build build/native >>build/native/log 2>&1; \
	then touch $@; \
	else echo "They did not compile in this tree; build/native/log ends:" \
	    "$$(grep -v '^ *$$' build/native/log | tail -n 3 | tr '\n' ' ')" | tee $(MISSING); \
	  rm -f src/posenc/kernels/_native*.so; fi

# --- work -------------------------------------------------------------------------------------------

.PHONY: demo
demo: $(BUILT) ## the main job on real input: a sentence, then a file; ends with a picture in out/
	@$(BIN)/python tools/demo.py out

.PHONY: test
test: $(BUILT) ## all tests but the slow ones
	@tools/browser.sh
	@$(PYTEST) -m 'not slow'

.PHONY: test-fast
test-fast: $(BUILT) ## the first row of each cheap test
	@$(PYTEST) --fast --quiet

.PHONY: test-one
test-one: $(BUILT) ## what concerns one encoding: make test-one E=ALiBi
	@$(PYTEST) -m 'not slow' --encoding '$(or $(E),$(error Name an encoding: make $@ E=ALiBi))'

.PHONY: test-changed
test-changed: $(BUILT) ## the slow tests whose subject changed: make test-changed SINCE=main
	@$(PYTEST) -m slow --since '$(or $(SINCE),$(error Name a commit: make $@ SINCE=main))' \
	  $(if $(LIMIT),--limit $(LIMIT)) \
	  || [ $$? = 5 ]  # pytest's way to say that nothing was chosen

.PHONY: test-browser
test-browser: $(BUILT) ## the explorer's page in a real browser; pictures in out/browser
	@tools/browser.sh
	@$(PYTEST) tests/browser tests/explore/test_page.py

.PHONY: test-slow
test-slow: $(BUILT) ## the slow tests: sweeps, other people's models, engines
	@$(PYTEST) -m slow

.PHONY: test-all
test-all: test test-slow ## all tests

.PHONY: sanitize
sanitize: $(READY) ## the tests of the compiled kernels under AddressSanitizer and UBSan
	@rm -rf build/sanitize/tree && mkdir -p build/sanitize/tree
	@cp -R src/posenc build/sanitize/tree/ && rm -f build/sanitize/tree/posenc/kernels/_native*.so
	@$(CMAKE) -B build/sanitize/cmake -DPOSENC_SANITIZE=ON -DPOSENC_WERROR=ON --log-level=WARNING \
	  -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(CURDIR)/build/sanitize/tree/posenc/kernels >/dev/null
	@$(BIN)/cmake --build build/sanitize/cmake
	@runtime() { $${CXX:-c++} -print-file-name=$$1; }; \
	  LD_PRELOAD="$$(runtime libasan.so) $$(runtime libubsan.so) $$(runtime libstdc++.so.6)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  PYTHONPATH=build/sanitize/tree $(BIN)/python -m pytest -q -p no:cacheprovider --capture=sys tests/kernels/test_native*.py

.PHONY: check
check: $(READY) $(BUNDLE) ## format, lint, types, layers, docstrings, ceilings, rows, spelling, generated texts
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python tools/check_docstrings.py
	@$(BIN)/python tools/ceilings.py $(CEILINGS)
	@$(BIN)/python tools/check_rows.py
	@$(BIN)/typos
	@$(BIN)/python tools/generate.py --check
	@echo 'All checks passed.'

.PHONY: fix
fix: $(READY) ## what format and lint can repair by themselves
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

.PHONY: docs
docs: $(BUILT) ## the pages, in docs/_build/html; warnings are errors
	@$(BIN)/python tools/generate.py
	@$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -b html docs docs/_build/html
	@echo 'docs/_build/html/index.html'

.PHONY: site
site: docs ## the story, the explorer and the pages, which need no server and no Python, in site/
	@$(BIN)/python -m tools.site site --docs docs/_build/html

.PHONY: bench
bench: $(BUILT) ## measure, append rows to benchmarks/results, and refresh the tables made from them
	@$(BIN)/python benchmarks/precision.py
	@$(BIN)/python benchmarks/bounds.py
	@$(BIN)/python benchmarks/backends.py
	@$(BIN)/python benchmarks/import_time.py
	@$(BIN)/python benchmarks/kernels.py
	@$(BIN)/python benchmarks/compiled.py
	@$(BIN)/python benchmarks/speed.py
	@$(BIN)/python benchmarks/decode.py --write
	@$(BIN)/python benchmarks/reasons.py
	@$(BIN)/python benchmarks/models.py
	@$(BIN)/python benchmarks/contracts.py
	@$(BIN)/python benchmarks/diff.py
	@$(BIN)/python tools/pages/speed_picture.py
	@$(BIN)/python tools/generate.py

# The Python at hand where there is no .venv: a machine with a GPU brings its own torch.
GPU_PYTHON = $(or $(wildcard $(BIN)/python),$(PYTHON))

.PHONY: gpu
gpu: ## the Triton kernels on a GPU: bits, then speed, into benchmarks/results; without one a walk through both
	@$(GPU_PYTHON) -c 'import posenc, pytest, torch, triton' || { \
	  echo "make gpu needs torch, triton, pytest and posenc in $(GPU_PYTHON):" \
	    "pip install --no-build-isolation --no-deps ." >&2; exit 1; }
	@$(GPU_PYTHON) -m pytest tests/kernels/test_triton.py -m 'slow or not slow' -q
	@$(GPU_PYTHON) benchmarks/gpu.py

.PHONY: golden
golden: $(READY) $(KERNELS) ## golden/: a file of numbers for each of 120 published models
	@$(BIN)/python tools/models/golden_files.py

.PHONY: wheels
wheels: $(READY) ## what is uploaded, in dist: built for the Pythons at hand, repaired, and tried in fresh environments
	@$(BIN)/python tools/release.py wheels

.PHONY: compat
compat: $(READY) ## the tests without torch, from a wheel, beside the oldest NumPy and JAX
	@$(BIN)/python tools/release.py compat

.PHONY: release
release: check ## all of a release but its upload: version and changelog, checks, wheels, their pages
	@$(BIN)/python tools/release.py release

.PHONY: generate
generate: $(READY) ## the tables that files show of the measurements in benchmarks/results
	@$(BIN)/python tools/generate.py

.PHONY: lock
lock: $(READY) ## write the versions in .venv to constraints/versions.txt
	@{ sed -n '/^#/p' constraints/versions.txt; \
	   $(BIN)/python -m pip freeze --all --exclude pip --exclude posenc --exclude posenc-study | sed 's/^\(torch==[^+]*\)+.*/\1/'; \
	} > constraints/versions.new && mv constraints/versions.new constraints/versions.txt

.PHONY: clean
clean: ## remove what was built, but not .venv
	@rm -rf out build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
