# Ingot. Run `make` for a list of targets.

.DEFAULT_GOAL := help
SHELL         := bash
.SHELLFLAGS   := -euo pipefail -c
# Run steps one after another, even with -j: the go tool uses every core itself.
.NOTPARALLEL:
.DELETE_ON_ERROR:

VERSION  := $(shell scripts/version)
# Everything but the tests with the race detector, which needs cgo, is compiled the
# same way, so that each package is compiled once.
PLAIN     = CGO_ENABLED=0 GOFLAGS="$$(go env GOFLAGS) -trimpath"
GO_BUILD  = CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w -X ingot/internal/base/version.stamped=$(VERSION)'
# The SQLite library, which is translated from C and has locks of its own, and the
# hash of passwords are compiled without the race detector: they took much of the time
# of tests. The linters include what `go vet` checks.
RACE      = -race -gcflags=modernc.org/...=-race=false -gcflags=golang.org/x/crypto/argon2=-race=false -vet=off
# In CI every test runs, in a random order. For developers the results of packages in which nothing changed come
# from the cache of `go test` (all anew: make test ARGS=-count=1); end-to-end tests always run.
ANEW     := $(if $(filter true,$(CI)),-count=1 -shuffle=on)
ARGS     ?=
FUZZTIME ?= 1s

# $(call run,COMMAND) shows the command on one line, then runs it.
run = @printf '  %s\n' '$(subst ','\'',$(strip $(1)))'; $(1)

# Starts a throw-away PostgreSQL server for the command that follows.
with_postgres = go run ./internal/base/db/dbtest/pgserver --

# Every package of the product except the container engine, whose tests start
# hundreds of containers and run alone, and the rules of the tree, which only read the
# source and need no race detector.
packages   = $$(go list ./... | grep -vE '^ingot/internal/(archtest|platform/engine/container)')
# Packages with much that happens at the same time, which `make test` runs with the race
# detector. Tests of the others mostly start programs, call the API or wait for databases, and
# it would take minutes there; `make soak` runs all with it.
raced      = cmd/ingot-init $(addprefix internal/, \
	base/background base/connlimit base/keyed base/safedial base/web server/cluster server/handover \
	broker/forward console console/apps console/page notify/delivery platform/edge/router \
	platform/edge/router/accesslog platform/engine/agent platform/engine/local \
	platform/instance/agentserver platform/instance/dns platform/logs platform/logs/drain \
	platform/logs/logfiles platform/run/controller platform/run/controller/routing)
# Two packages are tested at the same time, in this order: those that take longest are first, so
# that none of them is left to run alone at the end.
slowest    = $(addprefix ingot/internal/,system broker platform/run/staging platform/engine/kubernetes platform/platformdb)
unraced    = $(slowest) $$(echo "$(packages)" | grep -vxF "$$(printf '%s\n' $(slowest) $(addprefix ingot/,$(raced)))")
containers = ./internal/platform/engine/container/...
client     = ./cmd/ingot ./internal/cli/... ./internal/broker/check

# The Go modules: the product, and modules that are built and tested with it.
# `go -C DIR` runs the go tool in one of them.
modules = . samples clients/notifications e2e bench cluster vm stack release

# $(call each,COMMAND) shows and runs a command in the folder of each module, also after one
# where it fails.
each = @failed=0; for dir in $(modules); do \
	printf '  %s: %s\n' "$$dir" '$(strip $(1))'; (cd "$$dir" && $(1)) || failed=1; done; exit $$failed

# A checksum of every file that git would commit, to detect changes by a test run.
# Files that cannot be read (deleted but still tracked) are left out.
tree_state = git ls-files -z --cached --others --exclude-standard | \
	{ xargs -0 -r sha256sum 2>/dev/null || true; } | LC_ALL=C sort -k 2

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Run
.PHONY: up down build

up: setup build ## build and run a server with a demo org here (ARGS="--listen 127.0.0.1:9000")
	$(call run,exec bin/ingot up --demo $(ARGS))

down: ## stop the server started by `make up`, and its apps
	$(call run,bin/ingot down $(ARGS))

build: ## build bin/ingot and the small programs beside it
	$(call run,$(GO_BUILD) -o bin/ingot-init ./cmd/ingot-init)
	$(call run,$(GO_BUILD) -o bin/ingot-builder ./cmd/ingot-builder)
	$(call run,$(GO_BUILD) -o bin/ingot-static ./cmd/ingot-static)
	$(call run,$(GO_BUILD) -o bin/ingot-sftp ./cmd/ingot-sftp)
	$(call run,$(GO_BUILD) -o bin/ingot ./cmd/ingot)

.PHONY: samples
samples: ## build the sample apps, ready to be pushed
	$(call run,scripts/samples)

.PHONY: deb release release-check
deb: build ## build a Debian package with systemd units
	$(call run,go -C release run . --version $(VERSION) --epoch $$(git log -1 --format=%ct 2>/dev/null || echo 0) --programs $(CURDIR)/bin --arch $$(go env GOARCH) --only deb --out $(CURDIR)/bin)

release: ## build packages, archives, the image, repositories and install.sh in dist/ (RELEASE_URL, SIGNING_KEY)
	@scripts/release

release-check: ## build the release of this commit twice and compare
	@scripts/release-check

.PHONY: stack-image server-image
STACK = go -C stack run . --programs $(CURDIR)/bin --cache $(CURDIR)/.tools/stack

stack-image: build ## build the image of app instances on Kubernetes (ARGS="--name REFERENCE --push")
	@scripts/setup stack
	$(call run,$(STACK) --image stack --out $(CURDIR)/bin/stack.tar $(ARGS))

server-image: build ## build the image of the server (ARGS="--name REFERENCE --push")
	@scripts/setup stack
	$(call run,$(STACK) --image server --out $(CURDIR)/bin/server.tar $(ARGS))

##@ Kubernetes
.PHONY: cluster-up cluster-down cluster-build test-kubernetes

# The programs of the test cluster, and the images that its nodes import.
CLUSTER = bin/cluster --tools .tools/bin/kubernetes --logs bin/kubernetes-logs --image bin/small.tar --image bin/server.tar

cluster-build: build
	@scripts/setup kubernetes
	$(call run,CGO_ENABLED=0 go -C cluster build -o $(CURDIR)/bin/ . ./pause)
	$(call run,$(STACK) --image small --out $(CURDIR)/bin/small.tar)
	$(call run,$(STACK) --image server --out $(CURDIR)/bin/server.tar)

cluster-up: cluster-build ## start a Kubernetes cluster with two nodes here (needs root)
	$(call run,$(CLUSTER) up)

cluster-down: ## stop the cluster of `make cluster-up`
	$(call run,bin/cluster down)

test-kubernetes: cluster-build .tools/bin/cf ## run the tests that need a real cluster (needs root)
	$(call run,$(CLUSTER) run -- scripts/on-cluster $(ARGS))
	$(call run,$(CLUSTER) --nodes 0 run -- scripts/on-cluster $(ARGS))

##@ Virtual machine
.PHONY: vm-image vm-up test-vm

# Images of Debian for tests, and a guest's files.
VM_CACHE ?= $(CURDIR)/.tools/vm
VM        = go -C vm run . --cache $(VM_CACHE)

vm-image: ## build the image of Debian that `make test-vm` starts, unless it exists (needs root)
	@scripts/setup vm
	$(call run,$(VM) image)

vm-up: vm-image ## start a Debian with systemd and cgroup v2 in QEMU, until Ctrl+C (ARGS="--files DIR")
	$(call run,$(VM) $(ARGS) up)

test-vm: deb vm-image ## run the tests that need systemd and cgroup v2, in QEMU (ONLY="life suites" ARGS="-kills 50")
	$(call run,VM_CACHE=$(VM_CACHE) scripts/on-vm $(ARGS))

##@ Check
.PHONY: check test test-unit test-e2e fuzz soak flake lint fmt fmt-check commits tidy tree-save tree-check

TEST_STEPS := setup-test tree-save commits fmt-check build tests tree-check

check: .tools/bin/golangci-lint ## run format, linters and tests of the packages that changed (BASE=COMMIT)
	@scripts/check

test: ## run everything that must pass before a change is merged
	@began=$$SECONDS; scripts/gotest --forget; \
	for step in $(TEST_STEPS); do \
		echo "== $$step"; \
		$(MAKE) --no-print-directory $$step || { \
			echo "make test: FAILED at '$$step' after $$((SECONDS - began)) s (again: make $$step)"; exit 1; }; \
	done; \
	echo "make test: passed, $(words $(TEST_STEPS)) steps in $$((SECONDS - began)) s"; \
	unstable=$$(scripts/gotest --unstable); \
	skipped=$$(scripts/gotest --skipped); \
	if [ -n "$$skipped" ]; then printf 'skipped on this machine:\n%s\n' "$$skipped"; fi; \
	if [ -n "$$unstable" ]; then printf '%d unstable, passed only when run again (output above):\n%s\n' "$$(wc -l <<< "$$unstable")" "$$unstable"; fi

# Tests wait much of their time, so two of these run at the same time. Not more: on a machine with
# two slow processors, apps and servers would not start within the time that they have.
.PHONY: tests lint-unit e2e-fuzz
tests:
	@MAKE='$(MAKE)' scripts/together lint-unit e2e-fuzz
lint-unit:
	@$(MAKE) --no-print-directory --keep-going lint test-unit
e2e-fuzz:
	@$(MAKE) --no-print-directory --keep-going test-e2e fuzz

# All of these run even if one fails, so that one run shows what is wrong.
UNIT := unit-rules client-check unit-plain unit-raced unit-containers unit-samples unit-clients unit-bench unit-stack unit-cluster unit-vm unit-release
.PHONY: $(UNIT)
test-unit: build .tools/bin/cf .tools/bin/gotestsum ## run unit and integration tests, where it matters with the race detector (ARGS="-run Name")
	@INGOT_TEST_PROGRAMS=$(CURDIR)/bin $(MAKE) --no-print-directory --keep-going $(UNIT)

unit-rules:
	$(call run,$(PLAIN) scripts/gotest -vet=off $(ARGS) -- ./internal/archtest)
# The client is for macOS and Windows too. One architecture of each is enough: no file is for
# an architecture.
client-check: ## compile the client and its tests for macOS and Windows
	$(call run,$(PLAIN) GOOS=darwin GOARCH=arm64 go vet $(client))
	$(call run,$(PLAIN) GOOS=windows GOARCH=amd64 go vet -tags forceposix $(client))
unit-plain:
	$(call run,$(PLAIN) $(with_postgres) scripts/gotest -vet=off $(ANEW) -p 2 -timeout 20m $(ARGS) -- $(unraced))
unit-raced:
	$(call run,$(with_postgres) scripts/gotest $(RACE) $(ANEW) -p 2 -timeout 20m $(ARGS) -- $(addprefix ./,$(raced)))
unit-containers:
	$(call run,$(PLAIN) scripts/gotest -vet=off $(ANEW) -timeout 20m $(ARGS) -- $(containers))
unit-samples:
	$(call run,$(PLAIN) $(with_postgres) scripts/gotest -C samples -vet=off $(ANEW) $(ARGS) -- ./...)
unit-clients:
	$(call run,$(PLAIN) scripts/gotest -C clients/notifications -vet=off $(ANEW) $(ARGS) -- ./...)
unit-bench:
	$(call run,$(PLAIN) scripts/gotest -C bench -vet=off $(ANEW) $(ARGS) -- ./...)
unit-stack:
	$(call run,$(PLAIN) scripts/gotest -C stack $(ANEW) $(ARGS) -- ./...)
unit-cluster:
	$(call run,$(PLAIN) scripts/gotest -C cluster $(ANEW) $(ARGS) -- ./...)
unit-vm:
	$(call run,$(PLAIN) scripts/gotest -C vm $(ANEW) $(ARGS) -- ./...)
unit-release:
	$(call run,$(PLAIN) CF_BIN=$(CURDIR)/.tools/bin/cf scripts/gotest -C release $(ANEW) $(ARGS) -- ./...)

test-e2e: build .tools/bin/cf .tools/bin/gotestsum .tools/axe.min.js ## run end-to-end tests of the built programs, with the cf CLI
	$(call run,$(PLAIN) INGOT_BIN=$(CURDIR)/bin/ingot CF_BIN=$(CURDIR)/.tools/bin/cf \
		scripts/gotest -C e2e -vet=off -count=1 -parallel 6 -timeout 40m $(ARGS) -- ./...)

fuzz: ## run every fuzz test for FUZZTIME (default: 1s)
	$(call run,FUZZTIME=$(FUZZTIME) scripts/fuzz)

soak: build .tools/bin/cf ## run the soak tests, and each fuzz test for five minutes
	$(call run,INGOT_TEST_PROGRAMS=$(CURDIR)/bin $(with_postgres) go test $(RACE) -timeout 30m $(unraced))
	$(call run,$(with_postgres) go -C samples test $(RACE) -timeout 30m ./...)
	$(call run,go -C bench test $(RACE) -timeout 30m ./...)
	$(call run,INGOT_SOAK=1 $(with_postgres) go test $(RACE) -count=1 -timeout 3h -run Soak $(ARGS) $(packages))
	$(call run,go test $(RACE) -timeout 30m $(containers))
	$(call run,INGOT_SOAK=1 go test $(RACE) -count=1 -timeout 3h -run Soak $(ARGS) $(containers))
	$(call run,INGOT_SOAK=1 INGOT_BIN=$(CURDIR)/bin/ingot CF_BIN=$(CURDIR)/.tools/bin/cf \
		$(with_postgres) go -C e2e test -count=1 -timeout 3h -run Soak $(ARGS) ./...)
	$(call run,INGOT_SOAK=1 go -C stack test -count=1 -timeout 1h -run Soak $(ARGS) ./...)
	$(call run,INGOT_SOAK=1 INGOT_TEST_PROGRAMS=$(CURDIR)/bin CF_BIN=$(CURDIR)/.tools/bin/cf go -C release test -count=1 -timeout 1h -run Soak $(ARGS) ./...)
	$(call run,scripts/release-check)
	$(call run,FUZZTIME=5m scripts/fuzz)

flake: build .tools/bin/cf ## run tests many times under load (RUN=TestTasks PKG=./internal/broker COUNT=20 LOAD=4 DISK=1)
	$(call run,INGOT_BIN=$(CURDIR)/bin/ingot CF_BIN=$(CURDIR)/.tools/bin/cf \
		RUN='$(RUN)' PKG='$(PKG)' COUNT='$(COUNT)' LOAD='$(LOAD)' DISK='$(DISK)' scripts/flake)

lint: .tools/bin/golangci-lint ## run the linters of .golangci.yml, with the checks of `go vet`
	$(call each,$(PLAIN) $(CURDIR)/.tools/bin/golangci-lint run ./...)

fmt: .tools/bin/golangci-lint ## format the Go source
	$(call each,$(CURDIR)/.tools/bin/golangci-lint fmt ./...)

# Quickly, and also for files of other systems; `make lint` checks the order of imports too.
fmt-check:
	@files=$$(git ls-files -z '*.go' | xargs -0 gofmt -s -l); \
	if [ -n "$$files" ]; then printf 'not formatted (run: make fmt):\n%s\n' "$$files"; exit 1; fi

commits:
	@scripts/commits

tidy: ## run go mod tidy in every module, after a dependency changed
	$(call each,go mod tidy)

# `make test` compares the tree before and after, so that local edits are fine and a
# test that writes into the tree fails.
tree-save:
	@mkdir -p .tools; $(tree_state) > .tools/tree-before

tree-check:
	@$(tree_state) | diff .tools/tree-before - > .tools/tree-diff || { \
		echo 'the test run changed these files, or left them behind:'; \
		sed -nE 's/^[<>] [0-9a-f]+ [ *]/  /p' .tools/tree-diff | sort -u; exit 1; }; \
	echo '  no tracked file changed'

##@ Measure
.PHONY: bench

bench: build ## run benchmarks (ARGS="-run NAME")
	$(call run,go -C bench build -o $(CURDIR)/bin/bench .)
	$(call run,INGOT_BIN=$(CURDIR)/bin/ingot $(with_postgres) bin/bench $(ARGS))

##@ Housekeeping
.PHONY: setup setup-test hooks clean

setup: ## install what `make up` needs
	@scripts/setup up

setup-test: ## install what `make test` needs, including system packages when run as root
	@scripts/setup test

hooks: ## let git check the format and the message of each commit (undo: git config --unset core.hooksPath)
	$(call run,git config core.hooksPath scripts/hooks)

.tools/bin/cf .tools/bin/golangci-lint .tools/bin/gotestsum .tools/axe.min.js:
	@scripts/setup test

clean: ## remove build results, but not the tools
	$(call run,rm -rf bin dist bench/results samples/*/bin samples/sidecars/*/bin)
