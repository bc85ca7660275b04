# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
"""How much of the sources is compiled for Apple's systems, and where it runs: lines with code, by what `#if` lets through."""
import re
from pathlib import Path

from systems import ROOT

LINUX = {"Glibc", "Foundation", "FoundationEssentials", "FoundationNetworking", "Dispatch", "CCryptoBoringSSL", "Observation"}
STAND_INS = LINUX | {"NetworkExtension", "Network", "Security", "os"}
NOT_APPLE = {"Glibc", "Musl", "FoundationEssentials", "FoundationNetworking", "CCryptoBoringSSL", "Android", "Bionic", "WinSDK"}


class Build:
    def __init__(self, system: str, modules):
        self.system, self.modules = system, modules

    def has(self, module: str) -> bool:
        return module not in NOT_APPLE if self.modules is None else module in self.modules

    def means(self, condition: str) -> bool:
        """Whether `#if` with this condition is taken."""
        condition = condition.split("//")[0]
        text = re.sub(r"canImport\((\w+)[^)]*\)", lambda m: str(self.has(m[1])), condition)
        text = re.sub(r"\bos\((\w+)\)", lambda m: str(m[1].lower() == self.system), text)
        text = re.sub(r"(targetEnvironment|arch|_endian|swift|compiler|hasFeature)\([^)]*\)", "True", text)
        text = re.sub(r"\b(?!True\b|False\b)[A-Za-z_]\w*", "True", text)  # Traits are on; DEBUG does not matter.
        text = text.replace("&&", " and ").replace("||", " or ").replace("!", " not ")
        return bool(eval(text, {"__builtins__": {}}))

    def lines(self, path: Path) -> set[int]:
        """The numbers of the lines with code that it compiles."""
        if path.suffix != ".swift":
            return {n for n, line in enumerate(path.read_text().splitlines()) if _is_code(line)}
        found, stack = set(), []
        for number, line in enumerate(path.read_text().splitlines()):
            word = line.strip()
            if word.startswith("#if"):
                taken = self.means(word[3:])
                stack.append([taken, taken])
            elif word.startswith("#elseif"):
                taken = not stack[-1][1] and self.means(word[7:])
                stack[-1] = [taken, stack[-1][1] or taken]
            elif word.startswith("#else"):
                stack[-1] = [not stack[-1][1], True]
            elif word.startswith("#endif"):
                stack.pop()
            elif all(entry[0] for entry in stack) and _is_code(line):
                found.add(number)
        return found


def _is_code(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith("//")


def table(plan) -> str:
    """The counts as a table, with what they mean."""
    apple = [Build("macos", None), Build("ios", None)]
    compiled = [{path for m in plan.own_modules(b.system) for path in m.files} for b in apple]
    run_here = Build("linux", LINUX)
    run_on_stand_ins = Build("linux", STAND_INS)
    folders = [folder for folder in sorted((ROOT / "Sources").iterdir()) if folder.is_dir()]
    folders.append(ROOT / "Examples/AppleTunnel")
    rows, totals = [], [0] * 5
    for folder in folders:
        counts = [0] * 5
        for path in sorted(folder.rglob("*")):
            if path.suffix not in (".swift", ".c") or "Elsewhere" in path.parts:
                continue
            theirs = set().union(*(b.lines(path) for b, files in zip(apple, compiled) if path in files))
            ordinary = run_here.lines(path)
            if folder.name in ("PacketTunnelApple", "AppleTunnel"):
                ordinary = set()
            standing = run_on_stand_ins.lines(path) - ordinary
            if path.parent.name == "App":
                standing = set()
            counts[0] += len(theirs)
            counts[1] += len(theirs & ordinary)
            counts[2] += len(theirs & standing)
            counts[3] += len(theirs - ordinary - standing)
            counts[4] += len((ordinary | standing) - theirs)
        rows.append((folder.relative_to(ROOT).as_posix().removeprefix("Sources/"), counts))
        totals = [a + b for a, b in zip(totals, counts)]
    rows.append(("**all**", totals))
    head = ("| Part | Compiled for Apple | of these run on Linux as they are | run on Linux against stand-ins "
            "| run nowhere yet | Not compiled for Apple |\n|---|--:|--:|--:|--:|--:|\n")
    return head + "".join(f"| {name} | " + " | ".join(f"{n:,}" for n in counts) + " |\n" for name, counts in rows)


def main() -> None:
    from plan import Plan

    text = table(Plan())
    page = ROOT / "docs/apple.md"
    begin, end = "<!-- counts: scripts/apple --counts -->\n", "<!-- end of counts -->"
    whole = page.read_text()
    before, rest = whole.split(begin)
    page.write_text(before + begin + text + end + rest.split(end)[1])
    print(text, end="")


if __name__ == "__main__":
    main()
