// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NetworkAddresses
import PacketTunnel
import Provisioning

extension ProvisioningServer {
    /// The address to connect to, as `address:port`, or `nil` if the name is resolved.
    var place: String? { address.map { Endpoint(address: $0, port: port).description } }
}

extension ProvisioningRequest {
    /// The value of the `Authorization` field. The memory of the text is not overwritten after use.
    var authorization: String? { bearer.map { "Bearer " + String(decoding: $0.bytes, as: UTF8.self) } }
}
