// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

/// An element of a set of pairs.
struct PrefixPair: Hashable {
    var first: IPPrefix
    var second: IPPrefix

    init(_ first: IPPrefix, _ second: IPPrefix) { (self.first, self.second) = (first, second) }
}

/// The content of a table's sets and maps.
struct TableContents: Equatable {
    /// The elements of each set or map. A map's element has its chain; an element of a set, or one with another
    /// verdict, has an empty string. A set without elements is left out.
    var elements: [String: [IPPrefix: String]] = [:]
    /// The elements of each set or map that are not a prefix: ranges of addresses, in nft's notation.
    var others: [String: Set<String>] = [:]
    /// The elements of each set of pairs of prefixes.
    var pairs: [String: Set<PrefixPair>] = [:]

    init() {}

    /// - Parameter listing: the output of `nft list table`, which may be long.
    init(listing: String) {
        var name: String?
        var isInside = false
        for line in listing.utf8.split(separator: UInt8(ascii: "\n")) {
            var rest = line.drop { ASCII.isSpace($0) }
            if line.first == Self.tab, line.dropFirst().first != Self.tab {
                (name, isInside) = (Self.name(rest), false)
                continue
            }
            guard let set = name else { continue }
            if !isInside, rest.starts(with: Self.dynamic) {
                // The kernel itself changes the elements.
                name = nil
                continue
            }
            if rest.starts(with: Self.opening) {
                rest = rest.dropFirst(Self.opening.count)
                isInside = true
            }
            guard isInside else { continue }
            for element in rest.split(separator: UInt8(ascii: ",")) { addElement(element, in: set) }
        }
    }

    /// The content of the named sets and maps.
    func only(_ names: Set<String>) -> TableContents {
        var contents = TableContents()
        contents.elements = elements.filter { names.contains($0.key) }
        contents.others = others.filter { names.contains($0.key) }
        contents.pairs = pairs.filter { names.contains($0.key) }
        return contents
    }

    private static let tab = UInt8(ascii: "\t")
    private static let dynamic = Array("flags dynamic".utf8)
    private static let opening = Array("elements = {".utf8)
    private static let separator = Array(" : ".utf8)
    private static let goto = Array("goto ".utf8)
    private static let concatenation = Array(" . ".utf8)

    /// The name of a set or map whose first line this is.
    private static func name(_ line: Substring.UTF8View) -> String? {
        let words = line.split(separator: UInt8(ascii: " "))
        guard words.count == 3, words[0].elementsEqual("map".utf8) || words[0].elementsEqual("set".utf8) else {
            return nil
        }
        return String(words[1])
    }

    /// `10.66.0.2 : goto client`, `10.0.0.0/8`, or `10.66.0.2 . 192.168.7.0/24`.
    private mutating func addElement(_ text: Substring.UTF8View, in name: String) {
        let element = text.drop { ASCII.isSpace($0) }.prefix { $0 != UInt8(ascii: "}") }
        let bytes = Array(element)
        guard let end = bytes.lastIndex(where: { !ASCII.isSpace($0) }) else { return }
        let whole = bytes[...end]
        let space = whole.firstIndex(of: UInt8(ascii: " ")) ?? whole.endIndex
        guard let key = try? IPPrefix(utf8: Array(whole[..<space]).span) else {
            others[name, default: []].insert(String(decoding: whole, as: UTF8.self))
            return
        }
        if whole[space...].starts(with: Self.concatenation),
            let second = try? IPPrefix(utf8: Array(whole[space...].dropFirst(Self.concatenation.count)).span)
        {
            pairs[name, default: []].insert(PrefixPair(key, second))
            return
        }
        var chain = ""
        let verdict = whole[space...]
        if verdict.starts(with: Self.separator), verdict.dropFirst(Self.separator.count).starts(with: Self.goto) {
            chain = String(decoding: verdict.dropFirst(Self.separator.count + Self.goto.count), as: UTF8.self)
        }
        elements[name, default: [:]][key] = chain
    }
}
