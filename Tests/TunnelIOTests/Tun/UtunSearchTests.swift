// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing

@testable import TunnelIO

@Suite("Search for a utun socket")
struct UtunSearchTests {
    private let system = FakeSearchSystem(
        sockets: [
            5: .init(control: 9, name: nil), 7: .init(control: 3, name: "utun0"), 12: .init(control: 3, name: "utun4"),
            13: .init(control: 3, name: "utun4"), 20: .init(control: 8, name: "utun9"),
            30: .init(control: 3, name: "utun6", isAnswering: false),
        ], indices: ["utun0": 11, "utun4": 17, "utun9": 19, "utun6": 21])

    @Test("The interface is found by name and by index, not by the lowest number")
    func found() throws {
        #expect(try UtunSearch.find(.name("utun4"), system: system) == 12)
        #expect(try UtunSearch.find(.index(17), system: system) == 12)
        #expect(try UtunSearch.find(.name("utun0"), system: system) == 7)
    }

    @Test("A tunnel's socket is found by its interface's name only, even if the process has a single utun socket")
    func ofTunnel() throws {
        #expect(try UtunSearch.find(ofTunnel: "utun4", system: system) == 12)
        let foreign = FakeSearchSystem(sockets: [5: .init(control: 3, name: "utun3")], indices: ["utun3": 8])
        #expect(try UtunSearch.find(.only, system: foreign) == 5)
        for name in ["utun4", nil] {
            let error = #expect(throws: TunnelIOError.self) { try UtunSearch.find(ofTunnel: name, system: foreign) }
            guard case .deviceNotFound = error?.code else {
                Issue.record("\(String(describing: error))")
                return
            }
        }
    }

    @Test("Several utun devices are refused if none is specified")
    func ambiguous() throws {
        let error = #expect(throws: TunnelIOError.self) { try UtunSearch.find(.only, system: system) }
        #expect(
            error?.code
                == .deviceNotFound(
                    reason: "this process has several, utun0, utun4; specify one by its name or index"))
        let single = FakeSearchSystem(
            sockets: [12: .init(control: 3, name: "utun4"), 13: .init(control: 3, name: "utun4")], indices: [:])
        #expect(try UtunSearch.find(.only, system: single) == 12)
    }

    @Test(
        "A descriptor of another process or control, or one that does not answer, is not found",
        arguments: [
            UtunSearch.Wanted.name("utun1"), .name(""), .index(0), .index(99),
            .name("utun9"), .index(19), .name("utun6"), .index(21),
        ])
    func absent(_ wanted: UtunSearch.Wanted) throws {
        let error = #expect(throws: TunnelIOError.self) { try UtunSearch.find(wanted, system: system) }
        #expect("\(try #require(error))".contains("utun0, utun4"))
    }

    @Test("A process without a utun socket gets an error", arguments: [Int32(-1), 0, 4096, .max])
    func none(_ limit: Int32) {
        let empty = FakeSearchSystem(sockets: [:], indices: [:], limit: limit)
        let error = #expect(throws: TunnelIOError.self) { try UtunSearch.find(.only, system: empty) }
        guard case .deviceNotFound = error?.code else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test("Numbers beyond the limit are not checked")
    func limit() throws {
        var limited = system
        limited.limit = 8
        #expect(try UtunSearch.find(.only, system: limited) == 7)
        #expect(throws: TunnelIOError.self) { try UtunSearch.find(.name("utun4"), system: limited) }
    }
}

/// The utun control's id is 3.
private struct FakeSearchSystem: UtunSearchSystem {
    struct Socket {
        var control: UInt32
        var name: String?
        var isAnswering = true
    }
    var sockets: [Int32: Socket]
    var indices: [String: UInt32]
    var limit: Int32 = 256

    func controlID(of descriptor: Int32) -> UInt32? { sockets[descriptor]?.control }
    func utunControlID(through descriptor: Int32) -> UInt32? { sockets[descriptor]?.isAnswering == true ? 3 : nil }
    func interfaceName(of descriptor: Int32) -> String? { sockets[descriptor]?.name }
    func interfaceIndex(of name: String) -> UInt32 { indices[name] ?? 0 }
    func descriptorLimit() -> Int32 { limit }
}
