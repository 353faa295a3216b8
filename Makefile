# The commands of the house. On a fresh Debian with Rust, `make demo` and `make test` are all one needs.
#
#   make demo                      forge a chain, prove it, index it, ask the Electrum server, serve until Ctrl-C
#   make demo EXIT=1               the same, ending after the answers
#   make demo BLOCKS=DIR CHAIN=main   the same with the block files of another node, read in place
#   make test                      format, build, every test, with counts
#   make test-fast                 unit tests only
#   make bench                     the measuring kit; ARGS="import --blocks-from DIR ..."
#   make report                    the reports of docs/reports; BITCOIND=, BTCD=, BCOIN=, MAKO=, ELECTRS=, ELECTRUMX=,
#                                  FULCRUM=PROGRAM for those that are to take part, REPORTS=DIR for another folder
#   make fuzz CASES=100000000      signature engines against libsecp256k1; SEED=N goes on after a stop
#   make core-tests CORE_TESTS=DIR   Bitcoin Core's functional tests against us; ONLY=NAME for one, JOBS=N at a time
#   make docs                      write the pages that are made from code
#
# Everything is built with the one release profile, so that the C++ of libbitcoinkernel is compiled once.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
TARGET_DIR := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
ASSAY := $(TARGET_DIR)/release/assay
BUILD := --release --locked
TESTS := --workspace --lib --bins --tests
DEMO_DIR ?= demo-data
REPORTS ?= docs/reports
NODES := --node assay --node assay-files --node kernel \
	$(if $(BITCOIND),--node bitcoind="$(BITCOIND)" --node bitcoind-files="$(BITCOIND)") \
	$(if $(BTCD),--node btcd="$(BTCD)") $(if $(MAKO),--node mako="$(MAKO)")
SERVERS := $(if $(BITCOIND),--bitcoind "$(BITCOIND)" $(if $(ELECTRS),--electrs "$(ELECTRS)") \
	$(if $(ELECTRUMX),--electrumx "$(ELECTRUMX)") $(if $(FULCRUM),--fulcrum "$(FULCRUM)"))

.PHONY: help packages build demo test test-fast bench report fuzz core-tests docs

help:
	@sed -n '/^[^#]/q; /^$$/q; s/^# \{0,1\}//p' Makefile

packages:
	@./scripts/packages

build: packages
	$(CARGO) build $(BUILD) -p assay

demo: build
	$(ASSAY) demo --datadir "$(DEMO_DIR)" $(if $(BLOCKS),--blocks-from "$(BLOCKS)") $(if $(CHAIN),--chain "$(CHAIN)") \
		$(if $(EXIT),--exit) $(ARGS)

test: packages
	$(CARGO) fmt --all --check
	$(CARGO) build $(BUILD) $(TESTS)
	@./scripts/count-tests $(CARGO) test $(BUILD) $(TESTS) --no-fail-fast -- --show-output

test-fast: packages
	@./scripts/count-tests $(CARGO) test $(BUILD) --workspace --lib --bins -- --show-output

bench: build
	$(ASSAY) bench $(ARGS)

# Some twenty minutes on two idle cores; docs/measuring.md says what each bench does.
report: build
	$(ASSAY) bench storage --forge-inputs 500000 --report "$(REPORTS)"
	$(ASSAY) bench index --forge-inputs 500000 --report "$(REPORTS)"
	$(ASSAY) bench validate --forge-inputs 200000 --memory 450 --patience 300 $(NODES) --report "$(REPORTS)"
	$(ASSAY) bench validate --name validate-small --forge-inputs 15000 --memory 450 --patience 300 $(NODES) \
		$(if $(BCOIN),--node bcoin="$(BCOIN)") --report "$(REPORTS)"
	$(ASSAY) bench electrum $(SERVERS) --report "$(REPORTS)"

fuzz: build
	$(ASSAY) bench fuzz $(if $(CASES),--cases $(CASES)) $(if $(SEED),--seed $(SEED)) $(ARGS)

core-tests: build
	@test -n "$(CORE_TESTS)" || { echo "CORE_TESTS=DIR names a checkout of Bitcoin Core"; exit 2; }
	./tools/core-tests/run --core "$(CORE_TESTS)" --assay $(ASSAY) $(if $(ONLY),--only "$(ONLY)") \
		$(if $(JOBS),--jobs $(JOBS)) $(ARGS)

docs: build
	$(ASSAY) config --manual > docs/configuration.md
