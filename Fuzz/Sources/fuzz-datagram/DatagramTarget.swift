// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnelTesting
import WireGuardCore

/// Datagrams from any source to engines with live sessions: nothing is delivered that was not sent, nothing twice, and at the
/// end genuine packets still arrive.
///
/// The input is two bytes of settings and then a script, step after step: raw bytes, edited and repeated genuine datagrams
/// (with a valid mac1 if requested), genuine traffic, time, and changes of configuration.
func fuzzDatagram(_ bytes: [UInt8]) {
    var input = ByteReader(bytes)
    let setting = input.byte()
    _ = input.byte()
    let world = World(isUnderLoad: setting & 1 != 0, hasSession: setting & 2 == 0, hasGuest: setting & 4 != 0)
    var steps = 0
    while !input.isAtEnd, steps < 96 {
        steps += 1
        let step = input.choice(of: 11)
        // Steps of the attacker gather in one batch until something else happens.
        if step != 0, step != 1, step != 5 { world.flush() }
        switch step {
        case 0:
            let place = input.byte()
            world.attack(input.take(min(input.short(), 2048)), place: place)
        case 1: edit(&input, world)
        case 2:
            let root = Int(input.byte())
            world.advance(by: .milliseconds(root * root * 10))
        case 3: world.send(from: world.gateway, to: world.friend, count: input.short() % 1500)
        case 4: world.send(from: world.friend, to: world.gateway, count: input.short() % 1500)
        case 5:
            let index = Int(input.byte())
            let place = input.byte()
            guard !world.captured.isEmpty else { break }
            world.attack(world.captured[index % world.captured.count].bytes, place: place)
        case 6: world.exchange()
        case 7: reconfigure(&input, world)
        case 8: world.flush()
        case 9: world.send(from: world.guest, to: world.gateway, count: input.short() % 1500)
        default: world.send(from: world.stranger, to: world.gateway, count: 40)
        }
    }
    world.flush()
    world.checkUsable(withGuest: setting & 4 != 0)
}

/// Sends a genuine datagram with changes.
private func edit(_ input: inout ByteReader, _ world: World) {
    let index = Int(input.byte())
    let place = input.byte()
    let edits = input.choice(of: 16)
    guard !world.captured.isEmpty else { return }
    var bytes = world.captured[index % world.captured.count].bytes
    for _ in 0..<edits {
        let offset = input.short() % bytes.count
        bytes[offset] ^= input.byte()
    }
    let finish = input.byte()
    if finish & 2 != 0 { bytes.removeLast(min(Int(finish >> 3), bytes.count)) }
    if finish & 4 != 0 { bytes += [UInt8](repeating: finish, count: Int(finish >> 3)) }
    if finish & 1 != 0, bytes.count == 148 || bytes.count == 92 {
        Mac1.fix(&bytes, to: world.target(place).publicKey)
    }
    world.attack(bytes, place: place)
}

/// Changes the gateway's configuration in the middle of everything.
private func reconfigure(_ input: inout ByteReader, _ world: World) {
    let gateway = world.gateway
    let now = world.clock.now
    let wall = world.clock.wall
    switch input.choice(of: 9) {
    case 0: gateway.engine.removePeer(world.guest.publicKey)
    case 1: gateway.engine.removePeer(world.friend.publicKey)
    case 2: world.addFriend()
    case 3: world.addGuest()
    case 4:
        gateway.engine.setPresharedKey(PresharedKey(bytes: Array(repeating: 1, count: 32)), of: world.guest.publicKey)
    case 5: gateway.engine.setUp(input.byte() & 1 == 1, at: now, wall: wall)
    case 6:
        let peer = input.byte() & 1 == 0 ? world.friend : world.guest
        gateway.engine.setPersistentKeepalive(UInt16(input.byte()), of: peer.publicKey, at: now, wall: wall)
    case 7: gateway.engine.setPrivateKey(gateway.engine.privateKey)
    default: gateway.engine.forgetEndpointSources()
    }
}
