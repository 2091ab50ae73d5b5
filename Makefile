# Ropeway: `make demo` shows it, `make test` checks everything.

SHELL := /bin/bash
CARGO ?= cargo
OUT := $(or $(CARGO_TARGET_DIR),target)

# An OpenCL implementation for the CPU, the loader, and clinfo: what the demo runs on.
DEMO_PACKAGES := gcc libc6-dev ocl-icd-libopencl1 pocl-opencl-icd clinfo python3 python3-venv
# Headers for the C test programs; programs of others that must run unmodified.
TEST_PACKAGES := $(DEMO_PACKAGES) iproute2 kmod user-mode-linux openssl openssh-server openssh-client etcd-server etcd-client ocl-icd-opencl-dev opencl-c-headers clpeak hashcat ffmpeg g++ libdraco-dev draco clblast-tests clfft-client openmpi-bin libopenmpi-dev

.PHONY: ucx help demo rack test build draco check unit model miri e2e integration natives random histories fuzz bench golden deb packages conformance

help:
	@echo 'make demo     install what is missing, build, and run OpenCL programs through a server on this machine'
	@echo 'make rack     a broker, two servers and three programs that want more devices than there are, on this machine'
	@echo 'make test     everything that CI checks'
	@echo 'make build    the program and the client library, in $(OUT)/release'
	@echo 'make draco    what decodes point clouds by Draco, into $(OUT)/release'
	@echo 'make check    format, lints, imports between layers, licences (part of test)'
	@echo 'make unit     unit tests (part of test)'
	@echo 'make model    locks and atomics in many interleavings of threads, RUNS=300 for each test (part of test)'
	@echo 'make miri     what Miri can run of the unit tests; needs a nightly compiler'
	@echo 'make e2e      end-to-end tests with real servers and programs (part of test)'
	@echo 'make integration   tests with a real Slurm, which takes packages of its own, a virtual machine in QEMU, make histories, and tests with a real Kubernetes,'
	@echo '              whose programs are in PATH or in ROPEWAY_KUBERNETES=<folder>'
	@echo 'make ucx      a build with links over UCX, and its tests'
	@echo 'make natives  the tests that run on each native OpenCL, on PoCL, Intel'\''s runtime and rusticl (e2e: the first two)'
	@echo 'make random SEEDS=1000   commands at random over several servers, for so many seeds (a few are part of e2e)'
	@echo 'make histories SEEDS=200   brokers that are killed, paused and cut off at random (a few are part of e2e)'
	@echo 'make fuzz     a brief run of the fuzz targets (part of test)'
	@echo 'make bench    figures beside native OpenCL and the raw link'
	@echo 'make conformance CTS=<folder>   the conformance programs built there, natively and through Ropeway;'
	@echo '              CONFORMANCE=--help says what else there is'
	@echo 'make golden   rewrite what pins the wire and the lists in docs, after a change of messages or functions'
	@echo 'make deb      a Debian package in $(OUT)/debian'

demo:
	scripts/packages.sh $(DEMO_PACKAGES)
	scripts/python.sh
	$(MAKE) --no-print-directory build
	scripts/demo.sh

rack:
	scripts/packages.sh $(DEMO_PACKAGES)
	scripts/python.sh
	$(MAKE) --no-print-directory build
	scripts/rack.sh

build:
	$(CARGO) build --release --locked -p ropeway-cli -p ropeway-icd

# Beside the program, where it looks for it.
draco:
	scripts/packages.sh g++ libdraco-dev
	mkdir -p $(OUT)/release
	crates/codec/draco/build.sh $(OUT)/release/libropeway-draco.so

packages:
	scripts/packages.sh $(TEST_PACKAGES)
	scripts/python.sh --tests
	scripts/natives.sh intel

test:
	scripts/test.sh

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	scripts/layers.py
	scripts/deny.sh

unit:
	$(CARGO) test --workspace --exclude ropeway-tests --locked --no-fail-fast

# In other interleavings with another SEED=1.
MODELS := -p ropeway-client -p ropeway-worker -p ropeway-icd --features ropeway-client/model,ropeway-worker/model,ropeway-icd/model
model:
	$(CARGO) clippy $(MODELS) --tests --locked -- -D warnings
	$(if $(RUNS),ROPEWAY_MODEL_RUNS='$(RUNS)') $(if $(SEED),ROPEWAY_MODEL_SEED='$(SEED)') \
		$(CARGO) test $(MODELS) --lib --locked --no-fail-fast -- model::

miri:
	scripts/miri.sh

e2e: packages build draco
	scripts/e2e.sh

# Links over UCX, which ordinary builds are without.
ucx: packages
	scripts/packages.sh libucx0
	$(CARGO) clippy -p ropeway-transport --features ucx --all-targets --locked -- -D warnings
	$(CARGO) test -p ropeway-transport --features ucx --locked ucx
	$(CARGO) build --release --locked -p ropeway-cli -p ropeway-icd --features ropeway-cli/ucx
	$(CARGO) test -p ropeway-tests --locked --no-fail-fast --test ucx --test random -- --ignored --test-threads 1

# What takes too long, or too much of a machine, for each run of the tests.
integration: packages build
	scripts/packages.sh slurm-wlm munge runc
	$(CARGO) test -p ropeway-tests --locked --test slurm -- --ignored --nocapture
	scripts/packages.sh qemu-system-x86 busybox-static cpio
	scripts/guest.sh
	$(CARGO) test -p ropeway-tests --locked --test ivshmem_qemu -- --ignored --nocapture
	$(MAKE) --no-print-directory histories
	$(CARGO) test -p ropeway-tests --locked --test kubernetes -- --ignored --nocapture

# The tests that run on each native implementation, on all that can be installed.
natives: packages build
	scripts/natives.sh intel rusticl
	ROPEWAY_NATIVES=pocl,intel,rusticl scripts/e2e.sh natives random errors pyopencl pyopencl_algorithm pyopencl_array

SEEDS ?= 1000
random: packages build
	ROPEWAY_SEEDS='$(SEEDS)' $(CARGO) test -p ropeway-tests --locked --test random -- --nocapture

histories: SEEDS := 200
histories: packages build
	ROPEWAY_SEEDS='$(SEEDS)' $(CARGO) test -p ropeway-tests --locked --test histories -- --nocapture

fuzz:
	fuzz/brief.sh

bench:
	bench/run.sh

# ONLY=test_api,images  JOBS=2  LIMIT=seconds for a sub-test  PROGRAM_LIMIT=seconds for a program  WIMPY=1  REUSE=1 (native
# results)  GO_ON=1 (an interrupted run)  CONFORMANCE='more options'
conformance: build
	$(CARGO) build --release --locked -p ropeway-tests --bin conformance
	$(OUT)/release/conformance --out $(OUT)/conformance --cts '$(CTS)' $(if $(ONLY),--only '$(ONLY)') $(if $(JOBS),--jobs $(JOBS)) \
		$(if $(LIMIT),--limit $(LIMIT)) $(if $(PROGRAM_LIMIT),--program-limit $(PROGRAM_LIMIT)) $(if $(WIMPY),--wimpy) \
		$(if $(REUSE),--reuse) $(if $(GO_ON),--go-on) $(CONFORMANCE)

golden:
	UPDATE_GOLDEN=1 $(CARGO) test -p ropeway-protocol --test golden --test docs --locked
	UPDATE_GOLDEN=1 $(CARGO) test -p ropeway-icd --locked compatibility

deb: build
	scripts/packages.sh g++ libdraco-dev
	packaging/build-deb.sh
