# `make demo` and `make test` set up everything they need in .venv, then do the job.
# Re-running is quick: each step leaves a stamp, and only what changed is done again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo dev check test test-slow lint format fuzz bench bench-peers install clean

help:
	@echo "make dev          editable install: an edit of a Python file needs no rebuild"
	@echo "make check        the inner loop, about a minute: lint and the quick tests, on the editable install"
	@echo "make test         lint and all tests but the slow ones, on the installed wheel: at most 10 minutes"
	@echo "make test-slow    frameworks, browser, other processors, all photos, long fuzzing: at most 25 minutes"
	@echo "make lint         ruff, mypy and clang-format;  make format  to rewrite"
	@echo "make fuzz         decode damaged JPEGs and PNGs under ASan and UBSan for FUZZ_SECONDS=60, then resize as much"
	@echo "make demo         generate photos, pack them, verify, read back, compare with loose files"
	@echo "make bench        run every benchmark and write docs/reference/benchmarks.md;  BENCH=--quick  for one round"
	@echo "make bench-peers  install the large ones to compare with: DALI, tf.data, SPDL, LitData, MosaicML Streaming"
	@echo "make clean        remove the environment and everything built"

demo: install
	@$(BIN)/python examples/demo.py

PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist=worksteal

test: install lint
	$(PYTEST) -m "not (slow or fuzz or browser)"

test-slow: install
	$(PYTEST) -m "slow or fuzz or browser"

# These files take long, most because they start many processes. `make check` leaves them out.
LONG_FILES := cli/test_cli cli/test_interrupts cli/test_layouts cli/test_videos compat/test_gulpio_workers \
	compat/test_tutorial examples/test_imagenet examples/test_video \
	flow/test_remote flow/test_runners flow/test_shard_items flow/test_strangers hostile/test_datasets \
	pack/test_concurrent pack/test_failing_disk pack/test_stopping render/test_crew render/test_fuzz serve/test_life serve/test_rank \
	serve/test_python_transform serve/test_stalled_worker work/test_killed_parent workbench/test_bench \
	workbench/test_commands workbench/test_signals workbench/test_watch

check: dev lint
	$(PYTEST) -q -m "not (slow or fuzz or browser)" --hypothesis-profile=quick $(LONG_FILES:%=--ignore=tests/%.py)

lint: $(VENV)/.requirements
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(shell find cpp fuzz -name "*.h" -o -name "*.cpp")

format: $(VENV)/.requirements
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(shell find cpp fuzz -name "*.h" -o -name "*.cpp")

# What the benchmarks compare with goes into the same environment without touching what is there, but for GulpIO2, which
# replaces Pillow, and the decoders of videos. One that does not install is left out and named in the page.
bench: install
	-$(BIN)/python -m pip install -q -r benchmarks/requirements.txt
	test -d build/peers/gulpio2 || $(BIN)/python benchmarks/peers.py --install gulpio2
	test -d build/peers/video || $(BIN)/python benchmarks/peers.py --install video
	$(BIN)/python benchmarks/run_all.py $(BENCH)

# The large ones (DALI, TensorFlow, ...), each in an environment of its own in build/peers; `make bench` runs what is there.
bench-peers: install
	$(BIN)/python benchmarks/peers.py --install all

# libFuzzer where clang is installed, plain mutation where only g++ is. The tests build and run the latter.
FUZZ_SECONDS ?= 60
FUZZ_CORE := $(filter-out cpp/binding.cpp,$(wildcard cpp/*.cpp))
FUZZ_OBJECTS := $(FUZZ_CORE:cpp/%.cpp=build/fuzz/%.o)
FUZZ_FLAGS := -std=c++17 -O1 -g -pthread -fsanitize=address,undefined -fno-sanitize-recover=all

FUZZ_SHARE := $(shell expr $(FUZZ_SECONDS) / 2)

fuzz: build/fuzz/resize build/fuzz/program
ifneq ($(shell command -v clang++),)
	@mkdir -p build/fuzz/found_jpeg build/fuzz/found_png
	for kind in jpeg png; do \
		clang++ $(FUZZ_FLAGS) -fsanitize=fuzzer fuzz/fuzz_$$kind.cpp $(FUZZ_CORE) -o build/fuzz/libfuzzer_$$kind || exit 1; \
	done
	cd build/fuzz && ./libfuzzer_jpeg -max_total_time=$(FUZZ_SHARE) -max_len=20000 found_jpeg ../../fuzz/corpus
	cd build/fuzz && ./libfuzzer_png -max_total_time=$(FUZZ_SHARE) -max_len=20000 found_png ../../fuzz/corpus_png
else
	$(MAKE) build/fuzz/jpeg build/fuzz/png
	cd build/fuzz && ./jpeg ../../fuzz/corpus $(FUZZ_SHARE)
	cd build/fuzz && ./png ../../fuzz/corpus_png $(FUZZ_SHARE)
endif
	build/fuzz/resize $$(date +%s) $$((50 * $(FUZZ_SECONDS)))
	build/fuzz/program $$(date +%s) $$((50 * $(FUZZ_SECONDS)))

build/fuzz/jpeg build/fuzz/png: build/fuzz/%: fuzz/fuzz_%.cpp fuzz/mutate.cpp $(FUZZ_OBJECTS)
	g++ $(FUZZ_FLAGS) $^ -o $@

build/fuzz/resize build/fuzz/program: build/fuzz/%: fuzz/stress_%.cpp $(FUZZ_OBJECTS)
	g++ $(FUZZ_FLAGS) $^ -o $@

build/fuzz/%.o: cpp/%.cpp $(shell find cpp -name "*.h")
	@mkdir -p build/fuzz
	g++ $(FUZZ_FLAGS) -c $< -o $@

# Either the wheel or the editable install is in the environment: the stamp says which, and each removes the other's.
install: $(VENV)/.package

dev: $(VENV)/.editable

$(VENV)/.requirements: requirements-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -r requirements-dev.txt
	$(BIN)/python -m pip install -q --no-deps torchvision==0.28.0 timm==1.0.31
	@touch $@

CORE := $(shell find cpp -type f) pyproject.toml CMakeLists.txt
SOURCES := $(shell find src -type f -not -name '*.pyc' -not -name '*.so') $(CORE) README.md
$(VENV)/.package: $(VENV)/.requirements $(SOURCES)
	$(BIN)/python -m pip install -q --no-build-isolation --no-deps --force-reinstall .
	@rm -f $(VENV)/.editable
	@touch $@

$(VENV)/.editable: $(VENV)/.requirements $(CORE)
	$(BIN)/python -m pip install -q --no-build-isolation --no-deps --force-reinstall -e .
	@rm -f $(VENV)/.package
	@touch $@

clean:
	rm -rf $(VENV) build dist .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
