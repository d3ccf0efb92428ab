# The slow targets: hours of cases, emulation, and what needs large packages or an environment of its own. They run each
# night, and before a release; the Makefile includes this file.

.PHONY: sweeps aarch64 fuzz fuzz-jpeg remote-faults store-exits store-resumes changes chaos moto azurite coverage conformance mutate mutants asan ray mindspore dali free-threaded notebooks trainers exports wheel-aarch64

# The C tests as a 64-bit ARM machine runs them, by emulation: without the seam, io_uring, and forks beside threads (on which
# qemu-user 7.2 ends with an assertion of its own).
AARCH64_CC := aarch64-linux-gnu-gcc
AARCH64_TESTS := $(filter-out faults_%,$(C_TESTS:tests/c/%.c=%))
AARCH64_FLAGS := -std=c11 -g -O2 -static -pthread -DUR_EMULATED -Icsrc -Itests/c $(C_WARNINGS)

build/aarch64/core/%.o: csrc/%.c $(C_HEADERS)
	@mkdir -p $(@D)
	@echo "cc $< (aarch64)" && $(AARCH64_CC) $(AARCH64_FLAGS) -c $< -o $@

build/aarch64/%: tests/c/%.c $(C_SOURCES:csrc/%.c=build/aarch64/core/%.o) $(C_HEADERS)
	@mkdir -p $(@D)
	@echo "cc $< (aarch64)" && $(AARCH64_CC) $(AARCH64_FLAGS) $< $(filter %.o,$^) -o $@

aarch64: ## the C tests as 64-bit ARM code, emulated
	@command -v $(AARCH64_CC) qemu-aarch64 >/dev/null || { echo "make aarch64 needs: apt-get install gcc-aarch64-linux-gnu qemu-user" >&2; exit 1; }
	@$(MAKE) --no-print-directory $(AARCH64_TESTS:%=build/aarch64/%)
	@for test in $(AARCH64_TESTS); do echo $$test; qemu-aarch64 build/aarch64/$$test || exit 1; done

# Branches of the core that the C tests take, file by file.
# (_exit is exit there, so that forked children count.)
COVERAGE_FLAGS := -std=c11 -g -O0 --coverage -fprofile-update=atomic -D_exit=exit -pthread -Icsrc -Itests/c
COVERAGE_TESTS := $(C_TESTS:tests/c/%.c=%)

build/coverage/core/%.o: csrc/%.c $(C_HEADERS)
	@mkdir -p $(@D)
	@$(CC) $(COVERAGE_FLAGS) -c $< -o $@

build/coverage/faults_%: tests/c/faults_%.c tests/c/fault_seam.c $(C_SOURCES:csrc/%.c=build/coverage/core/%.o)
	@$(CC) $(COVERAGE_FLAGS) $(call WRAP,$(FAULT_CALLS)) $(filter %.c %.o,$^) -o $@

build/coverage/%: tests/c/%.c $(C_SOURCES:csrc/%.c=build/coverage/core/%.o)
	@$(CC) $(COVERAGE_FLAGS) $(filter %.c %.o,$^) -o $@

coverage: $(COVERAGE_TESTS:%=build/coverage/%) ## branches of the core that the C tests take
	@rm -f build/coverage/*.gcda build/coverage/core/*.gcda
	@for test in $^; do echo $$test; ./$$test || exit 1; done
	@$(PYTHON) tests/c/coverage.py build/coverage/core $(C_SOURCES)

# Coverage-guided cases without end: FUZZ_SECONDS of them.
FUZZ_SECONDS ?= 600

build/fuzz/fuzz_open: tests/c/fuzz_open.c tests/c/memory_files.c $(C_SOURCES) $(C_HEADERS)
	@command -v clang >/dev/null || { echo "make fuzz needs clang and libFuzzer: apt-get install clang libclang-rt-14-dev" >&2; exit 1; }
	@mkdir -p $(@D)/corpus
	clang -std=c11 -g -O2 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -pthread -Icsrc -Itests/c \
		$(call WRAP,$(FUZZ_CALLS)) $(filter %.c,$^) -o $@

fuzz: build/fuzz/fuzz_open ## coverage-guided cases, FUZZ_SECONDS of them
	$(PYTHON) tests/slow/fuzz_seeds.py build/fuzz/seeds
	ASAN_OPTIONS=malloc_context_size=0:quarantine_size_mb=4 $< -max_len=7168 -max_total_time=$(FUZZ_SECONDS) \
		-print_final_stats=1 -artifact_prefix=build/fuzz/ build/fuzz/corpus build/fuzz/seeds

# FUZZ_CASES mutated JPEGs through the optional unit, under the sanitizers.
FUZZ_CASES ?= 200000
JPEG_SOURCES := $(wildcard csrc/picture/jpeg/*.c csrc/picture/*.c) csrc/base/fail.c

build/fuzz/fuzz_jpeg: tests/c/fuzz_jpeg.c $(JPEG_SOURCES) $(C_HEADERS)
	@mkdir -p $(@D)
	$(CC) $(C_TEST_FLAGS) $(filter %.c,$^) -ljpeg -o $@

# 10,000 random schedules of faults of an object store: exact values or a clear error.
remote-faults: venv build ## 10,000 schedules of faults of an object store
	$(BIN)/python tests/support/remote_fault_schedules.py

# Processes that end while they use an object store, 100 in each of three ways: what the interpreter's end leaves to chance.
store-exits: venv build ## processes that end while they use an object store
	$(BIN)/python tests/support/store_exits.py --times 100

# Conversions to a store that die at each request, and at random ones again and again: the same bytes in the end.
store-resumes: venv build ## conversions to an object store, killed at every request
	$(BIN)/python tests/support/resumed_store.py

# Sweeps of which `make test` runs a part: damage, interrupts and random parts and queries, at more places.
SWEEPS := inspect/test_verify.py core/test_corruption_fields.py core/test_reference.py writing/test_interrupts.py \
	query/test_query_random.py writing/test_rewrites_stopped.py

sweeps: venv build ## the sweeps of which make test runs a part
	UNIRECORD_SWEEPS=1 $(BIN)/python -m pytest -q $(SWEEPS:%=tests/%)

# 10,000 random appends, deletions, layouts, restores and collections beside lists of rows in memory.
changes: venv build ## 10,000 random changes of datasets
	UNIRECORD_STEPS=10000 $(BIN)/python -m pytest -q tests/snapshot/test_deleting.py::TestDeleting \
	  tests/snapshot/test_version_changes.py::TestGrowing tests/snapshot/test_columns_faults.py::TestChanging

# Producers, a deleter, a compactor and a trainer on one directory, killed at random for CHAOS_SECONDS.
CHAOS_SECONDS ?= 180

chaos: venv build ## writers and a trainer at once, killed at random
	$(BIN)/python tests/support/chaos.py $(CHAOS_SECONDS) $(CHAOS_SEED)

# S3 as moto speaks it, beside the tests' own server: large packages, so not in `make test`.
moto: venv build ## S3 as moto speaks it
	$(BIN)/python -m pip install -qq "moto[s3,server]>=5"
	PYTHONPATH=tests/support $(BIN)/python tests/slow/moto_store.py

# Azure as Azurite speaks it, Microsoft's emulator in JavaScript.
AZURITE := build/azurite

$(AZURITE)/ready: Makefile
	@command -v npm >/dev/null || { echo "make azurite needs: apt-get install npm" >&2; exit 1; }
	npm install --silent --prefix $(AZURITE) "azurite@3"
	@touch $@

azurite: venv build $(AZURITE)/ready ## Azure as Azurite speaks it
	flock $(VENV)/build.lock $(BIN)/python -m pip install -qq "azure-storage-blob>=12"
	PYTHONPATH=tests/support $(BIN)/python tests/slow/azurite_store.py $(AZURITE)/node_modules/.bin/azurite-blob

fuzz-jpeg: build/fuzz/fuzz_jpeg venv
	PYTHONPATH=tests/support $(BIN)/python tests/slow/jpeg_seeds.py build/fuzz/jpeg
	$< $(FUZZ_CASES) build/fuzz/jpeg/*.jpg

# Loaders against an oracle, in CASES random configurations from number FIRST on; what fails is replayed by its number.
CASES ?= 20000
FIRST ?= 0

conformance: venv build frameworks ## loaders against an oracle, CASES of them
	cd tests && PYTHONPATH=support ../$(BIN)/python -W ignore -m conformance $(FIRST) $(CASES)

# MUTATIONS parts that were changed and have right digests again, from number MUTATED on, read and mended with a C core
# under the address sanitizer; each in two processes that find other bytes in fresh memory.
MUTATIONS ?= 20000
MUTATED ?= 0
ASAN := build/asan
ASAN_FLAGS := -fsanitize=address -fno-omit-frame-pointer -g -DUR_TIME_ALL=1

$(ASAN)/built: $(C_SOURCES) $(C_HEADERS) $(shell find unirecord -name '*.py') setup.py $(VENV)/ready
	CFLAGS="$(ASAN_FLAGS)" LDFLAGS="-fsanitize=address" $(BIN)/python setup.py --quiet build --build-lib $(ASAN) \
		--build-temp $(ASAN)-temp >/dev/null
	@touch $@

mutate: venv build $(ASAN)/built ## MUTATIONS resealed parts under the address sanitizer
	cd tests && PYTHONPATH=../$(ASAN):support UNIRECORD_PRELOAD=$$($(CC) -print-file-name=libasan.so) \
		../$(BIN)/python -m mutations $(MUTATED) $(MUTATIONS)

# One-line changes of the package, each in a copy of the tree, that tests must see; MUTANTS="WORD ..." chooses some by what
# stands in tests/support/mutants.txt.
mutants: venv build ## one-line changes that the tests must see
	$(BIN)/python tests/support/mutants.py $(MUTANTS)

# The tests of who holds what, for how long, with that C core: use after free, in whatever order things are dropped. Not the
# children of a fork beside loaders that read ahead: GCC 12's sanitizer does not take the locks of its allocator around a
# fork, so some child waits for one for ever (`make test` has these cases, without the sanitizer).
asan: venv $(ASAN)/built ## who holds what, under the address sanitizer
	cd tests && export LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) PYTHONPATH=$(abspath $(ASAN)) && \
		export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1 && ../$(BIN)/python -m pytest -q core/test_lifetimes.py core/test_handle.py \
			-k "not children_inherit_iterators"

# Real Ray, started here: tasks killed, run again and run twice, a training killed and gone on with. Minutes, and 150 MB.
ray: venv build frameworks ## real Ray: tasks killed, run again and run twice
	flock $(VENV)/build.lock $(BIN)/python -m pip install -qq "ray[data,train]==2.60.*"
	$(BIN)/python -m pytest -q tests/slow/ray_writing_jobs.py tests/slow/ray_reading_jobs.py
	$(BIN)/python -m pytest -q tests/slow/ray_train_jobs.py

# Lightning, Fabric, Accelerate, torchdata's nodes and transformers' Trainer, which take longer to import than a run can spare.
trainers: venv build frameworks ## Lightning, Accelerate, transformers and torchdata
	flock $(VENV)/build.lock $(BIN)/python -m pip install -qq "lightning>=2.6" "accelerate>=1.15" "transformers>=5.23"
	$(BIN)/python -m pytest -q tests/slow/trainer_loops.py

# unirecord.mindspore.dataset beside MindRecord, in an environment of its own: MindSpore takes 800 MB, and has pins of its own.
MINDSPORE := build/mindspore

$(MINDSPORE)/ready: Makefile
	$(PYTHON) -m venv $(MINDSPORE)
	$(MINDSPORE)/bin/python -m pip install -qq "setuptools<80" "mindspore==2.10.0" cffi msgpack "pytest>=8" hypothesis xxhash zstandard
	@touch $@

mindspore: venv build $(MINDSPORE)/ready ## MindSpore, in an environment of its own
	cd tests && PYTHONPATH=$(CURDIR) $(CURDIR)/$(MINDSPORE)/bin/python -m pytest -q slow/mindspore_reads.py conformance/test_matrix.py

# DALI's external_source over ds.batches(), on the CPU, in an environment of its own: DALI takes 1.1 GB.
DALI := build/dali

$(DALI)/ready: Makefile
	$(PYTHON) -m venv $(DALI)
	$(DALI)/bin/python -m pip install -qq "nvidia-dali-cuda120==2.4.0" cffi msgpack "pytest>=8" hypothesis
	@touch $@

dali: venv build $(DALI)/ready ## DALI, in an environment of its own
	cd tests && PYTHONPATH=$(CURDIR) $(CURDIR)/$(DALI)/bin/python -m pytest -q slow/dali_reads.py

# The tests of what threads share on free-threaded Python, with the lock off, in an environment of its own: PYTHON314T is the
# interpreter, which cffi needs to be 3.14 or newer. Not there: PyTorch, NumPy in subinterpreters; and threads are in the place
# of processes, so of those tests the ones that say so are run. What failing transforms leave to the collector, it takes late
# there: memory is level when it is called every 40 passes, and is not counted as the test of leaks does.
PYTHON314T ?= python3.14t
FREE_THREADED := build/free-threaded
FREE_THREADED_TESTS := threads_together reader reader_errors format_example order loader writer concurrency handle lifetimes leaks \
	state dataset dataset_resume samples_cache stats batch_stage leaving waiting pipeline pipeline_threads pipeline_states \
	straight live_files
FREE_THREADED_PYTEST = cd tests && PYTHON_GIL=0 PYTHONPATH=$(CURDIR)/$(FREE_THREADED)/built \
	PYTHONWARNINGS="ignore:This process (pid:DeprecationWarning" $(CURDIR)/$(FREE_THREADED)/bin/python -m pytest -q

$(FREE_THREADED)/ready: Makefile pyproject.toml setup.py $(C_SOURCES) $(C_HEADERS) $(shell find unirecord -name '*.py')
	$(PYTHON314T) -m venv $(FREE_THREADED)
	$(FREE_THREADED)/bin/python -m pip install -qq "setuptools>=77" wheel "cffi>=2" "numpy>=2.1" "msgpack>=1.1" \
		"pytest>=8" "hypothesis>=6.100" "xxhash>=3.4" "zstandard>=0.23" "pillow>=11"
	$(FREE_THREADED)/bin/python setup.py --quiet build --build-lib $(FREE_THREADED)/built --build-temp $(FREE_THREADED)/temp >/dev/null
	@touch $@

free-threaded: ## what threads share, on PYTHON314T with the lock off
	@command -v $(PYTHON314T) >/dev/null || { echo "make free-threaded needs a free-threaded CPython 3.14: PYTHON314T=/where/it/is/python3.14t" >&2; exit 1; }
	@$(PYTHON314T) -c 'import sys, sysconfig; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))' || \
		{ echo "make free-threaded: $(PYTHON314T) has the lock for good" >&2; exit 1; }
	@$(MAKE) --no-print-directory $(FREE_THREADED)/ready
	$(FREE_THREADED_PYTEST) $(FREE_THREADED_TESTS:%=$$(ls */test_%.py)) -k "not torch and not subinterpreters and not fail_in_transforms"
	$(FREE_THREADED_PYTEST) pipeline/test_pipeline_generators.py pipeline/test_pipeline_processes.py -k without_a_gil

# The example notebook in a kernel of Jupyter, completion and Ctrl-C, in an environment of its own.
NOTEBOOKS := build/notebooks

$(NOTEBOOKS)/ready: Makefile
	$(PYTHON) -m venv $(NOTEBOOKS)
	$(NOTEBOOKS)/bin/python -m pip install -qq nbclient ipykernel matplotlib tqdm ipywidgets numpy pillow cffi msgpack "pytest>=8" hypothesis
	@touch $@

notebooks: venv build $(NOTEBOOKS)/ready ## the example notebook, completion and Ctrl-C in Jupyter
	cd tests && PYTHONPATH=$(CURDIR) PATH=$(CURDIR)/$(NOTEBOOKS)/bin:$$PATH $(CURDIR)/$(NOTEBOOKS)/bin/python -m pytest -q slow/notebook_cells.py

# Sources read, and exports read back, by libraries that are too large for every run: pylance, MosaicML's streaming, MindSpore.
CACHE ?= benchmarks/.cache

exports: venv build ## exports read back by libraries that are large
	flock $(VENV)/build.lock $(BIN)/python -m pip install -qq "pylance>=7"
	$(BIN)/python -m pytest -q tests/convert/test_export_formats.py tests/convert/test_sources_libraries.py
	PYTHONPATH=tests/support $(BIN)/python tests/slow/exports_read_back.py $(CACHE)

# What `make wheel` makes and, from the same sdist, the wheel for 64-bit ARM, cross-compiled; then both in clean environments
# of PYTHONS and, by emulation, of the Python in a folder with Debian's programs for ARM. That needs no root.
PYTHONS ?= $(BIN)/python
ARM_ROOT := build/aarch64-debian

$(ARM_ROOT)/made: Makefile .ci/debian-root
	.ci/debian-root $(ARM_ROOT) arm64 python3-venv libpython3-dev libstdc++6 dash coreutils
	@touch $@

wheel-aarch64: ## the same for 64-bit ARM, and both tried with PYTHONS
	@command -v aarch64-linux-gnu-gcc qemu-aarch64-static >/dev/null || { echo "make wheel-aarch64 needs: apt-get install gcc-aarch64-linux-gnu qemu-user-static" >&2; exit 1; }
	@$(MAKE) --no-print-directory $(ARM_ROOT)/made wheel
	PATH="$(abspath $(BIN)):$$PATH" PYTHON=$(BIN)/python LIBJPEG_TURBO=$(LIBJPEG_TURBO) .ci/wheel-aarch64 $(ARM_ROOT)
	.ci/try-wheels --aarch64 $(ARM_ROOT) $(PYTHONS)
