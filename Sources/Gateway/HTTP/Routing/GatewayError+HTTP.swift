// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import Provisioning

extension GatewayError {
    package init(_ error: ContractError) { self = .invalid(field: error.field, problem: error.problem) }

    /// The problem document of the error.
    var problem: ProblemDetails {
        let (status, title) =
            switch category {
            case .unauthorized: (401, "No valid credential")
            case .forbidden: (403, "Refused")
            case .notFound: (404, "The resource does not exist")
            case .conflict: (409, "The request conflicts with another resource")
            case .invalid: (400, "The request is not valid")
            case .changed: (412, "The resource has changed")
            case .tooMany: (429, self.isOfFailures ? "Too many failures from here" : "Too many changes")
            case .full: (503, "A limit is reached")
            case .unavailable: (503, "The gateway cannot do this now")
            }
        return ProblemDetails(
            title: title, status: status, detail: String(description.prefix(500)),
            code: ProblemDetails.Code(rawValue: contractCode))
    }

    /// The code of the error in the contract.
    private var contractCode: String {
        switch self {
        case .invalid: ProblemDetails.Code.requestInvalid.rawValue
        case .tooManyFailures, .tooManyChanges: ProblemDetails.Code.tooManyRequests.rawValue
        case .changed: ProblemDetails.Code.preconditionFailed.rawValue
        case .proofWrong: ProblemDetails.Code.proofInvalid.rawValue
        default: code
        }
    }

    /// The time to wait before the next attempt, in seconds.
    var retryAfter: Int? {
        switch self {
        case .tooManyFailures(let seconds), .tooManyChanges(let seconds): seconds
        default: nil
        }
    }

    private var isOfFailures: Bool {
        if case .tooManyFailures = self { true } else { false }
    }
}
