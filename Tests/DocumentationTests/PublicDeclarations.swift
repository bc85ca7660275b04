// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The public declarations of Swift files: names and parameter labels, without types.
///
/// The text is scanned, not compiled. A member is public if it is declared so, or is a requirement of a public protocol, a case
/// of a public enumeration, or in an extension that is declared public.
struct PublicDeclarations {
    struct Parameter {
        var label: String
        var hasDefault: Bool
    }

    private struct TypeDeclaration {
        /// Whether it is declared in the files, and not only extended.
        var isDeclared = false
        var isPublic = false
        /// The names of its supertypes, of its protocols or, of a type alias, of its type.
        var parents: [String] = []
    }

    /// Names with their parameters, `nil` for a name without any, by the full name of their type, which is empty at the top level.
    private var members: [String: [String: [[Parameter]?]]] = [:]
    private var types: [String: TypeDeclaration] = [:]
    private var modules: Set<String> = []
    /// The names in C headers that begin with `culvert_`.
    private var cNames: Set<String> = []

    /// Adds a file of a module.
    mutating func add(_ text: String, of module: String) {
        modules.insert(module)
        var scanner = DeclarationScanner(SwiftToken.tokens(of: text))
        for declaration in scanner.readAll() {
            if let parents = declaration.parents {
                let name = (declaration.path + [declaration.name]).joined(separator: ".")
                types[name, default: TypeDeclaration()].parents += parents
                // An extension does not determine whether its type is public.
                guard !declaration.isExtension else { continue }
                types[name]?.isDeclared = true
                if declaration.isPublic { types[name]?.isPublic = true }
            }
            guard declaration.isPublic else { continue }
            let path = declaration.path.joined(separator: ".")
            members[path, default: [:]][declaration.name, default: []].append(declaration.parameters)
        }
    }

    /// Adds a C header.
    mutating func add(header text: String) {
        for case .word(let word) in SwiftToken.tokens(of: text) where word.hasPrefix("culvert_") { cNames.insert(word) }
    }

    /// Whether a name exists: a module, `Type`, `Type.member`, `function(label:)`, `Type.function(label:)`, `Type(label:)` for
    /// an initialiser, or `.member` of any type. Parameters with defaults may be omitted.
    func contains(_ text: String) -> Bool {
        guard let name = Name(text) else { return false }
        var path = name.path
        // A C function has no labels: `f` and `f()` name it.
        if path.count == 1, cNames.contains(path[0]) { return name.labels?.isEmpty ?? true }
        if path.first == "" {
            guard path.count == 2 else { return false }
            return members.contains { !$0.key.isEmpty && Self.matches($0.value[path[1]] ?? [], name.labels) }
        }
        if let first = path.first, modules.contains(first) {
            path.removeFirst()
            // Provisioning is a module, and the prefix of types.
            if path.isEmpty { return name.labels == nil }
        }
        let parent = path.dropLast().joined(separator: ".")
        guard let last = path.last else { return false }
        if member(last, of: parent, labels: name.labels) { return true }
        // A call of a type is a call of its initialiser.
        return name.labels != nil && isPublic(path.joined(separator: "."))
            && member("init", of: path.joined(separator: "."), labels: name.labels)
    }

    private func isPublic(_ type: String) -> Bool {
        // Each type around it must be public too. Types of other packages are only extended here.
        let parts = type.split(separator: ".").map(String.init)
        return parts.indices.allSatisfy { index in
            types[parts[...index].joined(separator: ".")].map { $0.isPublic || !$0.isDeclared } ?? false
        }
    }

    private func member(_ name: String, of type: String, labels: [String]?, visited: Set<String> = []) -> Bool {
        guard !visited.contains(type), type.isEmpty || isPublic(type) else { return false }
        if Self.matches(members[type]?[name] ?? [], labels) { return true }
        return (types[type]?.parents ?? []).contains { parent in
            candidates(parent, in: type).contains {
                member(name, of: $0, labels: labels, visited: visited.union([type]))
            }
        }
    }

    /// The full names that a name in a type's declaration may have.
    private func candidates(_ name: String, in type: String) -> [String] {
        let parts = type.split(separator: ".").map(String.init)
        let full = (0...parts.count).map { (parts[..<$0] + [name]).joined(separator: ".") }
        return full.filter { types[$0] != nil }
    }

    private static func matches(_ declarations: [[Parameter]?], _ labels: [String]?) -> Bool {
        guard let labels else { return !declarations.isEmpty }
        return declarations.contains { $0.map { accepts(labels, $0) } ?? false }
    }

    /// Whether a call with these labels is possible.
    private static func accepts(_ labels: [String], _ parameters: [Parameter]) -> Bool {
        var rest = labels[...]
        for parameter in parameters {
            if rest.first == parameter.label {
                rest.removeFirst()
            } else if !parameter.hasDefault {
                return false
            }
        }
        return rest.isEmpty
    }

    /// A name in the form of the guides.
    struct Name {
        /// The types around it, and its own name. The first part is empty for `.member`.
        var path: [String]
        /// The labels, `_` for a parameter without one; `nil` without parentheses.
        var labels: [String]?

        /// Returns `nil` if the text does not have the form of a name.
        init?(_ text: String) {
            var base = text[...]
            if let start = text.firstIndex(of: "(") {
                guard text.last == ")" else { return nil }
                base = text[..<start]
                let list = text[text.index(after: start)...].dropLast()
                guard list.isEmpty || list.last == ":" else { return nil }
                let labels = list.split(separator: ":").map(String.init)
                guard labels.allSatisfy(Self.isIdentifier) else { return nil }
                self.labels = labels
            }
            if let start = base.firstIndex(of: "<") {
                // `Type<Generic>`, which no member follows.
                guard base.last == ">" else { return nil }
                base = base[..<start]
            }
            path = base.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
            let parts = path.first == "" ? path[1...] : path[...]
            guard !parts.isEmpty, parts.allSatisfy(Self.isIdentifier) else { return nil }
        }

        private static func isIdentifier(_ text: String) -> Bool {
            text.first?.isNumber == false && text.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" }
        }
    }
}
