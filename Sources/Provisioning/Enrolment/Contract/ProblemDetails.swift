// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The reason for a refused request (RFC 9457), as `application/problem+json`.
public struct ProblemDetails: ContractMessage, Hashable {
    /// The code that distinguishes refusals. Later versions may add codes.
    public struct Code: RawRepresentable, Hashable, Sendable {
        /// The text.
        public var rawValue: String

        /// Makes a code.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The bearer secret is unknown.
        public static let unauthorized = Code(rawValue: "unauthorized")
        /// Another device has used the invitation.
        public static let invitationUsed = Code(rawValue: "invitationUsed")
        /// The invitation has expired.
        public static let invitationExpired = Code(rawValue: "invitationExpired")
        /// The user has the largest number of devices.
        public static let deviceLimit = Code(rawValue: "deviceLimit")
        /// No address is free.
        public static let poolFull = Code(rawValue: "poolFull")
        /// A device with this key exists already.
        public static let keyInUse = Code(rawValue: "keyInUse")
        /// The device was revoked, or never existed.
        public static let deviceUnknown = Code(rawValue: "deviceUnknown")
        /// An administrator has disabled the device.
        public static let deviceDisabled = Code(rawValue: "deviceDisabled")
        /// The device has not renewed in time.
        public static let deviceExpired = Code(rawValue: "deviceExpired")
        /// The nonce has expired, or was never issued.
        public static let nonceUnknown = Code(rawValue: "nonceUnknown")
        /// The proof of a rotation is wrong.
        public static let proofInvalid = Code(rawValue: "proofInvalid")
        /// The request is not valid; the detail names the field.
        public static let requestInvalid = Code(rawValue: "requestInvalid")
        /// There are too many failures from this source.
        public static let tooManyRequests = Code(rawValue: "tooManyRequests")
        /// The resource does not exist.
        public static let notFound = Code(rawValue: "notFound")
        /// The scope of the secret does not permit the request.
        public static let forbidden = Code(rawValue: "forbidden")
    }

    /// A URI that identifies the kind of problem.
    public var type: String
    /// A description of the kind of problem.
    public var title: String
    /// The HTTP status.
    public var status: Int
    /// A description of this problem.
    public var detail: String?
    /// The code that distinguishes problems.
    public var code: Code?

    /// Makes a problem.
    public init(type: String = "about:blank", title: String, status: Int, detail: String? = nil, code: Code? = nil) {
        self.type = type
        self.title = title
        self.status = status
        self.detail = detail
        self.code = code
    }

    /// The members. Each of them may be missing (RFC 9457 section 3.1).
    public static let message = CompleteMessage<ProblemDetails>(
        ProblemDetails.init(type:title:status:detail:code:),
        TypedField("type", \.type, .line(0...500).defaulting(to: "about:blank")),
        TypedField("title", \.title, .line(0...200).defaulting(to: "")),
        TypedField("status", \.status, .integer(100...599).defaulting(to: 500)),
        TypedField("detail", \.detail, .optional(.line(0...500))),
        TypedField("code", \.code, .optional(.code), "For programs"))
}

extension ValueFormat where Value == ProblemDetails.Code {
    fileprivate static var code: ValueFormat<ProblemDetails.Code> {
        ValueFormat<String>.line(1...64).map {
            ProblemDetails.Code(rawValue: $0)
        } _: {
            $0.rawValue
        }
    }
}
