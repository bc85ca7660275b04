// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import WireGuardCore

/// A device's request to enrol: `POST /v1/enrolments`, with an invitation as the bearer secret.
///
/// An identical request gets the same answer again, so a lost reply has no effect.
public struct EnrolmentRequest: ContractMessage {
    /// The device's key.
    public var publicKey: PublicKey
    /// The credential of later requests. The device creates it, and the gateway stores its hash.
    public var credential: BearerSecret
    /// The device's display name: at most 64 characters.
    public var name: String?
    /// The device's platform, such as `linux`: at most 32 characters.
    public var platform: String?

    /// Makes a request.
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

    /// `true`: the message is a request.
    public static let isRequest = true
}
