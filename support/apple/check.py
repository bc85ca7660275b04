# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
"""Compiles the package for Apple's systems. See scripts/apple, which calls it."""
import argparse
import hashlib
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from plan import C_MODULES, CHECKOUTS, SYSTEM_MODULES, Module, Plan
from sdk import SDK, TOOLCHAIN, Failed, headers, linker, run, stamp
from systems import BUILD, ROOT, SYSTEMS

C_FLAGS = ["-std=c17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
DIAGNOSTIC = re.compile(r"^(/[^:]+):(\d+):\d+: (?:fatal )?(error|warning): (.*)$", re.MULTILINE)
MACROS = ["libSwiftMacros.so", "libObservationMacros.so", "libTestingMacros.so"]


class Check:
    """One system: its SDK, its modules, and what compilers said of them."""

    def __init__(self, plan: Plan, name: str, mode: str, tests: bool):
        self.plan, self.mode = plan, mode
        self.system = SYSTEMS[name]
        self.sdk = SDK(self.system, self.system.target(plan.floors[name]))
        self.out = self.sdk.folder / ("objects" if mode == "object" else "modules")
        own = [m for m in plan.own_modules(name) if tests or m.kind != "test"]
        if mode == "object":
            own = [m for m in own if m.kind == "ours"]
        own.append(LAYOUT)
        self.modules = {m.name: m for m in plan.system_modules() + own}
        self.needed = self._needed(own)
        self.failures = 0
        self.stamp = stamp(self.system, self.sdk.target) + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
        self.digests: dict[str, str] = {}
        self.replaced: dict[Path, Path] = {}

    def _needed(self, own: list[Module]) -> list[Module]:
        """What has to be compiled: the package's modules and all that they need, each after its own."""
        order: list[Module] = []

        def visit(name: str) -> None:
            module = self.modules.get(name)
            if module is None or module in order:
                return
            for dependency in self._all_dependencies(module):
                visit(dependency)
            order.append(module)

        for module in own:
            visit(module.name)
        return order

    def _all_dependencies(self, module: Module) -> list[str]:
        if module.kind in ("ours", "test"):
            return module.dependencies + [name for name in SYSTEM_MODULES if name != "_CryptoExtras"]
        return module.dependencies

    # Steps

    def prepare(self) -> None:
        self.sdk.make()
        if any(module.kind == "test" for module in self.needed):
            self.sdk.testing()
        self.out.mkdir(parents=True, exist_ok=True)
        # Apart: swift-crypto's own C is not built for Apple's systems, so ours must not find it.
        maps = [f'extern module {name} "{folder}/module.modulemap"' for name, folder in C_MODULES.items()]
        (self.out / "foreign.modulemap").write_text("\n".join(maps) + "\n")
        maps = []
        for module in self.needed:
            if module.c_only and (module.folder / "include").is_dir():
                header = next((module.folder / "include").glob("*.modulemap"), None)
                headers = sorted((module.folder / "include").glob("*.h"))
                if header:
                    maps.append(f'extern module {module.name} "{header}"')
                else:
                    # As SwiftPM makes them: the header of the module's name, or the only one.
                    main = [h for h in headers if h.stem == module.name] or headers[:1]
                    maps.append(f'module {module.name} {{ header "{main[0]}" export * }}')
        (self.out / "module.modulemap").write_text("\n".join(maps) + "\n")

    def compile(self, module: Module) -> None:
        began = time.monotonic()
        digest = self._digest(module)
        mark = self.out / f"{module.name}.digest"
        if mark.exists() and mark.read_text() == digest:
            if module.kind in ("ours", "test"):
                self._say(f"{self.system.name:8} {module.name:24} ok, as before", [])
            return
        problems = self.problems(module)
        if module.kind in ("ours", "test") or problems:
            verdict = "ok" if not problems else f"{len(problems)} problems"
            lines = sum(path.read_bytes().count(b"\n") for path in module.files)
            self._say(f"{self.system.name:8} {module.name:24} {verdict:12} {len(module.files):4} files "
                      f"{lines:6} lines {time.monotonic() - began:5.1f} s", problems)
        self.failures += len(problems)
        if not problems:
            mark.write_text(digest)

    def problems(self, module: Module, keeping: bool = True) -> list[str]:
        """What compilers say of a module; what they make of it stays where others find it, if it is to be kept."""
        return self._c(module) + (self._swift(module, keeping) if not module.c_only else [])

    def needed_by(self, module: Module) -> list[Module]:
        """A module and those of the package that it needs."""
        found = [module]
        for name in (name for module in found for name in module.dependencies):
            if name in self.modules and self.modules[name].kind == "ours" and self.modules[name] not in found:
                found.append(self.modules[name])
        return found

    def _digest(self, module: Module) -> str:
        """Changes when anything does that a module is made from."""
        digest = hashlib.sha256(" ".join([self.stamp, self.mode, *module.flags]).encode())
        for path in module.files + sorted((module.folder / "include").glob("*.h")):
            digest.update(f"\0{path}\0".encode() + path.read_bytes())
        for name in self._all_dependencies(module):
            digest.update(self.digests.get(name, "").encode())
        self.digests[module.name] = digest.hexdigest()
        return digest.hexdigest()

    def _say(self, line: str, problems: list[str]) -> None:
        with PRINTING:
            print(line, *("  " + problem for problem in problems[:LIMIT]), sep="\n", flush=True)
            if len(problems) > LIMIT:
                print(f"  and {len(problems) - LIMIT} more", flush=True)

    def _c(self, module: Module) -> list[str]:
        problems = []
        includes = [f"-I{m.folder / 'include'}" for m in self.needed if m.c_only and m.kind == "ours"]
        for path in module.files:
            if path.suffix != ".c":
                continue
            done = subprocess.run(
                [TOOLCHAIN / "bin/clang", "-target", self.sdk.target, "-isysroot", self.sdk.root, *C_FLAGS, *includes,
                 self.replaced.get(path, path)], capture_output=True, text=True)
            problems += self._problems(done.stderr, done.returncode, path)
            if self.mode == "object" and not problems and module is not LAYOUT:
                run(TOOLCHAIN / "bin/clang", "-target", self.sdk.target, "-isysroot", self.sdk.root, "-std=c17", "-O2",
                    *includes, "-c", path, "-o", self.out / f"{module.name}-{path.stem}.o")
        return problems

    def _swift(self, module: Module, keeping: bool) -> list[str]:
        files = [str(self.replaced.get(path, path)) for path in module.files if path.suffix == ".swift"]
        if not files:
            return []
        folder = self.out if keeping else BUILD / "planted"
        output = folder / f"{module.name.replace('-', '_')}.swiftmodule"
        flags = self.sdk.common_flags() + ["-I", str(self.out), "-module-name", module.name.replace("-", "_")]
        modules = "foreign" if module.kind == "foreign" else "module"
        flags += module.flags + ["-Xcc", f"-fmodule-map-file={self.out}/{modules}.modulemap"]
        if module.kind == "foreign":
            flags += [flag for folder in C_MODULES.values() for flag in ("-Xcc", f"-I{folder}")]
        if not module.is_program or any("@main" in Path(f).read_text() for f in files):
            flags.append("-parse-as-library")
        if module.kind in ("ours", "test"):
            flags += ["-warnings-as-errors"]
        else:
            flags += ["-suppress-warnings"]
        plugins = TOOLCHAIN / "lib/swift/host/plugins"
        names = [name for name in MACROS if "Testing" not in name or module.kind == "test"]
        flags += [flag for name in names for flag in ("-load-plugin-library", str(plugins / name))]
        if module.kind == "foreign":
            flags += ["-experimental-skip-non-inlinable-function-bodies"]
        if self.mode == "object" and module.kind == "ours":
            command = ["-emit-object", "-O", "-whole-module-optimization", "-emit-module-path", str(output),
                       "-o", str(output.with_suffix(".o"))]
        else:
            command = ["-emit-module", "-enable-testing", "-o", str(output)]
            if module.kind == "foreign":
                command.remove("-enable-testing")
        done = self._frontend(command + flags + files)
        problems = self._problems(done.stderr, done.returncode, module.folder)
        if problems and keeping:
            # Others need the module all the same: without the checks that were failed it can often be had.
            lenient = [flag for flag in flags if flag != "-warnings-as-errors"]
            self._frontend(["-emit-module", "-o", str(output), "-disable-availability-checking", "-suppress-warnings"]
                           + lenient + files + ["-enable-testing"])
        return problems

    @staticmethod
    def _frontend(arguments: list[str]):
        command = ["nice", "-n", "10", str(TOOLCHAIN / "bin/swift-frontend"), *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    @staticmethod
    def _problems(text: str, status: int, place: Path) -> list[str]:
        found = sorted({
            f"{path.removeprefix(str(ROOT) + '/')}:{line}: {kind}: {what}"
            for path, line, kind, what in DIAGNOSTIC.findall(text)
        })
        if status != 0 and not found:
            found = [f"{place}: {text.strip().splitlines()[-1] if text.strip() else f'status {status}'}"]
            (BUILD / "last-crash.txt").write_text(text)
        return found if status != 0 else [p for p in found if ": error:" in p]


# Numbers of Darwin's headers that are written down by hand.
LAYOUT = Module("DarwinLayout", "ours", [ROOT / "Tests/Apple/DarwinLayout.c"], ["CTunnelSystem"], [], c_only=True)
PRINTING = threading.Lock()
LIMIT = 60
# What a Mac's own libraries define: Swift's runtime, and symbols of Swift's and Apple's modules (`s` and `S` are Swift's own).
APPLES = re.compile(
    r"_?_swift_|_\$s(s|S|15Synchronization|10Foundation|16FoundationValues|9CryptoKit|12_Concurrency|6Darwin|18_StringProcessing)"
    r"|_\$[sS]|___swift_|__swift")


def link(check: Check, library: str) -> list[str]:
    """Links the dynamic library of a product, and says what would be missing in it on a Mac."""
    product = check.modules[library]
    names = [module.name for module in check.needed_by(product)]
    objects = [path for name in names for path in sorted(check.out.glob(f"{name}.o")) + sorted(check.out.glob(f"{name}-*.o"))]
    dylib = check.out / "libculvert-c.dylib"
    cache = str(BUILD / "zig-cache")
    run("nice", "-n", "10", *linker(), "-target", f"aarch64-macos.{check.plan.floors['macos']}", "-shared",
        "-Wl,-undefined,dynamic_lookup", "-o", dylib, *objects,
        env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache})
    stub = (check.sdk.root / "usr/lib/libSystem.tbd").read_text()
    here = set(re.findall(r"[\w$]+", stub))
    missing, counts = [], {"libSystem": 0, "Swift and Apple's modules": 0}
    for line in run(TOOLCHAIN / "bin/llvm-nm", "-u", dylib).splitlines():
        symbol = line.split()[-1]
        if symbol in here:
            counts["libSystem"] += 1
        elif APPLES.match(symbol):
            counts["Swift and Apple's modules"] += 1
        else:
            missing.append(f"undefined: {symbol}")
    exported = sum(" T _culvert_" in line for line in run(TOOLCHAIN / "bin/llvm-nm", dylib).splitlines())
    told = ", ".join(f"{count} of {name}" for name, count in counts.items())
    print(f"{check.system.name:8} {dylib.name:24} {'ok' if not missing else 'symbols are missing':12} "
          f"{len(objects)} objects, {dylib.stat().st_size:,} bytes, {exported} functions for C; undefined: {told}",
          *missing, sep="\n  ", flush=True)
    return missing


def plant(check: Check) -> list[str]:
    """Compiles each module with an error in it that has to be found."""
    from planted import PLANTED

    missed = []
    scratch = BUILD / "planted"
    scratch.mkdir(exist_ok=True)
    for number, (title, name, file, old, new, said) in enumerate(PLANTED):
        path = ROOT / file
        text = path.read_text()
        if old not in text:
            raise Failed(f"{file} has no `{old}` any more: mend support/apple/planted.py")
        copy = scratch / f"{number}-{path.name}"
        copy.write_text(text.replace(old, new, 1))
        check.replaced = {path: copy}
        module = check.modules[name]
        problems = check.problems(module, keeping=False)
        found = [problem for problem in problems if said in problem]
        print(f"{check.system.name:8} planted: {title}: {'found' if found else 'MISSED'}", *(found or problems)[:1],
              sep="\n  ", flush=True)
        if not found:
            missed.append(title)
    check.replaced = {}
    return missed


def run_all(checks: list[Check], jobs: int) -> None:
    """Compiles all modules of all systems, each once what it needs is there."""
    headers()  # Once, before all who need it.
    with ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(check.prepare) for check in checks]:
            future.result()
        done: set[tuple[int, str]] = set()
        waiting = [(index, module) for index, check in enumerate(checks) for module in check.needed]
        running = {}
        while waiting or running:
            for item in list(waiting):
                index, module = item
                names = checks[index].modules
                needs = {n for n in checks[index]._all_dependencies(module) if n in names}
                if all((index, need) in done for need in needs) and len(running) < jobs:
                    waiting.remove(item)
                    running[pool.submit(checks[index].compile, module)] = (index, module.name)
            future = next(as_completed(list(running)))
            done.add(running.pop(future))
            future.result()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("systems", nargs="*", default=["macos", "ios"])
    parser.add_argument("--objects", action="store_true")
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    try:
        plan = Plan()
        mode = "object" if arguments.objects else "typecheck"
        checks = [
            Check(plan, name, mode, tests=not arguments.no_tests and name == "macos") for name in arguments.systems
        ]
        run_all(checks, arguments.jobs)
        for check in checks:
            if arguments.objects and check.system.name == "macos" and not check.failures:
                check.failures += len(link(check, "CulvertC"))
            if arguments.planted and check.system.name == "macos" and not check.failures:
                check.failures += len(plant(check))
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 1 if any(check.failures for check in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
