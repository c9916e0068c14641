# What confrev's developers do every day. `make help` lists it.

NAME ?= confrev
FUZZTIME ?= 5000x
TEST_CLUSTER ?= e2e
BENCH_CLUSTER ?= bench
NODE_CLUSTER ?= node
RELIABILITY_CLUSTER ?= reliability
CHAOS_CLUSTER ?= chaos
SOAK_CLUSTER ?= soak
MATRIX ?= 1.30 1.31 1.32 1.33 1.34 1.35 1.36
export CONFREV_TEST_CLUSTER = $(TEST_CLUSTER)
export CONFREV_BENCH_CLUSTER = $(BENCH_CLUSTER)
export CONFREV_NODE_CLUSTER = $(NODE_CLUSTER)
export CONFREV_RELIABILITY_CLUSTER = $(RELIABILITY_CLUSTER)
export CONFREV_CHAOS_CLUSTER = $(CHAOS_CLUSTER)
export CONFREV_SOAK_CLUSTER = $(SOAK_CLUSTER)
# What confrev's programs and tests have in common with the tools is compiled once for all, since hack/cluster builds with these flags too.
# Only the race detector needs C.
export CGO_ENABLED ?= 0
export GOFLAGS := $(sort $(GOFLAGS) -trimpath)
race = CGO_ENABLED=1
cluster = go run -C hack/cluster .
tool = $$($(cluster) path $(1))
release = go run -C hack/release . --source $(CURDIR)
# Where the parts of `make test` note how long each of their tests took.
times = $(CURDIR)/.times
binaries = $(CURDIR)/bin/e2e
gotest = go run ./hack/gotest run $(times)/$@
# What tests start (API servers, confrev, kubectl, Helm, compilers) trades memory for a fifth of its processor time.
test e2e e2e-alone e2e-shared unit lint verify render-corpus node chaos chaos-short: export GOGC ?= 400
test e2e e2e-alone e2e-shared unit lint verify render-corpus node chaos chaos-short: export GOMEMLIMIT ?= 3GiB
# A program with the race detector sleeps for a second when it ends, and the tests end confrev a hundred times.
test e2e e2e-alone e2e-shared unit chaos chaos-short: export GORACE ?= atexit_sleep_ms=10

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## The whole story on a real control plane, from nothing; each step checks what it claims
	go run ./test/demo

.PHONY: demo-canary
demo-canary: ## A faulty canary on the real Argo Rollouts controller, from nothing; each step checked
	go run ./test/demo canary

.PHONY: demo-safety
demo-safety: ## Three wrong contents that stop by themselves among 40 Deployments, and a good one, from nothing; each step checked
	go run ./test/demo --name confrev-safety safety

.PHONY: demo-node
demo-node: ## The story with real containers, and confrev installed as users install it (Linux, root); each step checked
	go run ./test/demo --name confrev-node node

.PHONY: test
test: tools ## Everything that must pass, from nothing, and the slowest tests
	@# Each part prints when it has ended; one that fails does not keep the others from showing what they find. Next to what computes,
	@# end-to-end tests would only take longer, and random histories come last: what is too late under load is a fault for them.
	@rm -rf $(times); status=0; for parts in "e2e-shared e2e-alone" "node computing" chaos-short; do \
	$(MAKE) --no-print-directory --keep-going --jobs=2 --output-sync=target $$parts || status=$$?; done; \
	go run ./hack/gotest slowest $(addprefix $(times)/,unit unit-sequential render-corpus e2e-alone e2e-shared node chaos-short) && exit $$status

# On a machine that never did it, Kubernetes and its tools take longer to build than a test may run.
.PHONY: tools
tools: # All that the tests run and that is built from other modules
	@$(cluster) build etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok kwokctl helm helm3 kustomize rollouts-controller \
		kubectl-argo-rollouts kubelet kube-proxy containerd containerd-shim-runc-v2 ctr bridge loopback host-local flux-ssa gitops-engine cert-manager \
		actionlint golangci-lint

.PHONY: computing
computing: # The parts of `make test` that wait for nothing: one after the other, and so that they make way for the real node
	@status=0; for part in unit fuzz verify lint render-corpus docs; do nice $(MAKE) --no-print-directory $$part || status=$$?; done; exit $$status

.PHONY: build
build: ## Build bin/confrev and bin/kubectl-confrev, stripped; SYMBOLS=1 keeps the symbols for a debugger
	go build $(if $(SYMBOLS),,-ldflags '-s -w') -o bin/ ./cmd/...

.PHONY: image
image: ## Container images as OCI layouts in dist/images, without a container engine (VERSION=v1.2.3, REGISTRY=…)
	$(release) images $(if $(REGISTRY),--registry $(REGISTRY)) $(or $(VERSION),v0.0.0)

.PHONY: release
release: ## All that a release consists of, in dist (VERSION=v1.2.3, URL=…, REGISTRY=…)
	@# Files of an earlier release would be in the checksums of this one.
	rm -rf dist
	$(release) images $(if $(REGISTRY),--registry $(REGISTRY)) $(or $(VERSION),$(error say which: make release VERSION=v1.2.3))
	$(release) install --helm "$(call tool,helm)" $(VERSION)
	$(release) plugin $(if $(URL),--url $(URL)) $(VERSION)
	$(release) sums $(VERSION)

# Nothing in these is concurrent, and the race detector makes the pure core's model tests six times as slow.
sequential = ./charts/... ./deploy/... ./docs/... $(addprefix ./internal/,audit content keys optin pin plan podspec quote)

.PHONY: unit
unit: ## Unit and property tests, with the race detector where something is concurrent
	$(race) $(gotest) -race $$(go list ./... | grep -v -x -F "$$(go list $(sequential))")
	go run ./hack/gotest run $(times)/unit-sequential $(sequential)
	@# Go's cache of results does not see files of another module.
	$(race) go test -C hack/cluster -race -count=1 ./...
	@# On a new machine, it builds confrev for another architecture first.
	go test -C hack/release -timeout 30m ./...
	@# What is copied from deploy, in the engines of Argo CD and Flux.
	go test -C hack/modules/gitops-engine -count=1 ./scripts
	go test -C hack/modules/flux-ssa -count=1 ./examples

.PHONY: fuzz
fuzz: ## Each fuzz target with a few thousand inputs (FUZZTIME=1m for longer)
	hack/fuzz $(FUZZTIME)

.PHONY: lint
lint: ## golangci-lint, actionlint, and the words that docs/style.md tells writers to avoid
	go run ./hack/prose
	$(call tool,actionlint)
	$(call tool,actionlint) deploy/github-action/workflow.yml
	$(call tool,golangci-lint) run
	lint=$(call tool,golangci-lint); for module in hack/cluster/ hack/dashboard/ hack/release/ $(sort $(dir $(wildcard hack/modules/*/*.go))); do \
		(cd $$module && $$lint run) || exit; done

# The pure core: what decides, without a client, a clock or a context.
core = $(addprefix ./internal/,pin podspec content waiting spread plan audit optin)

.PHONY: coverage
coverage: ## What share of the pure core's statements its own tests execute, and which functions are below COVERAGE percent (95)
	go run ./hack/coverage $(or $(COVERAGE),95) $(core)

# Each mutant costs a run of its package's tests, so this takes hours for all: those of plan take half a minute.
.PHONY: mutation
mutation: ## Mutants of the pure core that its tests do not notice (takes hours; MUTATE=./internal/waiting for one package)
	@gremlins=$(call tool,gremlins); for package in $(or $(MUTATE),$(core)); do echo "== $$package"; \
		$$gremlins unleash --workers 1 --timeout-coefficient 5 --invert-logical --output-statuses lct $$package || exit; done

.PHONY: vulncheck
vulncheck: ## Known vulnerabilities in what confrev calls, where their database can be reached
	hack/vulncheck "$(call tool,govulncheck)"

.PHONY: generate
generate: ## Write the files that are derived from others: docs/reference from the plugin's commands and the annotations, the chart's README and deploy/kustomize from the chart
	go run ./hack/docs reference docs/reference
	go run ./hack/docs chart charts/confrev > charts/confrev/README.md.new && mv charts/confrev/README.md.new charts/confrev/README.md
	$(release) bases --helm "$(call tool,helm)" $(CURDIR)/deploy/kustomize

.PHONY: dashboard
dashboard: ## Draw the chart's dashboard for the docs, from the end-to-end test of the alerts (docs/images/dashboard.svg)
	mkdir -p bin docs/images
	CONFREV_DASHBOARD=$(CURDIR)/bin/dashboard.json CONFREV_TEST_CLUSTER=dashboard \
		go test -tags e2e -count=1 -timeout 15m -run 'TestEveryAlertFires$$' ./test/e2e -suite alone
	go run -C hack/dashboard . $(CURDIR)/bin/dashboard.json $(CURDIR)/docs/images/dashboard.svg
	$(cluster) down --name dashboard

# The site needs Node and npm, so it is not part of `make test`.
docs/node_modules/.package-lock.json: docs/package.json docs/package-lock.json docs/.npmrc
	@command -v npm >/dev/null || { echo "make docs: there is no npm: install Node 20 or later" >&2; exit 1; }
	cd docs && npm ci --prefer-offline --loglevel=error && touch node_modules/.package-lock.json

.PHONY: docs
docs: docs/node_modules/.package-lock.json ## The documentation site in bin/docs, with its links checked (needs Node); VERSIONS='v0.2.0 v0.1.0' adds older versions
	node docs/.vitepress/build.mjs bin/docs $(VERSIONS)
	go run ./hack/links bin/docs

# An older version is always among what is tested.
.PHONY: docs-test
docs-test: VERSIONS ?= HEAD
docs-test: docs ## The site in Chromium: errors, requests to other machines, accessibility, widths, search, menus; screenshots in bin/docs-screenshots
	node --test --test-reporter=dot docs/.vitepress/pages.test.mjs
	node docs/.vitepress/browser.mjs bin/docs

.PHONY: man
man: ## Write the plugin's manual pages to bin/man/man1, as a release has them
	go run ./hack/docs man bin/man/man1

.PHONY: verify
verify: ## Files that are derived from others are up to date; changes nothing
	hack/verify "$(call tool,helm)"

.PHONY: e2e
e2e: tools ## End-to-end tests on two real control planes; RUN='-run Name' chooses
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target e2e-alone e2e-shared

# The halves of the end-to-end tests: those that need confrev for themselves, and those that share one.
# What they run is built once for both. The first takes longer, since its tests run one after the other, so the second makes way for it.
# The time limit is for what hangs: a busy machine with slow processors needs an hour.
.PHONY: e2e-alone e2e-shared e2e-build
e2e-build:
	@go test -c -tags e2e -o $(binaries)/e2e.test ./test/e2e
	@$(race) go build -race -o $(binaries)/confrev ./cmd/confrev
	@go build -o $(binaries)/kubectl-confrev ./cmd/kubectl-confrev

e2e-alone e2e-shared: e2e-%: e2e-build
	@export CONFREV_TEST_CLUSTER=$(TEST_CLUSTER)-$* CONFREV_TEST_BINARIES=$(binaries); status=0; \
	$(if $(filter shared,$*),nice -n 5) go run ./hack/gotest exec $(times)/$@ $(binaries)/e2e.test test/e2e -timeout 150m -parallel 12 $(RUN) -suite $* || status=$$?; \
	$(cluster) down --name $$CONFREV_TEST_CLUSTER && exit $$status

.PHONY: test-matrix
test-matrix: ## End-to-end tests on each version of Kubernetes, on clusters of its own (MATRIX='1.30 1.35')
	@# A version that fails does not keep the others from showing what they find.
	@status=0; for version in $(MATRIX); do echo "== Kubernetes $$version"; \
		CONFREV_KUBERNETES=$$version $(MAKE) --no-print-directory e2e TEST_CLUSTER=e2e-$${version%.*}-$${version#*.} || status=$$?; \
		go run ./hack/gotest slowest $(times)/e2e-alone $(times)/e2e-shared || status=$$?; done; exit $$status

.PHONY: render-corpus
render-corpus: ## Render the manifests and charts of some Go modules; what comes out must be what went in, with new names
	HELM=$(call tool,helm) $(gotest) -tags corpus -count=1 -v -timeout 20m ./test/corpus

# What the story's images have is compiled before the tests' clock starts: on a new and busy machine, that takes longer than they may.
.PHONY: node
node: tools ## Tests with a real kubelet and containers, where the machine allows it; RUN='-run Name' chooses
	@$(cluster) node check || { \
		echo "make node: SKIPPED, for the reason above (with CONFREV_REQUIRE_NODE=1 that is an error)"; \
		test -z "$$CONFREV_REQUIRE_NODE"; exit; }; \
	go build ./cmd/... || exit; \
	status=0; $(gotest) -tags node -count=1 -timeout 20m -parallel 6 $(RUN) ./test/node ./test/demo || status=$$?; \
	for name in $(NODE_CLUSTER) $(NODE_CLUSTER)-story; do $(cluster) down --name $$name || status=$$?; done; exit $$status

.PHONY: reliability
reliability: ## Each fault of the network, an end at each write, lost leaders, and restarts of the control plane, on one (takes about an hour); RUN='-run Name' chooses
	status=0; go test -tags reliability -count=1 -v -timeout 150m $(RUN) ./test/reliability || status=$$?; \
	$(cluster) down --name $(RELIABILITY_CLUSTER) && exit $$status

# Run directly, since go test would not show the summary of histories that pass.
.PHONY: chaos
chaos: tools ## Random histories on a real control plane, with faults, each checked; HISTORIES=5000, SEED=… repeats a run
	@go test -c -tags chaos -o $(CURDIR)/bin/chaos.test ./test/chaos
	@status=0; (cd test/chaos && CONFREV_CHAOS_HISTORIES=$(HISTORIES) CONFREV_CHAOS_SEED=$(SEED) $(CURDIR)/bin/chaos.test) || status=$$?; \
	$(cluster) down --name $(CHAOS_CLUSTER) && exit $$status

.PHONY: chaos-short
chaos-short: tools ## Those that once found a fault, and as many random ones as happen in two minutes; a part of `make test`
	@go test -c -tags chaos -o $(CURDIR)/bin/chaos.test ./test/chaos
	@export CONFREV_CHAOS_HISTORIES=$(or $(HISTORIES),12) CONFREV_CHAOS_SEED=$(or $(SEED),77); status=0; \
	go run ./hack/gotest exec $(times)/$@ $(CURDIR)/bin/chaos.test test/chaos -timeout 20m || status=$$?; \
	$(cluster) down --name $(CHAOS_CLUSTER) && exit $$status

.PHONY: bench
bench: ## Figures of speed and memory, on a real control plane, with their goals; BENCH='Start/workloads=10000' chooses, also what takes long
	status=0; go test -tags perf -count=1 -timeout $(or $(TIMEOUT),90m) -run '^$$' -bench '$(or $(BENCH),.)' -benchtime 1x ./test/perf || status=$$?; \
	$(cluster) down --name $(BENCH_CLUSTER) && exit $$status

# Run directly, since go test would not show the samples while they are taken.
.PHONY: soak
soak: ## A steady mix of edits, deploys, undos, scale-ups and deletions for DURATION (1h): nothing that confrev takes may grow without bound
	@go test -c -tags soak -o $(CURDIR)/bin/soak.test ./test/soak
	@status=0; (cd test/soak && CONFREV_SOAK_DURATION=$(or $(DURATION),1h) $(CURDIR)/bin/soak.test -test.timeout 0 -test.run TestSoak) || status=$$?; \
	$(cluster) down --name $(SOAK_CLUSTER) && exit $$status

.PHONY: cluster-up
cluster-up: ## A real control plane on this machine (NAME=…, KUBERNETES=1.35, ARGO_ROLLOUTS=1, NODE=real)
	$(cluster) up --name $(NAME) $(if $(KUBERNETES),--kubernetes $(KUBERNETES)) $(if $(ARGO_ROLLOUTS),--argo-rollouts) $(if $(filter real,$(NODE)),--real-node)

.PHONY: cluster-down
cluster-down: ## Stop and remove it (NAME=…)
	$(cluster) down --name $(NAME)

.PHONY: demo-down
demo-down: ## Remove the demos' clusters
	$(cluster) down
	$(cluster) down --name confrev-node
	$(cluster) down --name confrev-safety
