// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import Synchronization
import Testing
import WireGuardCore

@testable import WireGuardDevice

@Suite("UAPI session")
struct UAPISessionTests {
    /// A session over a plain value in the device's place.
    private final class Recorder: Sendable {
        let updates = Mutex<[UAPIDeviceUpdate]>([])
        let answer = Mutex<UAPIErrno?>(nil)

        func session() -> UAPISession {
            UAPISession(
                state: {
                    var state = UAPIDeviceState()
                    state.listenPort = 51_820
                    return state
                },
                apply: { update in
                    self.updates.withLock { $0.append(update) }
                    return self.answer.withLock { $0 }
                })
        }
    }

    private func talk(_ session: inout UAPISession, _ text: String) -> (String, Bool) {
        var output: [UInt8] = []
        let bytes = Array(text.utf8)
        let goesOn = unsafe bytes.withUnsafeBytes { unsafe session.receive($0, replyingInto: &output) }
        return (String(decoding: output, as: UTF8.self), goesOn)
    }

    @Test("Get answers with the state and errno 0")
    func get() {
        var session = Recorder().session()
        let (reply, goesOn) = talk(&session, "get=1\n\n")
        #expect(reply == "listen_port=51820\nerrno=0\n\n")
        #expect(goesOn)
    }

    @Test("Two operations in one write get two replies, in order")
    func pipelined() {
        let recorder = Recorder()
        var session = recorder.session()
        let (reply, _) = talk(&session, "set=1\nlisten_port=7\n\nget=1\n\n")
        #expect(reply == "errno=0\n\nlisten_port=51820\nerrno=0\n\n")
        #expect(recorder.updates.withLock { $0.map(\.listenPort) } == [7])
    }

    @Test("Single bytes have the same result as one write")
    func dripped() {
        var session = Recorder().session()
        var whole = ""
        for byte in "set=1\nfwmark=9\n\nget=1\n\n".utf8 {
            whole += talk(&session, String(decoding: [byte], as: UTF8.self)).0
        }
        #expect(whole == "errno=0\n\nlisten_port=51820\nerrno=0\n\n")
    }

    @Test("An error in the middle changes nothing, is negative for set, and the connection continues")
    func errorInTheMiddle() {
        let recorder = Recorder()
        var session = recorder.session()
        let (reply, goesOn) = talk(&session, "set=1\nlisten_port=7\nlisten_port=70000\nfwmark=1\n\nget=1\n\n")
        #expect(reply.hasPrefix("errno=-"))
        #expect(reply.hasSuffix("listen_port=51820\nerrno=0\n\n"))
        #expect(goesOn)
        #expect(recorder.updates.withLock { $0.isEmpty })
    }

    @Test("An update that the device refuses gets a negative errno")
    func refused() {
        let recorder = Recorder()
        recorder.answer.withLock { $0 = .addressInUse }
        var session = recorder.session()
        #expect(talk(&session, "set=1\nlisten_port=7\n\n").0 == "errno=-\(UAPIErrno.addressInUse.number)\n\n")
    }

    @Test("The end of the connection ends an operation")
    func endOfFile() {
        let recorder = Recorder()
        var session = recorder.session()
        #expect(talk(&session, "set=1\nfwmark=3\n").0.isEmpty)
        var output: [UInt8] = []
        session.end(replyingInto: &output)
        #expect(String(decoding: output, as: UTF8.self) == "errno=0\n\n")
        #expect(recorder.updates.withLock { $0.map(\.fwMark) } == [3])
    }

    @Test("Thousands of operations in one write are answered in portions, all of them, in order")
    func portions() {
        var session = UAPISession(
            state: {
                var state = UAPIDeviceState()
                var peer = UAPIPeerState(publicKey: PublicKey(Bytes32(w0: 1, w1: 2, w2: 3, w3: 4)))
                peer.allowedIPs = (0..<1000).compactMap { IPPrefix(.v4(UInt32($0) << 8), length: 24) }
                state.peers = [peer]
                return state
            }, apply: { _ in nil })
        var output: [UInt8] = []
        let request = Array(String(repeating: "get=1\n\n", count: 500).utf8)
        #expect(unsafe request.withUnsafeBytes { unsafe session.receive($0, replyingInto: &output) } == true)
        var largest = output.count
        var total = output
        while session.hasMore {
            output = []
            #expect(session.resume(replyingInto: &output) == true)
            largest = max(largest, output.count)
            total += output
        }
        #expect(largest < ManagementLimits().replyBytes + 100_000)
        #expect(String(decoding: total, as: UTF8.self).split(separator: "\n").count { $0 == "errno=0" } == 500)
    }

    @Test("An operation that does not exist ends the connection")
    func unknownOperation() {
        var session = Recorder().session()
        #expect(talk(&session, "frobnicate=1\n\n").1 == false)
    }
}
