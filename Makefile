# objdet. `make quickstart` and `make test` are the two commands of the README; `make help` lists the rest.
BUILD ?= build
CC ?= gcc
OPT ?= -O2
SAN ?=
-include config.mk

# The house: a room may include only itself and the rooms before it (tests/lint checks).
ROOMS := base io image graph ops engine tfgraph model data train eval export cluster jobs board cli
LIB_ROOMS := $(filter-out cli,$(ROOMS))

PKGS := libprotobuf-c libpcre2-8 libjpeg libpng libxml-2.0 yaml-0.1 jansson zlib freetype2
# oneDNN: Debian's 2.6, or another tree given to ./configure --with-onednn=DIR (DIR/include, DIR/lib).
ifdef ONEDNN
DNNL_CFLAGS := -I$(ONEDNN)/include
DNNL_LIBS := -L$(ONEDNN)/lib -Wl,-rpath,$(ONEDNN)/lib -ldnnl
else
DNNL_LIBS := -ldnnl
endif

WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-deprecated-declarations -Werror
# No contraction into fused multiply-add outside the fast engine: results must not depend on what the compiler found.
CFLAGS_ALL = -std=gnu11 -D_GNU_SOURCE $(OPT) -g -fPIC -ffp-contract=off -fopenmp $(SAN) -MMD -MP \
             -Isrc -Iinclude -I$(BUILD)/gen $(DNNL_CFLAGS) $(PKG_CFLAGS) $(CFLAGS)
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null | sed 's/-I/-isystem /g')
VERSION := $(shell sed -n 's/^.define OD_VERSION "\(.*\)"/\1/p' src/base/version.h)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null) $(DNNL_LIBS) -lsnappy -lcrypto -lpthread -lm

PROTO_SRC := $(wildcard src/io/proto/*.proto)
PROTO_C := $(PROTO_SRC:src/%.proto=$(BUILD)/gen/%.pb-c.c)
PROTO_H := $(PROTO_C:.c=.h)
PROTO_O := $(PROTO_C:$(BUILD)/gen/%.c=$(BUILD)/obj/gen/%.o)

room_src = $(sort $(shell find src/$(1) -name '*.c' 2>/dev/null))
room_obj = $(patsubst src/%.c,$(BUILD)/obj/%.o,$(call room_src,$(1)))
room_lib = $(BUILD)/rooms/$(1).a
# all rooms up to and including $(1), the last first, as a linker wants them
upto = $(shell set -- $(ROOMS); out=; for r; do [ -d src/$$r ] && [ -n "$$(find src/$$r -name '*.c' | head -n 1)" ] && \
         out="$(BUILD)/rooms/$$r.a $$out"; [ $$r = $(1) ] && break; done; echo $$out)

TESTS := $(sort $(wildcard tests/*/test_*.c))
TEST_ROOMS := $(filter $(ROOMS),$(sort $(patsubst tests/%/,%,$(dir $(TESTS)))))
TEST_BINS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(TESTS))

.PHONY: all test tests lint fuzzers quickstart bench walkthrough install clean help deps format docs
.SECONDARY:
.DELETE_ON_ERROR:

all: $(BUILD)/objdet $(BUILD)/objdet-golden $(BUILD)/libobjdet.a $(BUILD)/libobjdet.so

help:
	@sed -n 's/^## //p' Makefile

define room_rules
$(BUILD)/rooms/$(1).a: $(call room_obj,$(1)) $(if $(filter io,$(1)),$(PROTO_O))
	@mkdir -p $$(@D) && rm -f $$@
	@ar rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call room_rules,$(r))))

$(BUILD)/gen/%.pb-c.c $(BUILD)/gen/%.pb-c.h &: src/%.proto
	@mkdir -p $(BUILD)/gen/io/proto
	@protoc-c --proto_path=src --c_out=$(BUILD)/gen $<

$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS_ALL) -w -c $< -o $@

$(BUILD)/obj/%.o: src/%.c | $(PROTO_H)
	@mkdir -p $(@D)
	@echo "  cc $<"; $(CC) $(CFLAGS_ALL) $(WARN) -c $< -o $@

# Every training picture goes through these loops: worth the larger code.
$(BUILD)/obj/image/resize.o: OPT = -O3

# 60 million weights are drawn before the first step of a ResNet-101; the loops want vectors.
$(BUILD)/obj/base/rng_normal.o: OPT = -O3 -fno-math-errno

# Our own kernels may use what the processor has (chosen at run time) and want loops unrolled.
$(BUILD)/obj/engine/cpu/%.o: OPT = -O3 -ffp-contract=fast

$(BUILD)/libobjdet.a: $(foreach r,$(LIB_ROOMS),$(call room_obj,$(r))) $(PROTO_O)
	@rm -f $@ && ar rcs $@ $^

$(BUILD)/libobjdet.so: $(foreach r,$(LIB_ROOMS),$(call room_obj,$(r))) $(PROTO_O)
	@$(CC) -shared $(SAN) -fopenmp -Wl,-soname,libobjdet.so.$(SOVERSION) -o $@ $^ -Wl,--as-needed $(LIBS)

$(BUILD)/objdet: $(call room_obj,cli) $(BUILD)/libobjdet.a
	@$(CC) $(SAN) -fopenmp -o $@ $(filter-out %/cli/golden_main.o,$(filter %.o,$^)) $(BUILD)/libobjdet.a -Wl,--as-needed $(LIBS)

$(BUILD)/objdet-golden: $(call room_obj,cli) $(BUILD)/libobjdet.a
	@$(CC) $(SAN) -fopenmp -o $@ $(filter-out %/cli/main.o,$(filter %.o,$^)) $(BUILD)/libobjdet.a -Wl,--as-needed $(LIBS)

# ------------------------------------------------------------------------------------------------------------- tests
$(BUILD)/obj/tests/%.o: tests/%.c | $(PROTO_H)
	@mkdir -p $(@D)
	@echo "  cc $<"; $(CC) $(CFLAGS_ALL) $(WARN) -Itests -c $< -o $@

define test_rules
$(BUILD)/tests/$(1)/%: $(BUILD)/obj/tests/$(1)/%.o $(call upto,$(1))
	@mkdir -p $$(@D)
	@$(CC) $(SAN) -fopenmp -o $$@ $$< -Wl,--start-group $(call upto,$(1)) -Wl,--end-group -Wl,--as-needed $(LIBS) -lcmocka
.PHONY: test-$(1)
test-$(1): $(filter $(BUILD)/tests/$(1)/%,$(TEST_BINS))
	@tests/run $$^
endef
$(foreach r,$(TEST_ROOMS),$(eval $(call test_rules,$(r))))

## make test        builds and runs every test (no Python; no network where all that building needs is installed)
# What was installed just now is seen by a new make only.
test:
	@tools/install-deps
	@+$(MAKE) --no-print-directory tests
tests: all $(TEST_BINS)
	@tests/lint
	@BUILD=$(BUILD) CC=$(CC) SAN="$(SAN)" tests/run $(sort $(wildcard tests/*/test_*.sh)) $(TEST_BINS)

## make lint        checks the house rules
lint:
	@tests/lint

## make format      formats all sources
format:
	@clang-format -i $$(git ls-files '*.c' '*.h')

clean:
	rm -rf $(BUILD)

# ----------------------------------------------------------------------------------------------------------- fuzzing
# libFuzzer programs, one a parser: make CC=clang SAN="-fsanitize=address,undefined,fuzzer-no-link" fuzzers (.ci/run does)
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
fuzzers: $(FUZZERS)
$(BUILD)/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(call upto,data)
	@mkdir -p $(@D)
	@$(CC) $(SAN) -fsanitize=fuzzer -fopenmp -o $@ $< -Wl,--start-group $(call upto,data) -Wl,--end-group -Wl,--as-needed $(LIBS)

# -------------------------------------------------------------------------------------------------- installing, first steps
$(BUILD)/obj/cli/share.o: CFLAGS += -DOD_SHARE_DIR='"$(PREFIX)/share/objdet"'

$(BUILD)/objdet.pc: Makefile src/base/version.h FORCE
	@mkdir -p $(@D)
	@printf '%s\n' 'prefix=$(PREFIX)' 'libdir=$(LIBDIR)' 'includedir=$${prefix}/include' '' 'Name: objdet' \
	  'Description: Finding objects in pictures with detectors of the TensorFlow Object Detection API' 'Version: $(VERSION)' \
	  'Requires.private: $(PKGS) libcrypto' 'Cflags: -I$${includedir}' 'Libs: -L$${libdir} -lobjdet' \
	  'Libs.private: $(DNNL_LIBS) -lsnappy -lpthread -lm -lgomp' >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
.PHONY: FORCE

## make quickstart  installs what building needs, draws pictures, trains a detector on them and shows what it finds
quickstart:
	@tools/quickstart

## make bench       speed of SSD and Faster R-CNN beside the convolutions alone: training and inference, fp32 and bf16; new shapes
bench: $(BUILD)/tests/bench/bench_speed $(BUILD)/tests/bench/bench_shapes
	@BUILD=$(BUILD) tests/bench/run
$(BUILD)/tests/bench/bench_%: $(BUILD)/obj/tests/bench/bench_%.o $(call upto,train)
	@mkdir -p $(@D)
	@$(CC) $(SAN) -fopenmp -o $@ $< -Wl,--start-group $(call upto,train) -Wl,--end-group -Wl,--as-needed $(LIBS)

## make walkthrough the local lines of the original's pets page, replayed (see tools/walkthrough)
walkthrough: $(BUILD)/objdet
	@BUILD=$(BUILD) tools/walkthrough

## make deps        installs what building needs
deps:
	@tools/install-deps

## make install     program, library, header, pkg-config file, label maps and configs: PREFIX (/usr/local), DESTDIR
install: all $(BUILD)/objdet.pc
	@tools/install "$(BUILD)" "$(VERSION)" "$(DESTDIR)$(PREFIX)" "$(DESTDIR)$(LIBDIR)"

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
