# On a machine with Python >= 3.11, a C compiler, make and Rust, nothing else is needed:
#   make demo   watch an agent learn          make test   prove that everything works
#
# PYTHON=python3.13 picks the interpreter of .venv; TORCH_INDEX=https://download.pytorch.org/whl/cpu a smaller torch;
# PIP_ARGS goes to every pip install; PYTEST_ARGS, CARGO_ARGS to pytest and cargo test.

PYTHON ?= python3
VENV   := .venv
BIN    := $(abspath $(VENV))/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
TARGET := x86_64-unknown-linux-gnu

# maturin and pyo3 look at these; a conda shell must not divert them.
export VIRTUAL_ENV := $(abspath $(VENV))
export PYO3_PYTHON := $(BIN)/python
unexport CONDA_PREFIX

rust_sources := Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -o -name Cargo.toml)
pip := $(BIN)/python -m pip --disable-pip-version-check
run := $(BIN)/python -m
requirements := import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	print(*project['dependencies'], *project['optional-dependencies']['train'], sep='\n')
# Crates of their own, as a user's would be, here with the versions that the workspace has locked.
rust_examples = set -e; for crate in rust_env rust_policy; do (cp Cargo.lock examples/$$crate/ && cd examples/$$crate && cargo $(1)); done

.DEFAULT_GOAL := help
.PHONY: help env build dev demo test lint fmt rust-test python-test oldest parity corpus interop learning long fuzz mutants mutation bench bench-short bench-quick bench-peers museum asan valgrind miri loom docs results wheel docker clean

help:                   ## this list
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# -- environment and build -----------------------------------------------------------------------------------------------

# The packages are installed while the engine is compiled: the one waits for the disk, the other for the processor.
build: $(VENV)/.built   ## rlfast and what training needs, editable in .venv, its engine optimized
$(VENV)/.built: pyproject.toml $(rust_sources) | $(VENV)/.maturin
	+$(MAKE) --no-print-directory --jobs 2 $(VENV)/.packages $(VENV)/.engine
	touch $@

$(VENV)/.maturin:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(pip) install -q --upgrade 'pip>=25.1' $(PIP_ARGS)
	$(pip) install -q --group build $(PIP_ARGS)
	touch $@

$(VENV)/.packages: pyproject.toml | $(VENV)/.maturin
	$(if $(TORCH_INDEX),$(pip) install torch --index-url $(TORCH_INDEX) $(PIP_ARGS))
	$(BIN)/python -c "$(requirements)" > $(VENV)/requirements.txt
	$(pip) install -r $(VENV)/requirements.txt $(PIP_ARGS)
	touch $@

$(VENV)/.engine: pyproject.toml $(rust_sources) | $(VENV)/.maturin
	$(pip) install --no-deps --no-build-isolation --config-settings=build-args=--locked --editable . $(PIP_ARGS)
	touch $@

env: $(VENV)/.env       ## the tools that check, test and measure, in .venv, too
$(VENV)/.env: $(VENV)/.packages
	$(pip) install --group dev $(PIP_ARGS)
	touch $@

dev: env                ## the engine, quick to compile, for the edit-build-test loop
	@rm -f $(VENV)/.engine $(VENV)/.built
	$(run) maturin develop --profile dev-fast

docs: build             ## the site, in build/site; a warning is an error
	$(pip) install -q --group docs $(PIP_ARGS)
	NO_MKDOCS_2_WARNING=1 $(run) mkdocs build --strict

results: build          ## the MuJoCo table and picture of docs/results.md, from the curves in docs/results
	$(BIN)/python docs/site/results.py

wheel: $(VENV)/.maturin  ## target/wheels/*.whl
	$(run) maturin build --release --locked

# -- see it work ---------------------------------------------------------------------------------------------------------

demo: build             ## train DQN on CartPole-v1 until it balances, and write runs/demo
	rm -rf runs/demo
	$(BIN)/rlfast train dqn --env CartPole-v1 --run-dir runs/demo --require-stop-return

# The libraries we are compared with live in environments of their own: in .peers, or where RLFAST_PEERS says.
ifdef RLFAST_PEERS
peers = $(RLFAST_PEERS)
else
peers = $(abspath .peers)
bench bench-short: bench-peers
bench-peers: $(addprefix .peers/.,modern tianshou1 tianshou12 tianshou2 rlox)  ## the libraries we are compared with, in .peers (several GB)
parity corpus: .peers/.tianshou1
interop: $(addprefix .peers/.,modern tianshou1 tianshou12 tianshou2 d3rlpy)
museum: $(addprefix .peers/.,modern tianshou1 tianshou2 d3rlpy rlox)
.peers/.%: bench/environments.py | $(VENV)/.env
	$(BIN)/python bench/environments.py .peers $*
	touch $@
endif

bench: build env       ## every figure beside the peers, recorded in bench/results (half an hour, and hours for the times to a threshold)
	RLFAST_PEERS=$(peers) $(run) pytest bench --record $(PYTEST_ARGS)

bench-quick: build env ## has a hot kernel become slower? against the numbers in bench/results/guard.json (a minute)
	$(run) bench.guard

bench-short: build env ## a first look at all figures (minutes)
	RLFAST_PEERS=$(peers) $(run) pytest bench --quick $(PYTEST_ARGS)

museum: build env      ## historic bugs of the field, here and in the peers: writes docs/museum.md (a quarter of an hour)
	RLFAST_PEERS=$(peers) $(run) bench.museum

# -- prove it ------------------------------------------------------------------------------------------------------------

test: lint rust-test python-test  ## everything a change must pass

lint: build env        ## formatting, clippy, ruff, mypy, stubs, layers
	cargo fmt --all --check
	$(call rust_examples,fmt --check)
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(call rust_examples,clippy --all-targets --target-dir $(CURDIR)/target/examples -- -D warnings)
	$(run) ruff check
	$(run) ruff format --check
	$(run) mypy
	$(run) mypy.stubtest rlfast._core --mypy-config-file pyproject.toml --concise
	$(BIN)/lint-imports

rust-test:              ## cargo test; the Python module itself is tested from Python
	cargo test --workspace --exclude rlfast-python --locked $(CARGO_ARGS)
	$(call rust_examples,test --target-dir $(CURDIR)/target/examples $(CARGO_ARGS))

python-test: build env ## pytest with doctests, in two processes: tests wait for others, and machines have two cores
	$(run) pytest -n 2 --dist worksteal $(PYTEST_ARGS)

oldest: build env      ## every lower bound of pyproject.toml, put into .venv
	$(pip) install -q uv
	mkdir -p build
	$(BIN)/python -m uv pip compile --quiet --resolution lowest-direct pyproject.toml --extra train --output-file build/oldest.txt
	$(BIN)/python -m uv pip install --python $(BIN)/python -r build/oldest.txt

parity: build env      ## the same answers as Tianshou 1.0, which is installed beside
	RLFAST_TIANSHOU_PYTHON=$(peers)/tianshou1/bin/python $(run) pytest tests/parity $(PYTEST_ARGS)

corpus: build env      ## scripts of Tianshou's users, in Tianshou 1.0 and here
	RLFAST_TIANSHOU_PYTHON=$(peers)/tianshou1/bin/python $(run) pytest tests/corpus $(PYTEST_ARGS)

interop: build env     ## our buffers inside Tianshou 1.0, 1.2 and 2.0, TorchRL and d3rlpy, which are installed beside
	RLFAST_TIANSHOU_PYTHON=$(peers)/tianshou1/bin/python RLFAST_TIANSHOU12_PYTHON=$(peers)/tianshou12/bin/python \
	RLFAST_TIANSHOU2_PYTHON=$(peers)/tianshou2/bin/python RLFAST_TORCHRL_PYTHON=$(peers)/modern/bin/python \
	RLFAST_D3RLPY_PYTHON=$(peers)/d3rlpy/bin/python $(run) pytest tests/interop $(PYTEST_ARGS)

mutation: build env    ## faults of every kind, put in by mutmut: which do the mirrored tests not see? AREAS=functional ... (minutes each)
	$(pip) install -q --group mutation $(PIP_ARGS)
	PYTHONPATH=tests $(BIN)/python -m mutation.run $(AREAS)

mutants: build env     ## faults put into a copy of the sources, one at a time: which do the tests not see? (long)
	$(BIN)/python tests/mutants/run.py

learning: build env    ## agents reach their thresholds (long)
	$(pip) install -q --group learning $(PIP_ARGS)
	$(run) pytest -m learning --timeout 0 $(PYTEST_ARGS)

long: build env        ## a million fuzzed operations, crash tests (long)
	$(run) pytest -m long --timeout 0 $(PYTEST_ARGS)
	cargo test --release -p rlfast-core -p rlfast-data --locked $(CARGO_ARGS) -- --ignored

fuzz: build env        ## the property tests, with new random examples each time
	$(run) pytest -m hypothesis --hypothesis-profile random -n 2 --dist worksteal $(PYTEST_ARGS)

fmt: env                ## format and fix what can be fixed
	cargo fmt --all
	$(call rust_examples,fmt)
	$(run) ruff check --fix --exit-zero
	$(run) ruff format

asan: export RUSTC_BOOTSTRAP = 1
asan: export RUSTFLAGS = -Zsanitizer=address
asan:                   ## the engine under AddressSanitizer
	cargo test -p rlfast-core -p rlfast-host --lib --tests --locked --target $(TARGET) --target-dir target/asan $(CARGO_ARGS)

valgrind: export CARGO_TARGET_$(shell echo $(TARGET) | tr a-z- A-Z_)_RUNNER = valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite
valgrind: export PROPTEST_CASES = 8
valgrind: export CARGO_PROFILE_DEV_FAST_DEBUG = line-tables-only
valgrind: export CARGO_PROFILE_DEV_FAST_STRIP = none
valgrind:               ## the engine under valgrind
	cargo test -p rlfast-core -p rlfast-host --lib --tests --locked --profile dev-fast --target $(TARGET) --target-dir target/valgrind $(CARGO_ARGS)

# File-backed memory calls mmap, which miri does not model: asan and valgrind watch it.
loom: export RUSTFLAGS = --cfg loom
loom:                   ## what threads and processes share, in every order of events
	cargo test -p rlfast-core -p rlfast-envs --release --lib --locked --target-dir target/loom loom $(CARGO_ARGS)

miri: export MIRIFLAGS = -Zmiri-disable-isolation
miri: export PROPTEST_CASES = 2
miri:                   ## the engine under miri (needs `rustup toolchain install nightly --component miri`)
	cargo +nightly miri test -p rlfast-core -p rlfast-host --lib --locked --target-dir target/miri $(CARGO_ARGS)

docker:                 ## the image of packaging/Dockerfile, where Docker runs
	@if docker info > /dev/null 2>&1; then docker build -f packaging/Dockerfile -t rlfast . && docker run --rm rlfast --version; \
	else echo "Docker does not run here: the image is not built"; fi

clean:                  ## everything that was built; .venv stays
	rm -rf target dist build runs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks
	rm -f $(VENV)/.engine $(VENV)/.built
	find python tests bench -name __pycache__ -prune -exec rm -rf {} +
	rm -f python/rlfast/_core*.so python/rlfast/_core*.pyd
