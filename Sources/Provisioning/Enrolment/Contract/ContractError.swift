// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

package import TunnelSystem

/// The error in a text of the enrolment API, or in an invitation. It repeats no secret.
public struct ContractError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The field, such as `servers[0].publicKey`; `body` for the whole message.
    public var field: String
    /// The problem.
    public var problem: String

    /// An error.
    public init(field: String, problem: String) {
        self.field = field
        self.problem = problem
    }

    /// The field and the problem.
    public var description: String { "'\(field)': \(problem)" }
}

extension JSON {
    /// Reads a body of the enrolment API or of the administrators' API, or another text of the contract.
    /// - Throws: ``ContractError`` for a text that is not valid JSON, or for a member that an object contains twice.
    package static func read(contract text: [UInt8]) throws(ContractError) -> JSON {
        do throws(JSONError) {
            return try read(text)
        } catch {
            guard let name = error.repeatedName else {
                throw ContractError(field: "body", problem: "must be JSON in UTF-8")
            }
            throw ContractError(field: ContractError.visible(name), problem: "there are two members with this name")
        }
    }
}

extension ContractError {
    /// The first 40 characters of a name in external text, without control characters.
    package static func visible(_ name: String) -> String {
        String(name.unicodeScalars.filter { !$0.isControl }.prefix(40).map(Character.init))
    }
}
