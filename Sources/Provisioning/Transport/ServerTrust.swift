// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PacketTunnel

/// The verification of a server. In every case, the server's certificate must be for the server's name, valid now, and
/// for use by servers.
///
/// In JSON it is `{"system":true}`, `{"pins":["sha256/…","sha256/…"]}` or `{"authorities":"PEM","acceptsCommonName":true}`.
public enum ServerTrust: Hashable, Sendable {
    /// The system's authorities verify the server.
    case system
    /// The server's key must match one of these pins, of which there must be at least two. Authorities are not used.
    case pins([ServerKeyPin])
    /// Only the authorities with these certificates (PEM) are trusted.
    ///
    /// With `acceptsCommonName`, the common name of a certificate without alternative names is accepted, which current
    /// rules forbid (RFC 9525, section 2). Use it only for authorities that issue no other certificates. Each use is
    /// logged.
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

    /// Decodes one of the three forms. Other input is an error, because it must not result in trust.
    public init(from decoder: any Decoder) throws {
        let members = try Members.message.decode(JSONValue(from: decoder).ordered, .create, at: "trust")
        switch (members.system, members.pins, members.authorities) {
        case (true?, nil, nil) where members.acceptsCommonName == nil: self = .system
        case (nil, let pins?, nil) where members.acceptsCommonName == nil: self = .pins(pins)
        case (nil, nil, let text?): self = .authorities(text, acceptsCommonName: members.acceptsCommonName ?? false)
        default: throw ContractError(field: "trust", problem: "must be one of 'system', 'pins' and 'authorities'")
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
