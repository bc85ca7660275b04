// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

// For Apple's targets only, where nothing of it is executed. Stand-ins with the signatures of
// https://developer.apple.com/documentation/foundation/urlauthenticationchallenge
// https://developer.apple.com/documentation/foundation/urlprotectionspace
// https://developer.apple.com/documentation/foundation/urlcredential
// Functions that use a trust or an identity of Security are in that stand-in, for both builds.

public let NSURLAuthenticationMethodHTTPBasic = "NSURLAuthenticationMethodHTTPBasic"

open class URLProtectionSpace: NSObject, @unchecked Sendable {
    public let host: String
    public let port: Int
    public let authenticationMethod: String

    public init(
        host: String, port: Int, protocol: String?, realm: String?, authenticationMethod: String?
    ) {
        (self.host, self.port, self.authenticationMethod) = (host, port, authenticationMethod ?? "")
        super.init()
    }

    public required init?(coder: NSCoder) { nil }
}

open class URLCredential: NSObject, @unchecked Sendable {
    public enum Persistence: UInt, Sendable {
        case none = 0
        case forSession = 1
        case permanent = 2
        case synchronizable = 3
    }

    public let user: String?
    public let persistence: Persistence

    public init(user: String, password: String, persistence: Persistence) {
        (self.user, self.persistence) = (user, persistence)
    }
}

public protocol URLAuthenticationChallengeSender: NSObjectProtocol {
    func use(_ credential: URLCredential, for challenge: URLAuthenticationChallenge)
    func continueWithoutCredential(for challenge: URLAuthenticationChallenge)
    func cancel(_ challenge: URLAuthenticationChallenge)
}

open class URLAuthenticationChallenge: NSObject, @unchecked Sendable {
    public let protectionSpace: URLProtectionSpace
    public let proposedCredential: URLCredential?
    public let previousFailureCount: Int

    public init(
        protectionSpace space: URLProtectionSpace, proposedCredential credential: URLCredential?,
        previousFailureCount: Int, failureResponse response: URLResponse?, error: (any Error)?,
        sender: any URLAuthenticationChallengeSender
    ) {
        (protectionSpace, proposedCredential, self.previousFailureCount) = (space, credential, previousFailureCount)
    }
}
