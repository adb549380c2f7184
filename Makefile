# `make demo` and `make test` set up everything they need in .venv, then do the job.
# Re-running is quick: each step leaves a stamp, and only what changed is done again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test lint format fuzz bench bench-peers install clean

help:
	@echo "make demo    generate photos, pack them, verify, read back, compare with loose files"
	@echo "make test    lint and the whole test suite, on the installed wheel"
	@echo "make lint    ruff, mypy and clang-format;  make format  to rewrite"
	@echo "make fuzz    decode damaged JPEGs under ASan and UBSan for FUZZ_SECONDS=60, then resize as much"
	@echo "make bench   run every benchmark and write docs/benchmarks.md;  BENCH=--quick  for one round"
	@echo "make bench-peers   install the large ones to compare with: DALI, tf.data, SPDL, LitData, MosaicML Streaming"
	@echo "make clean   remove the environment and everything built"

demo: install
	@$(BIN)/python examples/demo.py

test: install lint
	$(BIN)/python -m pytest -n $(JOBS) --dist=worksteal

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(shell find cpp fuzz -name "*.h" -o -name "*.cpp")

format: install
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(shell find cpp fuzz -name "*.h" -o -name "*.cpp")

# What the benchmarks compare with goes into the same environment without touching what is there, but for GulpIO2, which
# replaces Pillow. One that does not install is left out and named in the page.
bench: install
	-$(BIN)/python -m pip install -q -r benchmarks/requirements.txt
	test -d build/peers/gulpio2 || $(BIN)/python benchmarks/peers.py --install gulpio2
	$(BIN)/python benchmarks/run_all.py $(BENCH)

# The large ones (DALI, TensorFlow, ...), each in an environment of its own in build/peers; `make bench` runs what is there.
bench-peers: install
	$(BIN)/python benchmarks/peers.py --install all

# libFuzzer where clang is installed, plain mutation where only g++ is.
FUZZ_SECONDS ?= 60
FUZZ_CORE := $(filter-out cpp/binding.cpp,$(wildcard cpp/*.cpp))
FUZZ_FLAGS := -std=c++17 -O1 -g -pthread -fsanitize=address,undefined -fno-sanitize-recover=all

fuzz:
	@mkdir -p build/fuzz/found
ifneq ($(shell command -v clang++),)
	clang++ $(FUZZ_FLAGS) -fsanitize=fuzzer fuzz/fuzz_jpeg.cpp $(FUZZ_CORE) -o build/fuzz/jpeg
	cd build/fuzz && ./jpeg -max_total_time=$(FUZZ_SECONDS) -max_len=20000 found ../../fuzz/corpus
else
	$(CXX) $(FUZZ_FLAGS) fuzz/fuzz_jpeg.cpp fuzz/mutate.cpp $(FUZZ_CORE) -o build/fuzz/jpeg
	cd build/fuzz && ./jpeg ../../fuzz/corpus $(FUZZ_SECONDS)
endif
	$(CXX) $(FUZZ_FLAGS) fuzz/stress_resize.cpp $(FUZZ_CORE) -o build/fuzz/resize
	build/fuzz/resize $$(date +%s) $$((50 * $(FUZZ_SECONDS)))

install: $(VENV)/.package

$(VENV)/.requirements: requirements-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -r requirements-dev.txt
	$(BIN)/python -m pip install -q --no-deps torchvision==0.28.0
	@touch $@

SOURCES := $(shell find src cpp -type f -not -name '*.pyc') pyproject.toml CMakeLists.txt README.md
$(VENV)/.package: $(VENV)/.requirements $(SOURCES)
	$(BIN)/python -m pip install -q --no-build-isolation --no-deps --force-reinstall .
	@touch $@

clean:
	rm -rf $(VENV) build dist .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
