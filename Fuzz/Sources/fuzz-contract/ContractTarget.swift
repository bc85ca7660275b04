// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import WireGuardCore

@testable import Provisioning

/// The messages between gateways and devices, the grant first: a message that was read can be written and then means the
/// same, and a device can apply it.
func fuzzContract(_ bytes: [UInt8]) {
    var input = ByteReader(bytes)
    let kind = input.byte()
    let rest = input.rest()
    switch kind % 8 {
    case 0, 1: grant(rest)
    case 2: check(EnrolmentRequest.self, rest)
    case 3: check(RotationNonce.self, rest)
    case 4: check(RotationRequest.self, rest)
    case 5: check(DeviceList.self, rest)
    case 6: check(ProblemDetails.self, rest)
    default: addKey(rest)
    }
}

@discardableResult
private func check<Message: ContractMessage>(_: Message.Type, _ body: [UInt8]) -> Message? {
    guard let message = try? Message(body: body) else { return nil }
    let written = message.body
    let text = String(decoding: written, as: UTF8.self)
    require(!written.isEmpty, "a \(Message.self) cannot be written")
    guard let again = try? Message(body: written) else { finding("what was written cannot be read:\n\(text)") }
    require(again == message, "what was written means something else:\n\(text)")
    return message
}

private func grant(_ body: [UInt8]) {
    guard let grant = check(EnrolmentGrant.self, body) else { return }
    require((1...2).contains(grant.addresses.count), "a device has \(grant.addresses.count) addresses")
    require(!grant.servers.isEmpty, "a device has no server")
    for server in grant.servers { require(!server.endpoints.isEmpty, "a server is nowhere") }
    let least = grant.addresses.contains(where: \.isIPv6) ? 1280 : 576
    require((least...65_535).contains(grant.mtu), "an interface of \(grant.mtu) bytes")
    require(grant.renewAfterSeconds > 0, "a device renews all the time")
    // Nothing but addresses, names and keys goes into a file for wg-quick, whose lines could be commands.
    for text in grant.searchDomains {
        require(text.utf8.allSatisfy { $0 > 32 && $0 < 127 }, "a search domain of other signs: \(text)")
    }
    guard (try? grant.checkAddresses(allowsLoopback: false)) != nil else { return }
    require((try? grant.checkAddresses(allowsLoopback: true)) != nil, "a stricter check passes and the other does not")
    let endpoints = grant.servers.flatMap(\.endpoints).compactMap(\.endpoint?.address)
    for address in endpoints + grant.dns {
        require(
            !address.isLoopback && !address.isMulticast && !address.isUnspecified && !address.isBroadcast,
            "a device would ask \(address)")
    }
}

private let key: PublicKey? = PublicKey(base64: "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=")

/// PIA's reply.
private func addKey(_ body: [UInt8]) {
    guard let key else { finding("there is no key") }
    guard let reply = try? AddKeyReply(ProvisioningReply(status: 200, body: body), for: key) else { return }
    require(reply.serverKey != key && reply.endpoint.port > 0, "a server with our key, or without a port")
    require(!reply.address.address.isUnspecified && !reply.address.address.isMulticast, "an address no device has")
}
