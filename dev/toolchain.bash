# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
#
# For scripts that need the compiler of Swift's toolchain, which is the one that SwiftPM uses.

target_information=$(swift -print-target-info 2>/dev/null || true)

# A value of the toolchain's description of its target; empty if there is none.
target_value() { sed -n "s/^ *\"$1\": *\"\(.*\)\".*/\1/p" <<<"$target_information" | head -n 1; }

# Empty if there is no toolchain.
toolchain_clang=$(target_value runtimeResourcePath)
toolchain_clang=${toolchain_clang:+$toolchain_clang/../../bin/clang}
