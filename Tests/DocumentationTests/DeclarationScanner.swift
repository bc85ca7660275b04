// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// A declaration in a file, at its top level or in a type.
struct ScannedDeclaration {
    /// The types around it.
    var path: [String]
    var name: String
    /// Whether it and the types around it in the file are public; an extension counts as public.
    var isPublic: Bool
    /// `nil` for a declaration without parameters.
    var parameters: [PublicDeclarations.Parameter]?
    /// The names of supertypes and protocols, of a type alias its type; `nil` for declarations that are not types.
    var parents: [String]?
    var isExtension = false
}

/// Finds the declarations in the tokens of a file, and skips the bodies of functions.
struct DeclarationScanner {
    /// The place of a declaration.
    private struct Scope {
        var path: [String] = []
        var isPublic = true
        /// Whether members without an access modifier are public.
        var impliesPublic = false
    }

    private let tokens: [SwiftToken]
    private var position = 0
    private var found: [ScannedDeclaration] = []

    private static let access: Set = ["public", "open", "package", "internal", "private", "fileprivate"]
    private static let types: Set = ["struct", "enum", "protocol", "class", "actor", "extension"]
    private static let modifiers: Set = [
        "static", "final", "class", "convenience", "required", "override", "mutating", "nonmutating", "lazy", "weak",
        "unowned",
        "indirect", "dynamic", "nonisolated", "isolated", "consuming", "borrowing", "prefix", "postfix", "infix",
        "unsafe", "safe",
    ]

    init(_ tokens: [SwiftToken]) { self.tokens = tokens }

    mutating func readAll() -> [ScannedDeclaration] {
        read(Scope())
        return found
    }

    // MARK: - Tokens

    private func peek(_ offset: Int = 0) -> SwiftToken? {
        position + offset < tokens.count ? tokens[position + offset] : nil
    }

    private func peekWord(_ offset: Int = 0) -> String? {
        if case .word(let word) = peek(offset) { word } else { nil }
    }

    private mutating func accept(_ symbol: String) -> Bool {
        guard peek() == .symbol(symbol) else { return false }
        position += 1
        return true
    }

    /// Skips a group in parentheses, brackets or braces, and returns the tokens in it.
    @discardableResult
    private mutating func skipGroup() -> ArraySlice<SwiftToken> {
        let start = position + 1
        var depth = 0
        while let token = peek() {
            position += 1
            switch token {
            case .symbol("("), .symbol("["), .symbol("{"): depth += 1
            case .symbol(")"), .symbol("]"), .symbol("}"): depth -= 1
            default: break
            }
            if depth == 0 { break }
        }
        return tokens[start..<max(start, position - 1)]
    }

    /// Skips `<…>`, if it is next.
    private mutating func skipGenerics() {
        guard peek() == .symbol("<") else { return }
        var depth = 0
        while let token = peek() {
            position += 1
            if token == .symbol("<") { depth += 1 }
            if token == .symbol(">") { depth -= 1 }
            if depth == 0 { return }
        }
    }

    // MARK: - Declarations

    /// Reads to the end of a type's body, or of the file.
    private mutating func read(_ scope: Scope) {
        var access: String?
        var previous: SwiftToken?
        while let token = peek() {
            defer { previous = token }
            switch token {
            case .symbol("}"):
                position += 1
                return
            case .symbol("{"), .symbol("("), .symbol("["): skipGroup()
            case .symbol("@"):
                position += 2
                while accept(".") { position += 1 }
                if peek() == .symbol("(") { skipGroup() }
            case .word(let word) where previous != .symbol("."):
                position += 1
                if Self.access.contains(word) {
                    // `private(set)` concerns the setter alone.
                    if peek() == .symbol("(") { skipGroup() } else { access = word }
                } else if !readDeclaration(word, access, scope), Self.modifiers.contains(word) {
                    if peek() == .symbol("(") { skipGroup() }
                } else {
                    access = nil
                }
            default:
                position += 1
                access = nil
            }
        }
    }

    /// Reads the declaration that a keyword begins, and returns `false` if the word does not begin one.
    private mutating func readDeclaration(_ keyword: String, _ access: String?, _ scope: Scope) -> Bool {
        let isDeclaredPublic = access.map { $0 == "public" || $0 == "open" } ?? scope.impliesPublic
        let isPublic = scope.isPublic && isDeclaredPublic
        func add(_ name: String, _ parameters: [PublicDeclarations.Parameter]? = nil) {
            found.append(
                ScannedDeclaration(path: scope.path, name: name, isPublic: isPublic, parameters: parameters))
        }
        switch keyword {
        case _ where Self.types.contains(keyword):
            guard let name = peekWord(), !["func", "var", "let", "subscript"].contains(name),
                !Self.access.contains(name)
            else { return false }
            readType(keyword, isPublic: isPublic, scope)
        case "func":
            if let name = peekWord() {
                position += 1
                skipGenerics()
                add(name, readParameters())
            } else {
                // An operator has no name that a guide could list.
                while let token = peek(), token != .symbol("(") { position += 1 }
            }
        case "init":
            if !accept("?") { _ = accept("!") }
            skipGenerics()
            add("init", readParameters())
        case "subscript": add("subscript")
        case "var", "let":
            repeat {
                guard let name = peekWord() else { break }
                position += 1
                add(name)
            } while accept(",")
        case "case":
            // A case is as public as its type.
            repeat {
                guard let name = peekWord() else { break }
                position += 1
                let parameters = peek() == .symbol("(") ? readParameters(ofCase: true) : nil
                found.append(
                    ScannedDeclaration(
                        path: scope.path, name: name, isPublic: scope.isPublic, parameters: parameters))
                if accept("=") {
                    _ = accept("-")
                    position += 1
                }
            } while accept(",")
        case "typealias", "associatedtype":
            guard let name = peekWord() else { return false }
            position += 1
            skipGenerics()
            var parents: [String] = []
            if accept("="), let target = readTypeName() { parents = [target] }
            found.append(
                ScannedDeclaration(
                    path: scope.path, name: name, isPublic: isPublic, parameters: nil, parents: parents))
        default: return false
        }
        return true
    }

    private mutating func readType(_ keyword: String, isPublic: Bool, _ scope: Scope) {
        guard let name = readTypeName() else { return }
        var parents: [String] = []
        skipGenerics()
        if accept(":") {
            while let token = peek(), token != .symbol("{"), token != .word("where") {
                if case .word = token, let parent = readTypeName() {
                    parents.append(parent)
                    skipGenerics()
                } else if token == .symbol("(") {
                    skipGroup()
                } else {
                    position += 1
                }
            }
        }
        while let token = peek(), token != .symbol("{") { position += 1 }
        position += 1
        let names = name.split(separator: ".").map(String.init)
        let path = scope.path + names
        let isExtension = keyword == "extension"
        found.append(
            ScannedDeclaration(
                path: Array(path.dropLast()), name: path.last ?? name, isPublic: isPublic || isExtension,
                parameters: nil,
                parents: parents, isExtension: isExtension))
        read(
            Scope(
                path: path, isPublic: isPublic || isExtension,
                impliesPublic: isPublic && (keyword == "protocol" || isExtension)))
    }

    /// Reads `Name` or `Outer.Name`.
    private mutating func readTypeName() -> String? {
        guard var name = peekWord() else { return nil }
        position += 1
        if name == "any" || name == "some" { return readTypeName() }
        while peek() == .symbol("."), let next = peekWord(1) {
            name += ".\(next)"
            position += 2
        }
        return name
    }

    /// Reads the parameters of a function, or the associated values of a case.
    private mutating func readParameters(ofCase: Bool = false) -> [PublicDeclarations.Parameter] {
        guard peek() == .symbol("(") else { return [] }
        var parameters: [[SwiftToken]] = [[]]
        var depth = 0
        for token in skipGroup() {
            switch token {
            case .symbol("("), .symbol("["), .symbol("{"), .symbol("<"): depth += 1
            case .symbol(")"), .symbol("]"), .symbol("}"), .symbol(">"): depth -= 1
            default: break
            }
            if token == .symbol(","), depth == 0 {
                parameters.append([])
            } else {
                parameters[parameters.count - 1].append(token)
            }
        }
        return parameters.filter { !$0.isEmpty }.map { tokens in
            // An attribute of a parameter precedes its label.
            var rest = tokens[...]
            while rest.first == .symbol("@") { rest = rest.dropFirst(2) }
            var label = "_"
            if case .word(let word) = rest.first { label = word }
            // `case failed(any Error)` and `case pair(Int, Int)` have no labels.
            if ofCase, rest.dropFirst().first != .symbol(":") { label = "_" }
            return PublicDeclarations.Parameter(label: label, hasDefault: tokens.contains(.symbol("=")))
        }
    }
}
