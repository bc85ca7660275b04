# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
"""What takes the place of Apple's SDK: a sysroot of its open-source headers, and Swift's modules for its targets."""
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import interfaces
from systems import BUILD, ROOT, System

# Apple's open-source headers and its stub of libSystem, as they come with Zig, and Zig's linker.
ZIGLANG = "0.17.0"
ZIGLANG_SHA256 = "97079827064a7492cce5541ceb438ae8003ce1e54e399676da2d62fb7a5dc08b"
TOOLCHAIN = Path(shutil.which("swift") or "/usr/bin/swift").resolve().parents[1]
HERE = Path(__file__).resolve().parent
STAND_INS = ROOT / "Tests/StandIns"


class Failed(Exception):
    """A step that went wrong, with what it printed."""


def run(*command, **options) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(str(part) for part in command[:2])}…\n{done.stdout}{done.stderr}")
    return done.stdout


def wheel() -> Path:
    """Fetches the package once. One for every machine: of most of it, only data is used."""
    folder = BUILD / f"ziglang-{ZIGLANG}"
    found = next(folder.glob("*.whl"), None)
    if found is None:
        folder.mkdir(parents=True, exist_ok=True)
        run(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
            "--only-binary=:all:", "--platform", "manylinux_2_12_x86_64", "--dest", folder, f"ziglang=={ZIGLANG}")
        found = next(folder.glob("*.whl"))
    if hashlib.sha256(found.read_bytes()).hexdigest() != ZIGLANG_SHA256:
        found.unlink()
        raise Failed(f"{found.name} is not what it was when this was written")
    return found


def unpacked(name: str, *wanted: str) -> Path:
    """A part of the package, as files."""
    folder = BUILD / f"ziglang-{ZIGLANG}" / name
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=BUILD) as scratch, zipfile.ZipFile(wheel()) as archive:
            archive.extractall(scratch, [entry for entry in archive.namelist() if entry.startswith(wanted)])
            (Path(scratch) / "ziglang").rename(folder)
    return folder


def headers() -> Path:
    libc = unpacked("headers", "ziglang/lib/libc/include/any-darwin-any/", "ziglang/lib/libc/darwin/")
    return libc / "lib/libc"


def linker() -> list:
    """Zig's, since the toolchain's does not link for macOS."""
    if platform.machine() != "x86_64":
        raise Failed("the linker that is fetched runs on x86-64 only")
    program = unpacked("whole", "ziglang/") / "zig"
    program.chmod(0o755)
    return [program, "cc"]


def stamp(system: System, target: str) -> str:
    """Changes when anything does that an SDK is made from."""
    digest = hashlib.sha256(f"{target} {ZIGLANG} {TOOLCHAIN}".encode())
    digest.update(run(TOOLCHAIN / "bin/swift-frontend", "--version").encode())
    for path in sorted(HERE.glob("*")):
        if path.name in ("sdk.py", "interfaces.py", "systems.py", "headers.txt"):
            digest.update(path.read_bytes())
    for path in sorted((STAND_INS / "Darwin").glob("*.swift")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class SDK:
    """The SDK of one system for one target, in a folder of the build folder."""

    def __init__(self, system: System, target: str):
        self.system, self.target = system, target
        self.folder = BUILD / system.name
        self.root = self.folder / "sdk"
        self.resources = self.folder / "swift"
        self.modules = self.resources / system.folder

    def common_flags(self) -> list[str]:
        return ["-target", self.target, "-sdk", str(self.root), "-resource-dir", str(self.resources),
                "-module-cache-path", str(self.folder / "cache"), "-disable-objc-interop", "-no-color-diagnostics"]

    def frontend(self, *arguments) -> str:
        return run("nice", "-n", "10", TOOLCHAIN / "bin/swift-frontend", *arguments, *self.common_flags())

    def make(self) -> None:
        """Makes all of it, unless it is there."""
        mark = self.folder / "stamp"
        now = stamp(self.system, self.target)
        if mark.exists() and mark.read_text() == now:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._sysroot()
        self._swift()
        mark.write_text(now)

    # The C side

    def _sysroot(self) -> None:
        source = headers()
        include = self.root / "usr/include"
        shutil.copytree(source / "include/any-darwin-any", include)
        (self.root / "usr/lib").mkdir(parents=True)
        shutil.copy(source / "darwin/libSystem.tbd", self.root / "usr/lib")
        version = self.system.version
        settings = {"CanonicalName": self.system.sdk + version, "DisplayName": self.system.name, "Version": version,
                    "MaximumDeploymentTarget": version + ".99"}
        if self.system.name == "visionos":
            # By which what is there since a version of iOS is there since one of visionOS.
            since = {"17.0": "1.0", "17.4": "1.1", "17.5": "1.2", "18.0": "2.0", "18.2": "2.2", "18.4": "2.4", "18.5": "2.5",
                     "26.0": "26.0"}
            settings["VersionMap"] = {"iOS_visionOS": since, "visionOS_iOS": {v: k for k, v in since.items()}}
        # Swift and clang ask for the whole name.
        (self.root / "SDKSettings.json").write_text(json.dumps(settings))
        maps, part = {}, ""
        for line in (HERE / "headers.txt").read_text().splitlines():
            if line.startswith("["):
                part = line.strip("[]")
                maps[part] = []
            elif line and not line.startswith("#"):
                name, *only = line.split()
                if only and self.system.name not in only:
                    if "absent" in only:
                        (include / name).unlink()
                elif (include / name).exists():
                    maps[part].append(name)
                else:
                    raise Failed(f"ziglang {ZIGLANG} has no {name}")
        if self.system.name != "macos":
            (include / "launch.h").unlink(missing_ok=True)

        def entries(names):
            return "".join(f'  module h_{re.sub("[/.+-]", "_", n[:-2])} {{ header "{n}" export * }}\n' for n in names)

        folders = "".join(
            f'  module types_{name} {{ umbrella "{folder}" module * {{ export * }} export * }}\n'
            for name, folder in (("a", "_types"), ("b", "sys/_types"), ("c", "sys/_pthread")))
        (include / "module.modulemap").write_text(
            f"module _DarwinFoundation1 [system] [extern_c] {{\n{entries(maps['below'])}{folders}  export *\n}}\n"
            f"module Darwin [system] [extern_c] {{\n  export _DarwinFoundation1\n{entries(maps['Darwin'])}"
            '  textual header "assert.h"\n  export *\n}\n'
            # Apart, as in Apple's SDK.
            f"module MachO [system] [extern_c] {{\n{entries(maps['MachO'])}  export *\n}}\n")
        # A type of the name of Swift's own, which Apple's SDK hides too.
        notes = self.root / "usr/lib/swift/apinotes"
        notes.mkdir(parents=True)
        (notes / "Darwin.apinotes").write_text(
            "---\nName: Darwin\nTypedefs:\n- Name: Duration\n  Availability: nonswift\n")

    # The Swift side

    def _swift(self) -> None:
        self.modules.mkdir(parents=True)
        for part in ("shims", "clang", "apinotes"):
            (self.resources / part).symlink_to(TOOLCHAIN / "lib/swift" / part)
        shims = ("SwiftShims", "_SwiftConcurrencyShims", "SwiftOverlayShims", "_SynchronizationShims")
        (self.resources / "module.modulemap").write_text(
            "".join(f'extern module {name} "shims/module.modulemap"\n' for name in shims))
        for name in ("Swift", "SwiftOnoneSupport", "_Concurrency"):
            self._own(name, "-parse-stdlib")
        self._own("_StringProcessing")
        self._own("_Builtin_float")
        self._overlay()
        self._own("Synchronization")
        self._own("Observation")
        self._essentials()

    def _module(self, name: str) -> Path:
        folder = self.modules / f"{name}.swiftmodule"
        folder.mkdir(exist_ok=True)
        return folder / f"{self.system.triple}.swiftmodule"

    def _from_interface(self, name: str, text: str, *flags) -> None:
        path = self.folder / "interfaces" / f"{name}.swiftinterface"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        self.frontend("-compile-module-from-interface", path, "-module-name", name, "-disable-availability-checking",
                      *flags, "-o", self._module(name))

    def _own(self, name: str, *flags) -> None:
        folder = TOOLCHAIN / f"lib/swift/linux/{name}.swiftmodule"
        source = next(path for path in sorted(folder.glob("*-unknown-linux-gnu.swiftinterface")))
        self._from_interface(name, interfaces.for_target(source.read_text(), name, self.target), *flags)

    def testing(self) -> None:
        """Swift Testing, where tests are compiled."""
        if not self._module("Testing").exists():
            self._own("Testing")

    def _overlay(self) -> None:
        self.frontend("-emit-module", "-parse-as-library", "-module-name", "Darwin", "-swift-version", "6",
                      "-enable-library-evolution", "-module-link-name", "swiftDarwin", "-O",
                      *sorted((STAND_INS / "Darwin").glob("*.swift")), "-o", self._module("Darwin"))

    def _essentials(self) -> None:
        """The values of Foundation (Data, Date, URL, JSON), as the open-source one declares them."""
        printed = self.folder / "FoundationEssentials.txt"
        triple = next((TOOLCHAIN / "lib/swift/linux/Swift.swiftmodule").glob("*-linux-gnu.swiftmodule")).stem
        run(TOOLCHAIN / "bin/swift-synthesize-interface", "-module-name", "FoundationEssentials", "-target", triple,
            "-resource-dir", TOOLCHAIN / "lib/swift", "-I", TOOLCHAIN / "lib/swift/linux",
            "-module-cache-path", self.folder / "host-cache", "-o", printed)
        self._from_interface(
            "FoundationValues", interfaces.essentials(printed.read_text(), "FoundationValues", self.target))
