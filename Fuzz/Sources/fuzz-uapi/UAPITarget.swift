// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnelTesting
import WireGuardCore

/// UAPI text: the result does not depend on how the text is split, a parsed update can be written, and a device that applied
/// it reports a state that can be parsed and describes the same device.
func fuzzUAPI(_ bytes: [UInt8]) {
    var input = ByteReader(bytes)
    let seed = input.short()
    let flags = input.byte()
    let text = input.rest()
    // Small limits are reached by small inputs.
    let lineLimit = flags & 1 == 0 ? UAPIRequestParser.defaultMaximumLineLength : 100
    let requestLimit = flags & 2 == 0 ? UAPIRequestParser.defaultMaximumRequestLength : 400

    let whole = parse(text, chunks: { $0 }, lineLimit, requestLimit)
    var random = SeededGenerator(seed: UInt64(seed))
    let largest = 1 + Int(flags >> 3)
    let pieces = parse(text, chunks: { min($0, random.int(in: 1...largest)) }, lineLimit, requestLimit)
    require(whole.count == pieces.count, "\(whole.count) results whole, \(pieces.count) in pieces")
    for (one, other) in zip(whole, pieces) { require(isSame(one, other), "whole: \(one)\nin pieces: \(other)") }

    apply(whole, isUp: flags & 4 != 0)
}

private func parse(
    _ text: [UInt8], chunks: (Int) -> Int, _ lineLimit: Int, _ requestLimit: Int
) -> [Result<UAPIOperation, UAPIError>] {
    var parser = UAPIRequestParser(
        maximumLineLength: lineLimit, maximumRequestLength: requestLimit, resolveZone: resolveZone)
    var results: [Result<UAPIOperation, UAPIError>] = []
    var position = 0
    while position < text.count {
        let end = position + chunks(text.count - position)
        parser.feed(Array(text[position..<end]))
        while let result = parser.next() { results.append(result) }
        position = end
    }
    parser.finish()
    while let result = parser.next() { results.append(result) }
    return results
}

/// Whether two results are equal. The shown part of a line that is too long depends on how much of it had arrived.
private func isSame(_ one: Result<UAPIOperation, UAPIError>, _ other: Result<UAPIOperation, UAPIError>) -> Bool {
    guard case .failure(let a) = one, case .failure(let b) = other, a.reason.hasPrefix("the line has more than") else {
        return one == other
    }
    return a.errno == b.errno && a.operation == b.operation && a.line == b.line && a.reason == b.reason
}

/// Zones by number, and one by name.
@Sendable
private func resolveZone(_ name: String) -> UInt32? { name == "eth0" ? 2 : UInt32(name) }

private func apply(_ results: [Result<UAPIOperation, UAPIError>], isUp: Bool) {
    var now = Instant(nanoseconds: 1_000_000_000)
    var wall = WallTime(seconds: 1_700_000_000)
    var engine = Engine(random: SeededGenerator(seed: 1))
    if isUp { engine.setUp(true, at: now, wall: wall) }
    for result in results.prefix(16) {
        switch result {
        case .failure(let error):
            require(error.line >= 1, "an error without place: \(error)")
            require(!error.reason.isEmpty && !error.fix.isEmpty, "an error without reason or fix")
            let reply = UAPIReply.status(error.errno, answering: error.operation)
            require(UAPIReply.errno(in: reply) == error.errno.number, "the reply says another error")
        case .success(.get):
            checkState(engine.uapiState)
        case .success(.set(let update)):
            checkRequest(update)
            engine.apply(update, at: now, wall: wall)
            checkState(engine.uapiState)
            checkPeers(engine, update)
            _ = engine.drainAll(at: now, wall: wall)
            now = now + .seconds(1)
            wall.seconds += 1
            engine.deadlineReached(at: now, wall: wall)
        }
    }
}

/// A parsed update can be written, and is then parsed to the same value.
private func checkRequest(_ update: UAPIDeviceUpdate) {
    var request: [UInt8] = []
    update.appendRequest(to: &request)
    var parser = UAPIRequestParser(resolveZone: resolveZone)
    parser.feed(request)
    guard case .success(.set(let again))? = parser.next() else {
        finding("cannot read what was written: \(String(decoding: request, as: UTF8.self))")
    }
    require(again == update, "write and read changes it: \(String(decoding: request, as: UTF8.self))")
}

/// The reply to `get` describes the state completely.
private func checkState(_ state: UAPIDeviceState) {
    var reply: [UInt8] = []
    state.appendReply(to: &reply)
    do {
        let again = try UAPIDeviceState(reply: reply, resolveZone: resolveZone)
        require(again == state, "get and read changes it: \(String(decoding: reply, as: UTF8.self))")
    } catch {
        finding("cannot read the reply: \(error)")
    }
    require(Set(state.peers.map(\.publicKey)).count == state.peers.count, "a peer is listed twice")
    let prefixes = state.peers.flatMap(\.allowedIPs)
    require(Set(prefixes).count == prefixes.count, "a network belongs to two peers")
}

/// The device has the peers of its last update, and routes their allowed IPs.
private func checkPeers(_ engine: borrowing Engine, _ update: UAPIDeviceUpdate) {
    guard let last = update.peers.last else { return }
    guard !last.remove else {
        require(!engine.hasPeer(last.publicKey), "a removed peer is still there")
        return
    }
    guard last.publicKey != engine.publicKey else {
        require(!engine.hasPeer(last.publicKey), "a device is its own peer")
        return
    }
    require(last.updateOnly || engine.hasPeer(last.publicKey), "a peer is missing")
    guard engine.hasPeer(last.publicKey), case .add(let prefix)? = last.allowedIPs.last else { return }
    require(
        engine.peer(routing: prefix.address) != nil, "a network that was just given away leads nowhere")
}
