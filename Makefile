# `make check` and then `make test` is what CI runs (.ci/run). Each phase says
# how many seconds it took; the scripts behind the targets are in .ci/.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build
.NOTPARALLEL:
.PHONY: build demo codex test check fmt format vet lint layers staticcheck tidy race cross fuzz tools clean help

STEP := .ci/step
FUZZTIME ?= 10s
CODEX ?=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

build: ## bin/codex-supervisor, static
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w -X main.linkedVersion=$(VERSION)' -o bin/codex-supervisor ./cmd/codex-supervisor

ifeq ($(CODEX),real)
demo: build ## the main job on the built-in stub; CODEX=real: on the pinned Codex and a local model
	@codex=$$(.ci/codex/install) && bin/codex-supervisor demo --codex "$$codex"
else
demo: build
	@bin/codex-supervisor demo
endif

codex: ## install the pinned Codex into .tools/codex and print its native binary
	@.ci/codex/install

test: ## all tests, coverage per package (floor 85 %); CODEX_E2E=require|skip
	@$(STEP) 'test with coverage' .ci/test

check: format vet lint staticcheck tidy cross race ## everything but coverage

fmt: tools ## format in place
	@.ci/format --write

format: tools ## gofumpt finds nothing to change
	@$(STEP) 'format' .ci/format

vet: ## go vet for this system (darwin: see cross)
	@$(STEP) 'vet' go vet ./... ./.ci/lint ./.ci/coverage

lint: ## import layers and house rules
	@$(STEP) 'layers and house rules' go run ./.ci/lint

staticcheck: tools ## staticcheck and exhaustive
	@$(STEP) 'staticcheck, exhaustive' .ci/staticcheck

tidy: ## go.mod needs no change
	@$(STEP) 'go mod tidy' go mod tidy -diff

race: ## all tests under the race detector
	@$(STEP) 'race tests' .ci/race

cross: ## build for darwin and linux/arm64, vet for darwin
	@$(STEP) 'cross builds' .ci/cross

fuzz: ## every fuzz target for FUZZTIME
	@$(STEP) 'fuzz' .ci/fuzz $(FUZZTIME)

tools:
	@$(STEP) 'tools' .ci/tools/install

clean: ## remove what was built and installed
	rm -rf bin dist coverage.out .tools
