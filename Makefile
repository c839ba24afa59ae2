# Short names for the scripts. `make demo` and `make check` need Debian 12 and, when packages are
# missing, root; the other targets only build.
.DEFAULT_GOAL := help
.PHONY: help demo check build test lint format bench plot fuzz install clean

PRESET ?= dev
PREFIX ?= /usr/local

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Install what is missing, build, classify real images with MXFP4 weights
	scripts/install_deps.sh demo
	scripts/demo.sh

check: ## Install what is missing and run everything that CI runs (about 20 minutes on 2 cores)
	scripts/install_deps.sh check
	scripts/check.sh

build: ## Configure and build a preset (PRESET=dev)
	cmake --preset $(PRESET)
	cmake --build --preset $(PRESET)

test: build ## Build and run the tests of a preset (PRESET=dev)
	ctest --preset $(PRESET)

lint: ## Formatting, shell scripts, repository rules, clang-tidy
	scripts/check.sh lint tidy

format: ## Rewrite all C++ files with clang-format
	git ls-files -co --exclude-standard -- '*.h' '*.cpp' '*.c' | xargs clang-format -i

bench: ## Measure the built-in shapes on this machine
	$(MAKE) build PRESET=release
	build/release/cli/mxgemm bench

plot: ## Measure 4096 x 4096 over M against oneDNN and OpenBLAS, one thread; writes docs/bench.svg
	$(MAKE) build PRESET=release
	build/release/cli/mxgemm bench 1,4096,4096 --m 1,2,4,8,16,32,64,128,256,512 --threads 1 \
	  --kernel cpu_amx_int8 --kernel cpu_avx512vnni --kernel cpu_avx2 --against onednn,openblas \
	  --json > build/bench.json
	python3 tools/plot_bench.py build/bench.json -o docs/bench.svg

fuzz: ## Ten minutes of each fuzzer (FUZZ_SECONDS=600)
	scripts/fuzz.sh $${FUZZ_SECONDS:-600}

install: ## Install the library and the command (PREFIX=/usr/local)
	$(MAKE) build PRESET=release
	cmake --install build/release --prefix $(PREFIX)

clean: ## Remove everything that was built
	rm -rf build
