// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkAddresses

/// Lets tests write the endpoints of peers as literals.
extension EndpointAddress: ExpressibleByStringInterpolation {
    /// Makes an endpoint from a `host:port` literal; stops the test if it is malformed.
    public init(stringLiteral text: String) {
        do throws(AddressTextError) {
            try self.init(text)
        } catch {
            preconditionFailure("the endpoint \(text): \(error)")
        }
    }
}
