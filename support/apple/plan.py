# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
"""Which modules are compiled for which system, with which files and flags: what the manifest says, and little besides."""
import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from systems import BUILD, ROOT
from sdk import STAND_INS, Failed

# Packages of others, of which only the declarations are wanted: bodies are not looked at. `Crypto` is swift-crypto as it
# is on Apple's systems; CryptoKit is what swift-crypto is elsewhere, which has CryptoKit's interface, by its authors.
CHECKOUTS = ROOT / ".build/checkouts"
FOREIGN = {
    "CryptoKit": ("swift-crypto/Sources/Crypto", ["CRYPTO_IN_SWIFTPM", "CRYPTO_IN_SWIFTPM_FORCE_BUILD_API"],
                  ["CryptoBoringWrapper"]),
    "CryptoBoringWrapper": ("swift-crypto/Sources/CryptoBoringWrapper",
                            ["CRYPTO_IN_SWIFTPM", "CRYPTO_IN_SWIFTPM_FORCE_BUILD_API"], []),
    "Crypto": ("swift-crypto/Sources/Crypto", ["CRYPTO_IN_SWIFTPM"], ["CryptoKit"]),
    "Logging": ("swift-log/Sources/Logging", [], []),
    "SwiftASN1": ("swift-asn1/Sources/SwiftASN1", [], []),
    "_CertificateInternals": ("swift-certificates/Sources/_CertificateInternals", [], []),
    "X509": ("swift-certificates/Sources/X509", [],
             ["SwiftASN1", "Crypto", "_CryptoExtras", "_CertificateInternals", "Security"]),
    "ArgumentParserToolInfo": ("swift-argument-parser/Sources/ArgumentParserToolInfo", [], []),
    "ArgumentParser": ("swift-argument-parser/Sources/ArgumentParser", [], ["ArgumentParserToolInfo"]),
}
# Their C modules.
C_MODULES = {
    "CCryptoBoringSSL": CHECKOUTS / "swift-crypto/Sources/CCryptoBoringSSL/include",
    "CCryptoBoringSSLShims": CHECKOUTS / "swift-crypto/Sources/CCryptoBoringSSLShims/include",
    "CXKCP": CHECKOUTS / "swift-crypto/Sources/CXKCP/include",
    "CXKCPShims": CHECKOUTS / "swift-crypto/Sources/CXKCPShims/include",
}
# Modules that Apple's SDK has, and that are ours here. Whatever is compiled may find them.
SYSTEM_MODULES = {
    "Dispatch": [], "Foundation": ["Dispatch"], "os": ["Foundation"],
    "Network": ["Foundation"], "Security": ["Foundation"], "CryptoKit": ["Foundation"],
    "NetworkExtension": ["Foundation", "Network"], "SwiftUI": ["Foundation"],
    "_CryptoExtras": ["Foundation", "Crypto", "Security"],
}
# Not compiled, though nothing of it says Linux: an example in C that makes a device of Linux, and tests that take more of
# Foundation (Process, JSONSerialization) than there is a stand-in of.
ELSEWHERE = {"culvert-c-example", "CulvertTests"}
# These have pinning and no packet tunnels.
PINNING_ONLY = {"watchos", "visionos"}


@dataclass
class Module:
    name: str
    kind: str  # system, foreign, ours, test
    files: list[Path]
    dependencies: list[str]
    flags: list[str] = field(default_factory=list)
    c_only: bool = False
    is_program: bool = False

    @property
    def folder(self) -> Path:
        return self.files[0].parent if self.files else ROOT


def swift_files(*folders: Path) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.rglob("*.swift"))]


def _renamed(path: Path) -> Path:
    """A copy of a file of swift-crypto, which calls its module by its name here and there."""
    copy = BUILD / "CryptoKit" / path.relative_to(CHECKOUTS)
    text = re.sub(r"\bCrypto\.(?=[A-Z])", "CryptoKit.", path.read_text())
    if not copy.exists() or copy.read_text() != text:
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
    return copy


def dump(stand_ins: bool) -> dict:
    environment = dict(os.environ)
    command = ["swift", "package"]
    if stand_ins:
        environment["CULVERT_STANDINS"] = "1"
        command += ["--scratch-path", str(BUILD / "manifest")]
    done = subprocess.run(command + ["dump-package"], cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr)
    return json.loads(done.stdout)


class Plan:
    def __init__(self):
        ordinary, with_stand_ins = dump(False), dump(True)
        self.floors = {p["platformName"]: p["version"] for p in ordinary["platforms"]}
        self.traits = [t["name"] for t in ordinary["traits"] if t["name"] != "default"]
        self.targets = {}
        for target in ordinary["targets"] + with_stand_ins["targets"]:
            known = self.targets.get(target["name"])
            # A part of the other platform is an empty module in one of the two.
            if known is None or (known.get("path") or "").endswith("/Elsewhere"):
                self.targets[target["name"]] = target

    @staticmethod
    def _dependencies(target: dict, system: str) -> list[str]:
        names = []
        for dependency in target["dependencies"]:
            (kind, value), = dependency.items()
            condition = value[-1] or {}
            platforms = condition.get("platformNames") or []
            if not platforms or system in platforms:
                names.append(value[0])
        return names

    @staticmethod
    def _flags(target: dict) -> list[str]:
        flags = []
        for setting in target["settings"]:
            (kind, value), = setting["kind"].items()
            if kind == "enableUpcomingFeature":
                flags += ["-enable-upcoming-feature", value["_0"]]
            elif kind == "swiftLanguageMode":
                flags += ["-swift-version", value["_0"]]
            elif kind == "strictMemorySafety":
                flags += ["-strict-memory-safety"]
        return flags

    def _folder(self, target: dict) -> Path:
        top = "Tests" if target["type"] == "test" else "Sources"
        return ROOT / (target.get("path") or f"{top}/{target['name']}")

    def system_modules(self) -> list[Module]:
        modules = []
        for name, dependencies in SYSTEM_MODULES.items():
            files = swift_files(STAND_INS / name)
            if name == "CryptoKit":
                continue
            modules.append(Module(name, "system", files, dependencies, ["-swift-version", "6"]))
        for name, (folder, defines, dependencies) in FOREIGN.items():
            files = swift_files(CHECKOUTS / folder)
            if not files:
                raise Failed(f"there is no {CHECKOUTS / folder}; build first, or run `swift package resolve`")
            if name == "CryptoKit":
                files = [_renamed(path) for path in files] + swift_files(STAND_INS / name)
            flags = ["-swift-version", "5", "-package-name", folder.split("/")[0]]
            flags += [flag for define in defines for flag in ("-D", define)]
            modules.append(Module(name, "foreign", files, dependencies + ["Foundation", "Dispatch"], flags))
        return modules

    def own_modules(self, system: str) -> list[Module]:
        """What of the package can be compiled for a system: everything but what needs NIO, or is Linux's."""
        known = set(FOREIGN) | set(SYSTEM_MODULES)
        kept: dict[str, Module] = {}
        refused = {"PrivilegedTests"}  # Namespaces of Linux.
        changed = True
        while changed:
            changed = False
            for name, target in self.targets.items():
                if name in kept or name in refused or name in SYSTEM_MODULES:
                    continue
                if "linux" in name.lower() or name in ELSEWHERE:
                    refused.add(name)
                    continue
                needs = self._dependencies(target, system)
                if any(need not in known and need not in self.targets or need in refused for need in needs):
                    refused.add(name)
                    changed = True
                elif all(need in known or need in kept for need in needs):
                    kept[name] = self._module(name, target, needs)
                    changed = True
        model = kept.get("AppleTunnelModel")
        if model:
            # One module with its views, as the example's Xcode project has it.
            app = [model.folder, model.folder.parent / "App"]
            kept["AppleTunnelApp"] = Module("AppleTunnelApp", "ours", swift_files(*app), model.dependencies, model.flags)
        modules = list(kept.values())
        if system in PINNING_ONLY:
            wanted, names = {"TrustPinning", "TrustPinningFoundation"}, set()
            while wanted:
                name = wanted.pop()
                if name in kept:
                    names.add(name)
                    wanted |= set(kept[name].dependencies) - names
            modules = [module for module in modules if module.name in names]
        if system != "macos":
            # A phone runs no command lines.
            modules = [m for m in modules if not m.is_program and m.name not in self.users_of_programs(kept)]
        return modules

    @staticmethod
    def users_of_programs(modules: dict[str, Module]) -> set[str]:
        programs = {name for name, module in modules.items() if module.is_program} | {"ArgumentParser"}
        found: set[str] = set()
        while True:
            more = {n for n, m in modules.items() if n not in found and set(m.dependencies) & (programs | found)}
            if not more:
                return found
            found |= more

    def _module(self, name: str, target: dict, needs: list[str]) -> Module:
        folder = self._folder(target)
        excluded = [folder / path for path in target.get("exclude", [])]
        files = [
            path for path in sorted(folder.rglob("*"))
            if path.suffix in (".swift", ".c") and not any(path.is_relative_to(other) for other in excluded)
        ]
        c_only = not any(path.suffix == ".swift" for path in files)
        kind = "test" if target["type"] == "test" or folder.is_relative_to(ROOT / "Tests") else "ours"
        flags = self._flags(target) + ["-package-name", "culvert"]
        flags += [flag for trait in self.traits for flag in ("-D", trait)]
        return Module(name, kind, files, needs, flags, c_only, target["type"] == "executable")
