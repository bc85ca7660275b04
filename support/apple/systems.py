# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
"""The systems that the package names, as compilers call them."""
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class System:
    name: str  # as in the manifest
    folder: str  # of its Swift modules in a resource folder
    sdk: str  # canonical name, without version
    triple: str  # of module files
    os: str  # in a target triple
    version: str  # of the SDK: any that is newer than the floor

    def target(self, floor: str) -> str:
        return f"arm64-apple-{self.os}{floor}"


SYSTEMS = {
    s.name: s
    for s in (
        System("macos", "macosx", "macosx", "arm64-apple-macos", "macosx", "15.5"),
        System("ios", "iphoneos", "iphoneos", "arm64-apple-ios", "ios", "18.5"),
        System("tvos", "appletvos", "appletvos", "arm64-apple-tvos", "tvos", "18.5"),
        System("watchos", "watchos", "watchos", "arm64-apple-watchos", "watchos", "11.5"),
        System("visionos", "xros", "xros", "arm64-apple-xros", "xros", "2.5"),
    )
}

# The root of the repository, and where everything that is made goes.
ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / ".build-apple"
