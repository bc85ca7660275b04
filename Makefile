# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
#
# Short names for SwiftPM commands and the programs in scripts/. Nothing is built here by other means.

PREFIX ?= /usr/local
DESTDIR ?=
root = $(DESTDIR)$(PREFIX)
# dev/stages.bash gives these variables to `swift build` as well, and says why.
swift := SWIFT_DETERMINISTIC_HASHING=1 $(if $(shell printf '%s' "$$TMPDIR" | LC_ALL=C tr -d ' -~'),TMPDIR=/tmp )swift
release = $(shell scripts/release-flags)
bin = $(shell $(swift) build $(release) --show-bin-path)
built = .build/release
# A gateway runs on Linux alone.
programs = culvert culvert-wg culvert-pin culvert-enroll $(if $(filter Linux,$(shell uname)),culvert-gateway)

.DEFAULT_GOAL := help
.PHONY: help demo gateway-demo test standins apple soak bench fuzz lint docs build install clean

help: ## Print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'

# With DEMO=--tun, as root, the demonstrations run in network namespaces; other programs take part in the gateway's.
demo: ## Build culvert and show two WireGuard devices at work; needs no root
	@scripts/setup demo
	$(swift) build $(release) --product culvert
	@"$(bin)/culvert" demo $(DEMO)

gateway-demo: ## Build the gateway and show an enrolment and a tunnel on this machine; needs no root
	@scripts/setup demo
	for name in culvert-gateway $(if $(findstring --tun,$(DEMO)),culvert culvert-enroll); do $(swift) build $(release) --product $$name || exit 1; done
	@"$(bin)/culvert-gateway" demo $(DEMO)

test: ## Build everything and run the tests; as root also those with TUN devices and namespaces
	@scripts/setup test
	@scripts/test

standins: ## Build the code for Apple's platforms against stand-ins for its frameworks, and run its tests
	@scripts/setup test
	@scripts/standins

apple: ## Compile everything for macOS and iOS, on Linux, against Apple's open headers and stand-ins
	@scripts/setup apple
	@scripts/apple

soak: ## Run what takes longer: sanitizer, simulations, fuzzing, benchmarks, tunnels, daemons under load
	@scripts/soak

bench: ## Measure everything beside wireguard-go and the C baseline, into docs/performance (root; BENCH="--quick")
	@scripts/setup bench
	@scripts/bench $(or $(BENCH),--into docs/performance)

fuzz: ## Fuzz each parser for FUZZ_SECONDS (60) with libFuzzer
	@scripts/fuzz

lint: ## Check format, licence headers, shell scripts and the layering laws
	@scripts/lint

docs: ## Build the DocC archives into docs/generated
	@scripts/docs

build: ## Build the programs that `make install` copies
	for name in $(programs); do $(swift) build $(release) --product $$name || exit 1; done

# Copies only, so that root builds nothing. The folder is named, since root may have no swift in its path.
# `programs` may be set to some of them.
install: ## Install the programs, the systemd units, completions and manual pages under $(DESTDIR)$(PREFIX)
	@for name in $(programs); do \
		test -x "$(built)/$$name" || { echo "error: $$name is not built; run 'make build' first" >&2; exit 1; }; done
	install -d "$(root)/bin" "$(root)/share/man/man1" "$(root)/share/man/man8" \
		"$(root)/share/bash-completion/completions" "$(root)/share/zsh/site-functions" \
		"$(root)/share/fish/vendor_completions.d" "$(root)/lib/systemd/system"
	for name in $(programs); do install -s -m 755 "$(built)/$$name" "$(root)/bin" || exit 1; done
	install -m 644 docs/man/culvert.1 docs/man/culvert-pin.1 docs/man/culvert-enroll.1 "$(root)/share/man/man1"
	install -m 644 docs/man/culvert-wg.8 docs/man/culvert-gateway.8 "$(root)/share/man/man8"
	for unit in culvert@.service culvert-guard@.service culvert-gateway.service; do \
		sed 's|/usr/local/bin/|$(PREFIX)/bin/|' "packaging/systemd/$$unit" > "$(root)/lib/systemd/system/$$unit" && \
		chmod 644 "$(root)/lib/systemd/system/$$unit" || exit 1; done
	@for name in $(filter-out culvert-wg,$(programs)); do \
		"$(built)/$$name" --generate-completion-script bash > "$(root)/share/bash-completion/completions/$$name" && \
		"$(built)/$$name" --generate-completion-script zsh > "$(root)/share/zsh/site-functions/_$$name" && \
		"$(built)/$$name" --generate-completion-script fish > "$(root)/share/fish/vendor_completions.d/$$name.fish" || \
		exit 1; done

clean: ## Remove what was built
	rm -rf .build .build-* Fuzz/corpus docs/generated
