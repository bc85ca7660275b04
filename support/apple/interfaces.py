# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
"""Textual module interfaces of the Linux toolchain, rewritten for an Apple target.

The toolchain's interfaces carry Apple's `@available`, so that availability is really checked. What differs is little: the
C library's name, `Mutex` (futexes there, `os_unfair_lock` here) and Float80, which only x86 has.
"""
import re

COMPILER = "// swift-interface-format-version: 1.0\n// swift-compiler-version: Swift version 6.3\n"


def for_target(text: str, module: str, target: str) -> str:
    """The interface of one of Swift's own modules."""
    lines = text.splitlines(keepends=True)
    # The flags are on the third line.
    lines[2] = (
        lines[2].replace("-target x86_64-unknown-linux-gnu", f"-target {target}")
        .replace("-target aarch64-unknown-linux-gnu", f"-target {target}").replace(" -static ", " ").rstrip("\n")
        + " -disable-availability-checking\n"
    )
    text = "".join(line for line in lines if not re.match(r" *@backDeployed\(", line))
    text = re.sub(r"(?m)^import Glibc$", "import Darwin", text)
    text = re.sub(r"(?m)^@_exported import SwiftGlibc$", "@_exported import Darwin", text)
    if module == "Swift":
        text = text.replace("self = _stdlib_remainderl(self, other)", "fatalError()")
        text = text.replace("self = _stdlib_squareRootl(self)", "fatalError()")
        text = text.replace("public typealias CLongDouble = Swift.Float80", "public typealias CLongDouble = Swift.Double")
    if module == "Synchronization":
        text = _with_unfair_lock(text)
    return text


def _with_unfair_lock(text: str) -> str:
    """The handle inside a Mutex, as it is on Apple's systems."""
    since = "@available(macOS 15.0, iOS 18.0, watchOS 11.0, tvOS 18.0, visionOS 2.0, *)\n"
    start = re.search(r"@available\([^\n]*\n@frozen @_staticExclusiveOnly public struct _MutexHandle", text)
    end = re.search(r"@available\([^\n]*\n@frozen @_staticExclusiveOnly public struct Mutex<", text)
    if start is None or end is None:
        raise SystemExit("error: Synchronization's interface has no Mutex as this script knows it")
    inlined = "  @_alwaysEmitIntoClient @_transparent "
    calls = "".join(
        f"{inlined}internal borrowing func {name} {{ os_unfair_lock_{call}(value._address) }}\n"
        for name, call in (("_lock()", "lock"), ("_tryLock() -> Swift.Bool", "trylock"), ("_unlock()", "unlock"))
    )
    handle = (
        f"{since}@frozen @_staticExclusiveOnly public struct _MutexHandle : ~Swift.Copyable {{\n"
        "  @usableFromInline internal let value: Synchronization._Cell<Darwin.os_unfair_lock>\n"
        f"{inlined}public init() {{ value = _Cell(os_unfair_lock()) }}\n}}\n"
        f"{since}extension Synchronization._MutexHandle {{\n{calls}}}\n"
    )
    return text[: start.start()] + handle + text[end.start() :]


def essentials(text: str, module: str, target: str) -> str:
    """What `swift-synthesize-interface` prints of FoundationEssentials, which has no interface, as one.

    What is left out (predicates, templates of URLs) nothing here names, and it does not survive being printed.
    """
    text = re.sub(r"(?m)^\s*///.*\n", "", text)
    text = re.sub(r"(?m)^import .*\n", "", text)
    text = re.sub(r"@inlinable |@inline\(__always\) |@usableFromInline ", "", text)
    text = re.sub(r"(internal|private|fileprivate|package)\(set\) ", "", text)
    # A printed variable that can be set has no accessors.
    text = re.sub(
        r"(?m)^(?P<line>[^/\n{}]*\b(?:var \w+|var `\w+`|subscript)\b[^{}\n]*)$", r"\g<line> { get set }", text
    )
    unwanted = re.compile(r"Predicate|URL\.Template|__RangeExpression")
    # An attribute that is not printed, without which a text is a parse input in two ways.
    text = re.sub(r"public init<T, Value>\(_ value: Value, strategy: T\)", r"@_disfavoredOverload \g<0>", text)
    text = "\n".join(chunk for chunk in _declarations(text) if not unwanted.search(chunk.split("{")[0]))
    members = re.compile(r"Predicate|VariableName|URL\.Template")
    text = "".join(
        line
        for line in text.splitlines(keepends=True)
        if not members.search(line) or line.count("{") != line.count("}")
    )
    # An attribute whose declaration went.
    text = re.sub(r"(?m)^\s*@available\([^\n]*\)\n(?=\})", "", text)
    flags = (
        f"// swift-module-flags: -target {target} -disable-objc-interop -enable-library-evolution -swift-version 6 "
        f"-module-name {module} -disable-availability-checking -enable-experimental-feature Lifetimes\n"
    )
    imports = "".join(f"import {name}\n" for name in ("Swift", "_Concurrency", "_StringProcessing", "Synchronization"))
    return COMPILER + flags + imports + "@_exported import Darwin\n" + text


def _declarations(text: str):
    """Declarations at the top, each with its attributes."""
    chunk, depth = "", 0
    for line in text.splitlines(keepends=True):
        if not chunk and not line.strip():
            continue
        chunk += line
        depth += line.count("{") - line.count("}")
        if depth == 0 and not line.startswith("@available") and line.strip():
            yield chunk
            chunk = ""
