// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import AppleTunnelModel
import Foundation
import PacketTunnelTesting
import Testing
import WireGuardTunnel

/// The page of the example on which the user pastes a wg-quick file.
@Suite("The example's import form")
struct ImportFormTests {
    @Test("The form shows no private or pre-shared key, and passes the keys on unchanged")
    func hidesKeys() throws {
        var random = SeededGenerator(seed: 36)
        let keys = (0..<3).map { _ in
            Data((0..<32).map { _ in UInt8.random(in: 1...255, using: &random) }).base64EncodedString()
        }
        let file = """
            [Interface]
            PrivateKey = \(keys[0])
            Address = 10.0.0.2/32
            [Peer]
            PublicKey = \(keys[1])
            presharedkey=\(keys[2]) # of the server
            AllowedIPs = 0.0.0.0/0
            Endpoint = 192.0.2.1:51820
            """
        var form = ImportForm()
        form.text = file
        #expect(!form.text.contains(keys[0]) && !form.text.contains(keys[2]))
        #expect(form.text.contains("PublicKey = \(keys[1])") && form.text.contains("# of the server"))
        #expect(form.wgQuick == file)
        // The user edits the text and enters another key by hand.
        form.text = form.text.replacing("10.0.0.2", with: "10.0.0.3")
        form.text = form.text.replacing("(hidden key 1)", with: keys[1])
        #expect(form.text.ranges(of: keys[1]).count == 1, "the public key alone is shown")
        let edited = file.replacing("10.0.0.2", with: "10.0.0.3").replacing(keys[0], with: keys[1])
        #expect(form.wgQuick == edited)
        #expect(try WireGuardTunnelConfiguration.split(wgQuick: form.wgQuick).secrets.count == 2)
        // A file with the line breaks of Windows.
        form.text = file.replacing("\n", with: "\r\n")
        #expect(!form.text.contains(keys[0]) && !form.text.contains(keys[2]))
        #expect(form.wgQuick == file)
    }
}
