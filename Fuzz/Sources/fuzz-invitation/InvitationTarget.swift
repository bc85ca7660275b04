// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Provisioning

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Invitations: a valid one has at least two keys, is unchanged when it is written and read again, and its description shows
/// no token.
func fuzzInvitation(_ bytes: [UInt8]) {
    var input = ByteReader(bytes)
    let isText = input.byte() & 1 == 0
    let rest = input.rest()
    // Nearly all text inputs are not base64, so half of the inputs are tried as the decoded bytes.
    let text = isText ? String(decoding: rest, as: UTF8.self) : Invitation.prefix + base64URL(rest)
    guard let invitation = try? Invitation(text) else { return }
    require(Set(invitation.pins).count >= 2, "an invitation has fewer than two keys")
    require(!invitation.host.isEmpty && invitation.port > 0, "an invitation leads nowhere")
    require(invitation.expires.timeIntervalSince1970 >= 1, "an invitation has no end")
    let line = invitation.exportedText
    require(line.utf8.count <= 2 * Invitation.byteLimit, "\(line.utf8.count) bytes are no line")
    require(!"\(invitation)".contains(invitation.token.exportedText), "a token is shown")
    guard line.utf8.count <= Invitation.byteLimit else { return }
    guard let again = try? Invitation(line) else { finding("what was written cannot be read:\n\(line)") }
    require(again == invitation, "what was written means something else:\n\(line)")
}

private func base64URL(_ bytes: [UInt8]) -> String {
    Data(bytes).base64EncodedString().filter { $0 != "=" }
        .replacing("+", with: "-").replacing("/", with: "_")
}
