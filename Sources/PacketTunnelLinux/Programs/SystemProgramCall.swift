// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import TunnelSystem

/// A run of one of the system's programs, in one of the forms that a tunnel needs.
struct SystemProgramCall: Codable, Sendable, Equatable {
    var program: String
    var arguments: [String]
    var seconds: Int
    var outputLimit: Int

    /// Returns the reason to refuse the call, or `nil` if the tunnel may make it.
    func problem(for tunnel: String, input: [UInt8]) -> String? {
        guard (1...120).contains(seconds), (0...ProgramFrame.mostBytes).contains(outputLimit) else { return "bounds" }
        guard arguments.count <= 512, arguments.allSatisfy({ $0.utf8.count <= 1024 }) else { return "length" }
        let forms = Self.forms[program] ?? []
        guard let form = forms.first(where: { $0.takes(arguments[...], tunnel) }) else { return "arguments" }
        guard form.input.takes(input) else { return "input" }
        return nil
    }

    /// A permitted form of a program's arguments.
    struct Form {
        enum Word {
            case word(String)
            /// The tunnel's interface.
            case interface
            /// The tunnel's firewall table.
            case table
            /// The tunnel's label in resolvconf: its interface, optionally after a word and a dot.
            case label
            /// The label of any interface in resolvconf.
            case anyLabel
            /// Any number of names.
            case names
        }

        enum Input {
            case none
            /// Firewall rules that do not read files.
            case rules
            /// The text of resolv.conf(5) without comments.
            case nameServers

            func takes(_ bytes: [UInt8]) -> Bool {
                switch self {
                case .none: return bytes.isEmpty
                case .rules:
                    guard bytes.allSatisfy({ $0 == 9 || $0 == 10 || (32...126).contains($0) }) else { return false }
                    return !String(decoding: bytes, as: UTF8.self).contains("include")
                case .nameServers:
                    return String(decoding: bytes, as: UTF8.self).split(separator: "\n").allSatisfy { line in
                        (line.hasPrefix("nameserver ") || line.hasPrefix("search "))
                            && line.split(separator: " ").dropFirst().allSatisfy { Form.isName($0) }
                    }
                }
            }
        }

        var words: [Word]
        var input = Input.none

        func takes(_ arguments: ArraySlice<String>, _ tunnel: String) -> Bool {
            var rest = arguments
            for word in words {
                if case .names = word { return rest.allSatisfy { $0.isEmpty || Self.isName($0) } }
                guard let argument = rest.popFirst() else { return false }
                switch word {
                case .word(let text): guard argument == text else { return false }
                case .interface: guard argument == tunnel else { return false }
                case .table: guard argument == LeakGuard.tableName(tunnel) else { return false }
                case .label:
                    guard argument == tunnel || (argument.hasSuffix("." + tunnel) && Self.isName(argument)) else {
                        return false
                    }
                case .anyLabel: guard Self.isName(argument) else { return false }
                case .names: return false
                }
            }
            return rest.isEmpty
        }

        /// Whether a text is an address, a domain or a label, which cannot form a shell script, an option or a path.
        static func isName(_ text: some StringProtocol) -> Bool {
            guard let first = text.utf8.first, first != UInt8(ascii: "-"), text.utf8.count <= 255 else { return false }
            return text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "A")...UInt8(ascii: "Z"):
                    true
                default: ".:%_=+~-".utf8.contains(byte)
                }
            }
        }
    }

    private static func words(_ texts: String...) -> [Form.Word] { texts.map { .word($0) } }

    private static let forms: [String: [Form]] = [
        "nft": [
            Form(words: words("-f", "-"), input: .rules),
            Form(words: words("--stateless", "list", "table", "inet") + [.table]),
            Form(words: words("list", "tables")),
        ],
        "resolvectl": [
            Form(words: words("dns")),
            Form(words: words("dns") + [.interface, .names]),
            Form(words: words("domain") + [.interface, .names]),
            Form(words: words("default-route") + [.interface, .word("true")]),
            Form(words: words("default-route") + [.interface, .word("false")]),
            Form(words: words("revert") + [.interface]),
        ],
        "resolvconf": [
            Form(words: words("--version")), Form(words: words("-i")), Form(words: words("-u")),
            Form(words: words("-l") + [.anyLabel]),
            Form(words: words("-a") + [.label], input: .nameServers),
            Form(words: words("-a") + [.label] + words("-m", "0", "-x"), input: .nameServers),
            Form(words: words("-d") + [.label]),
            Form(words: words("-d") + [.label] + words("-f")),
        ],
    ]
}
