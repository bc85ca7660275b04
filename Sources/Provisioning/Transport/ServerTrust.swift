// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

/// Why a server is believed to be the one that was asked for. In each case its certificate has to be for the server's name,
/// valid on the day, and for servers.
///
/// In JSON it is `{"system":true}`, `{"pins":["sha256/…","sha256/…"]}` or `{"authorities":"PEM","acceptsCommonName":true}`.
public enum ServerTrust: Hashable, Sendable {
    /// The system's authorities vouch for it.
    case system
    /// Its key is one of these, of which there are at least two: no authority is asked.
    case pins([ServerKeyPin])
    /// The authorities with these certificates (PEM) vouch for it, and no others.
    ///
    /// `acceptsCommonName` takes certificates without alternative names for their common name, which today's rules forbid (RFC 9525,
    /// section 2). It is for authorities that issue no others, and the log says when it was used.
    case authorities(String, acceptsCommonName: Bool = false)
}

extension ServerTrust: Codable {
    private enum Member: String, CaseIterable {
        case system, pins, authorities, acceptsCommonName
    }

    /// Decodes; anything but the three forms is an error, since what is not understood must not become trust.
    public init(from decoder: any Decoder) throws {
        let json = try JSONValue(from: decoder)
        let fields = try ContractFields(json, path: "trust", known: Set(Member.allCases.map(\.rawValue)))
        let system = try fields.optional("system") { (value) throws(ContractError) in try value.flag() }
        let pins = try fields.optional("pins") { (value) throws(ContractError) in
            try value.list(2...16) { (value) throws(ContractError) in try value.pin() }
        }
        let authorities = try fields.optional("authorities") { (value) throws(ContractError) in try value.text() }
        let acceptsCommonName = try fields.optional("acceptsCommonName") { (value) throws(ContractError) in
            try value.flag()
        }
        switch (system, pins, authorities) {
        case (true?, nil, nil) where acceptsCommonName == nil: self = .system
        case (nil, let pins?, nil) where acceptsCommonName == nil: self = .pins(pins)
        case (nil, nil, let text?): self = .authorities(text, acceptsCommonName: acceptsCommonName ?? false)
        default: throw ContractError(field: "trust", problem: "it is one of 'system', 'pins' and 'authorities'")
        }
    }

    /// Encodes one of the three forms.
    public func encode(to encoder: any Encoder) throws {
        let json: JSONValue =
            switch self {
            case .system: .members(["system": .bool(true)])
            case .pins(let pins): .members(["pins": .texts(pins)])
            case .authorities(let text, let acceptsCommonName):
                .members([
                    "authorities": .string(text), "acceptsCommonName": acceptsCommonName ? .bool(true) : nil,
                ])
            }
        try json.encode(to: encoder)
    }
}
