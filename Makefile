# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
#
# Short names for SwiftPM commands and the programs in scripts/. Nothing is built here by other means.

PREFIX ?= /usr/local
DESTDIR ?=
release = -c release --static-swift-stdlib
bin = $(shell swift build $(release) --show-bin-path)

.DEFAULT_GOAL := help
.PHONY: help demo test soak bench fuzz lint docs install clean

help: ## Print this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'

demo: ## Build culvert and show two WireGuard devices at work; needs no root
	@scripts/setup demo
	swift build $(release) --product culvert
	@$(bin)/culvert demo $(DEMO)

test: ## Build everything and run the tests; as root also those with TUN devices and namespaces
	@scripts/setup test
	@scripts/test

soak: ## Run two daemons against each other for SOAK_SECONDS and watch memory, descriptors and threads
	@scripts/soak

bench: ## Measure cryptography, engine and data path on this machine
	@scripts/setup bench
	@scripts/bench

fuzz: ## Fuzz each parser for FUZZ_SECONDS (60) with libFuzzer
	@scripts/fuzz

lint: ## Check format, licence headers, shell scripts and the layering laws
	@scripts/lint

docs: ## Build the DocC archives into docs/generated
	@scripts/docs

install: ## Install culvert, culvert-wg, completions and manual pages under $(DESTDIR)$(PREFIX)
	swift build $(release) --product culvert
	swift build $(release) --product culvert-wg
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man8 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -s -m 755 $(bin)/culvert $(bin)/culvert-wg $(DESTDIR)$(PREFIX)/bin
	install -m 644 docs/man/culvert.1 $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 docs/man/culvert-wg.8 $(DESTDIR)$(PREFIX)/share/man/man8
	$(bin)/culvert --generate-completion-script bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/culvert
	$(bin)/culvert --generate-completion-script zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_culvert
	$(bin)/culvert --generate-completion-script fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/culvert.fish

clean: ## Remove what was built
	rm -rf .build Fuzz/.build Benchmarks/.build Fuzz/work docs/generated
