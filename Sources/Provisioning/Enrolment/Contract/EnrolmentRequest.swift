// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

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

    /// The members.
    public static let message = CompleteMessage<EnrolmentRequest>(
        EnrolmentRequest.init(publicKey:credential:name:platform:),
        TypedField("publicKey", \.publicKey, .key),
        TypedField("credential", \.credential, .secret(.device)),
        TypedField("name", \.name, .optional(.line(1...64))),
        TypedField("platform", \.platform, .optional(.line(1...32))))

    /// True.
    public static let isRequest = true
}
