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
    /// The members of the three forms.
    private struct Members: Sendable {
        var system: Bool?
        var pins: [ServerKeyPin]?
        var authorities: String?
        var acceptsCommonName: Bool?

        static let message = CompleteMessage<Members>(
            Members.init(system:pins:authorities:acceptsCommonName:),
            TypedField("system", \.system, .optional(.flag)),
            TypedField("pins", \.pins, .optional(.list(of: .pin, count: 2...16))),
            TypedField("authorities", \.authorities, .optional(.anyText())),
            TypedField("acceptsCommonName", \.acceptsCommonName, .optional(.flag)))
    }

    /// Decodes; anything but the three forms is an error, since what is not understood must not become trust.
    public init(from decoder: any Decoder) throws {
        let members = try Members.message.decode(JSONValue(from: decoder).ordered, .create, at: "trust")
        switch (members.system, members.pins, members.authorities) {
        case (true?, nil, nil) where members.acceptsCommonName == nil: self = .system
        case (nil, let pins?, nil) where members.acceptsCommonName == nil: self = .pins(pins)
        case (nil, nil, let text?): self = .authorities(text, acceptsCommonName: members.acceptsCommonName ?? false)
        default: throw ContractError(field: "trust", problem: "it is one of 'system', 'pins' and 'authorities'")
        }
    }

    /// Encodes one of the three forms.
    public func encode(to encoder: any Encoder) throws {
        let members =
            switch self {
            case .system: Members(system: true)
            case .pins(let pins): Members(pins: pins)
            case .authorities(let text, let acceptsCommonName):
                Members(authorities: text, acceptsCommonName: acceptsCommonName ? true : nil)
            }
        try JSONValue(Members.message.encode(members)).encode(to: encoder)
    }
}
