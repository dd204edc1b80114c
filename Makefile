# Every target also works when its line is typed by hand. `make` prints this list.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
export GOFLAGS ?= -buildvcs=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
TOOL    := go tool -modfile=$(CURDIR)/go.tool.mod

# What links Kubernetes' servers and controllers takes staticcheck minutes.
E2E_LIGHT = $$(go list ./... | grep -v -e /cmd/kubeground -e /oracle)

# Compilers and linters spend a sixth of their time on garbage that a machine has room for. Not for `go test`: tests, and
# what they start, collect theirs as ever.
ROOMY = 400

.DEFAULT_GOAL := help

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/tributary
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/tributary ./cmd/tributary

.PHONY: image
image: ## bin/image: an OCI layout for amd64 and arm64, with bills of materials; no container engine is needed
	cd deploy/image && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) go run . -out $(CURDIR)/bin/image -version $(VERSION) -commit $(COMMIT)

.PHONY: demo
demo: build ## watch pods of two real clusters come and go in a third (DEMO_SECONDS=N ends it)
	cd e2e && go run ./cmd/demo -tributary $(CURDIR)/bin/tributary

# Tests on real clusters wait most of the time: one of two jobs is theirs, the others take turns beside them. Not beside the
# build of the clusters' servers: two go commands compile twice what both need.
.PHONY: test
test: prebuild ## everything that must pass: lint, unit tests, alerts, a simulated fleet, scenarios and faults on real clusters
	+$(MAKE) --no-print-directory -j 2 --output-sync=line scenarios lint unit alerts simulate

# Every test takes its dice from here (internal/dice): each run throws the same, so that a failure is of the change and not of
# the draw. SEED=0 throws anew, as the soak does unless it is told a seed. Only the soak shuffles: go test keeps no result of a
# shuffled run.
SEED ?= 1
export SEED
soak: export SEED := $(if $(filter file,$(origin SEED)),0,$(SEED))
SHUFFLE = -shuffle=$(if $(filter 0,$(SEED)),on,$(SEED))

# Without goroutines there is no race to detect. What is tested, here and below, is vetted by lint: go test has fewer
# checks, and would vet all dependencies for them once more.
PURE = ./syncer ./clusters/decode ./clusters/kubeconfig ./clusters/member ./clusters/native ./clusters/store \
	./cmd/tributary/internal/link ./internal/mixin ./reconcile/plan
RACY = $$(comm -23 <(go list ./... | sort) <(go list $(PURE) | sort))

.PHONY: unit
unit: ## unit tests of the product, with the race detector where there are goroutines
	go test -vet=off -timeout 10m $(PURE)
	GOGC=$(ROOMY) go list -race -export -deps -test $(RACY) >/dev/null # compiles
	go test -vet=off -race -timeout 20m $(RACY)
	cd deploy/helm && go test -vet=off .

# Packages run beside each other, and three tests of each with a fleet of clusters of their own: most of what they do is to
# wait. They build tributary themselves, with the flags of the tests: those of `make build` would compile everything once
# more. go test does not know that they run it, and would show a result from before it was changed: hence the count.
E2E_TEST = go test -vet=off -count=1
QUICK = ./cluster/... ./differential ./fault ./fleet/... ./history ./latency ./oracle ./scenario

# Needed once. Inside of a test it would look like a hang.
.PHONY: prebuild
prebuild:
	cd e2e && GOGC=$(ROOMY) go run ./cluster/prebuild

.PHONY: scenarios
scenarios: prebuild ## scenarios, the oracle, and a quick share of every fault on real clusters, judged by their whole history
	cd e2e && $(E2E_TEST) -p 3 -parallel 3 -timeout 30m -skip TestRollOutBehindHAProxy $(QUICK)

.PHONY: simulate
simulate: ## a fleet in one goroutine, whose every fault and latency is drawn from SEED: CASES=N of them, or for HOURS=N
	cd e2e && $(E2E_TEST) -timeout 0 -run TestCases ./simulation -cases $(or $(CASES),2000) -hours $(or $(HOURS),0) -coverage

.PHONY: e2e
e2e: scenarios haproxy ## every test on real clusters, at full size: also installation, image, every fault and scale
	cd deploy/image && go test -timeout 20m .
	cd e2e && $(E2E_TEST) -timeout 20m ./install
	cd e2e && $(E2E_TEST) -timeout 1h -run TestObserveNative ./scenario -native.services 1000 -native.qps 5
	cd e2e && $(E2E_TEST) -timeout 2h ./fault -full
	cd e2e && $(E2E_TEST) -timeout 10m ./simulation/reality
	cd e2e && $(E2E_TEST) -timeout 2h -run TestMutations ./simulation -mutations 100000
	cd e2e && $(E2E_TEST) -timeout 1h ./scale -services 5000 -pods 50000

.PHONY: soak
soak: ## fresh dice for a mix of faults, for rules against upstream's own controllers (SOAK=1h each) and for every unit test; SEED=7 repeats one
	cd e2e && $(E2E_TEST) $(SHUFFLE) -timeout 0 -run TestSoak ./fault -soak $(or $(SOAK),1h)
	cd e2e && $(E2E_TEST) $(SHUFFLE) -timeout 0 ./oracle -oracle.soak $(or $(SOAK),1h)
	go test $(SHUFFLE) ./...

.PHONY: page
page: ## the page at / in a headless Chromium (apt-get install chromium), also on real clusters; pictures in bin/_artifacts
	mkdir -p bin
	cd e2e && go vet -tags chromium ./page && go test -count=1 -tags chromium -artifacts -outputdir $(CURDIR)/bin ./page

.PHONY: haproxy
haproxy: haproxy-installed prebuild ## a roll-out of ten pods on real clusters, behind a real HAProxy that a sink programs; no request may fail
	cd e2e && go test -count=1 -v -run TestRollOutBehindHAProxy ./scenario

# What that test runs beside what it builds itself; another system than Debian has its own way.
.PHONY: haproxy-installed
haproxy-installed:
	@for program in haproxy ip; do command -v $$program >/dev/null || missing=1; done; [ "$${missing-}" ] || exit 0; \
	[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "haproxy and ip are needed (Debian: apt-get install haproxy iproute2)" >&2; exit 1; }; \
	export DEBIAN_FRONTEND=noninteractive; apt-get update -q && apt-get install -q -y --no-install-recommends haproxy iproute2

.PHONY: lint
lint: export GOGC := $(ROOMY)
lint: ## gofmt, go vet and staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt needed (make fmt):" >&2; echo "$$out" >&2; exit 1; fi
	go vet ./...
	$(TOOL) staticcheck ./...
	cd e2e && go vet $(E2E_LIGHT) ./oracle && $(TOOL) staticcheck $(E2E_LIGHT)
	cd deploy/helm && go vet . && $(TOOL) staticcheck .
	cd deploy/image && go vet .

.PHONY: fmt
fmt: ## format and modernize the sources of both modules
	gofmt -w $$(git ls-files '*.go')
	go fix ./...
	cd e2e && go fix ./...

.PHONY: generate
generate: ## rewrite the generated references in docs/, and in deploy/ what follows from the charts
	go test ./clusters/config -update
	cd deploy/helm && go test . -run 'TestPlainManifests|TestValuesHaveTheConfigurationsSchema' -update
	go test ./metrics ./cmd/tributary -update

# Prometheus, without the many service discoveries it could have.
# The versions are in deploy/prometheus.mod, apart from the product's.
bin/prometheus: deploy/prometheus.mod
	@echo "building $@: minutes, the first time"
	go build -modfile=deploy/prometheus.mod -tags remove_all_sd,enable_kubernetes_sd -o $@ github.com/prometheus/prometheus/cmd/$(@F)

# Any promtool will do, for what is tested is old PromQL: an installed one, else one that is built and kept in the user's
# cache directory.
PROMTOOL ?= $(or $(shell command -v promtool),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tributary-e2e/promtool)
%/tributary-e2e/promtool: deploy/prometheus.mod
	@echo "building $@: minutes, the first time" >&2
	GOGC=$(ROOMY) go build -modfile=deploy/prometheus.mod -tags remove_all_sd -o $@ github.com/prometheus/prometheus/cmd/promtool

.PHONY: alerts
alerts: $(PROMTOOL) ## unit tests of the alerting rules and of the queries of the on-call table
	$(PROMTOOL) check rules deploy/helm/tributary/files/alerts.yaml
	$(PROMTOOL) test rules deploy/prometheus/alerts_test.yaml
	go test -vet=off ./internal/mixin -promtool $(PROMTOOL)

.PHONY: mixin
mixin: build alerts bin/prometheus prebuild ## dashboards, alerts and kubernetes_sd with a real Prometheus beside a real fleet
	cd e2e && go run ./cmd/checkmixin -tributary $(CURDIR)/bin/tributary -prometheus $(CURDIR)/bin/prometheus

.PHONY: bench
bench: ## benchmarks of the hot path
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-latency
bench-latency: build ## tributary against a null relay on real clusters, interleaved
	cd e2e && go run ./cmd/benchlatency -tributary $(CURDIR)/bin/tributary

.PHONY: bench-storm
bench-storm: build ## removals while 2,000 Services are relabelled, and while 1,000 get another port, against a null relay in the same storm
	cd e2e && go run ./cmd/benchlatency -storm -pause 100ms -tributary $(CURDIR)/bin/tributary
	cd e2e && go run ./cmd/benchlatency -storm -ports -services 1000 -pause 100ms -tributary $(CURDIR)/bin/tributary

.PHONY: bench-scale
bench-scale: build ## 13,000 Services and 156,000 pods in one member: fill, start, memory and idle events, against bare loops and informers
	cd e2e && go run ./cmd/benchscale -tributary $(CURDIR)/bin/tributary

.PHONY: consumers
consumers: ## real Traefik (Ingress and Gateway API) and CoreDNS through roll-outs, storms and failovers, beside stock controllers; root, Linux
	cd e2e && go run ./cmd/consumers

.PHONY: clean
clean: ## remove what build made (the cluster binary's cache stays)
	rm -rf bin
