// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses

// The article NetworkAddresses
func addresses() throws -> ([Endpoint], InterfaceAddress, Bool) {
    let server = try Endpoint("192.0.2.1:51820")
    let other = Endpoint(address: .v4(192, 0, 2, 2), port: 51_820)
    let address = try InterfaceAddress("10.0.0.2/24")
    let network = try IPPrefix("2001:db8::/32")
    let isInside = network.contains(try IPAddress("2001:db8::7"))
    return ([server, other], address, isInside)
}
