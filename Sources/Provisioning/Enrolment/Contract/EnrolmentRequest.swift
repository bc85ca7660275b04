// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import PacketTunnel
public import WireGuardCore

/// What a device asks for when it enrols: `POST /v1/enrolments`, with an invitation as the bearer secret.
///
/// The identical request gets the same answer again, so a reply that was lost harms nobody.
public struct EnrolmentRequest: ContractMessage {
    /// The device's key.
    public var publicKey: PublicKey
    /// What the device is going to show from then on. It makes it, and the gateway keeps its hash.
    public var credential: BearerSecret
    /// What people call the device: at most 64 characters.
    public var name: String?
    /// What it runs on, as in `linux`: at most 32 characters.
    public var platform: String?

    /// A request.
    public init(publicKey: PublicKey, credential: BearerSecret, name: String? = nil, platform: String? = nil) {
        self.publicKey = publicKey
        self.credential = credential
        self.name = name
        self.platform = platform
    }

    /// Reads the request.
    public init(json: JSONValue) throws(ContractError) {
        let fields = try ContractFields(json, known: ["publicKey", "credential", "name", "platform"])
        publicKey = try fields.value("publicKey") { (value) throws(ContractError) in try value.publicKey() }
        credential = try fields.value("credential") { (value) throws(ContractError) in try value.secret(.device) }
        name = try fields.optional("name") { (value) throws(ContractError) in try value.label(1...64) }
        platform = try fields.optional("platform") { (value) throws(ContractError) in try value.label(1...32) }
    }

    /// The request as JSON.
    public var json: JSONValue {
        .members([
            "publicKey": .string(publicKey.base64), "credential": .string(credential.exportedText),
            "name": name.map { .string($0) }, "platform": platform.map { .string($0) },
        ])
    }
}
