// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Testing
import WireGuardDevice

@testable import culvert_wg

@Suite("The --aead option of culvert-wg")
struct DaemonAEADTests {
    private func choice(_ arguments: [String], variable: String? = nil) throws -> TransportAEAD.Choice? {
        let request = try DaemonOptions.parse(arguments) { $0 == "CULVERT_AEAD" ? variable : nil }
        guard case .run(let options) = request else { return nil }
        return options.aead
    }

    @Test("The option precedes the variable, which precedes the default")
    func precedence() throws {
        #expect(try choice(["wg0"]) == .auto)
        #expect(try choice(["wg0"], variable: "") == .auto)
        #expect(try choice(["wg0"], variable: "boringssl") == .boringssl)
        #expect(try choice(["--aead", "ipsec-mb", "wg0"], variable: "boringssl") == .ipsecMB)
        #expect(try choice(["-f", "wg0", "--aead=boringssl"], variable: "ipsec-mb") == .boringssl)
        #expect(try choice(["--aead=auto", "wg0"], variable: "none") == .auto)
    }

    @Test("A wrong value is refused, by the name of its source")
    func badValues() {
        func message(_ arguments: [String], _ variable: String? = nil) -> String? {
            do throws(DaemonOptions.UsageError) {
                _ = try DaemonOptions.parse(arguments) { $0 == "CULVERT_AEAD" ? variable : nil }
                return nil
            } catch {
                return error.message
            }
        }
        let rule = "it must be auto, boringssl or ipsec-mb"
        #expect(message(["--aead", "aes", "wg0"]) == "--aead is 'aes'; \(rule)")
        #expect(message(["--aead=", "wg0"]) == "--aead is ''; \(rule)")
        #expect(message(["wg0"], "aes") == "CULVERT_AEAD is 'aes'; \(rule)")
        #expect(message(["wg0", "--aead"]) == "--aead has no value")
    }
}
