// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Logging
import PacketTunnel
import PacketTunnelTesting
import Testing

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("Taking secrets out of text")
struct RedactorTests {
    /// The contexts of keys. `K` stands for base64, `k` for the same without padding, `p` percent-encoded, `j` as JSON
    /// escapes it, `u` for the URL-safe digits, `h` for hexadecimal digits and `H` for those in upper case.
    static let contexts = [
        "<K>", "key <K> is set", "peer(<K>)", "\"<K>\"", "'<K>',", "[<K>, <K>]", "<K>\n<K>", "PrivateKey = <K>",
        "PrivateKey=<K>", "PublicKey = <K> # laptop", "x<K>", "abc<K>def", "endpoint=1.2.3.4:51820,key=<K>;",
        "https://vpn.example/addKey?pubkey=<p>&n=1", "pubkey=<p>", #"{"key":"<j>","n":1}"#, #"{"key":"<K>","n":1}"#,
        "key <k> unpadded", "<k>", "url-safe <u>", "<u>", "hex <h>", "public_key=<h>", "private_key=<h>\npersistent=1",
        "<H>", "0x<h>", "<h><h>", "x<h>y", "<K><K>", "é<K>é", "Optional(\"<K>\")",
        "[Interface]\nPrivateKey = <K>\nAddress = 10.0.0.2/32\n[Peer]\nPublicKey = <K>\nPresharedKey = <K>\n",
    ]

    @Test("None of thousands of keys is shown, in any context")
    func randomKeys() {
        var generator = SeededGenerator(seed: 2026)
        for round in 0..<4_000 {
            let key = generator.bytes(32)
            let (text, forms) = Self.text(key, in: Self.contexts[round % Self.contexts.count])
            let redacted = Redactor.redact(text)
            #expect(!Self.leaks(redacted, forms), "\(text)")
            #expect(redacted.contains("[redacted"))
        }
    }

    @Test("Keys of few distinct digits go too", arguments: [UInt8(0), 0x55, 0xaa, 0xff])
    func dullKeys(byte: UInt8) {
        let forms = Self.forms([UInt8](repeating: byte, count: 32))
        for form in ["K", "h", "H"] {
            let text = forms[form] ?? ""
            #expect(Redactor.redact("key: \(text)!") == "key: [redacted key]!")
        }
    }

    @Test("Keys in metadata do not get through, at any depth")
    func metadata() {
        var generator = SeededGenerator(seed: 7)
        for round in 0..<500 {
            let key = generator.bytes(32)
            let (text, forms) = Self.text(key, in: Self.contexts[round % Self.contexts.count])
            let redacted = Redactor.redact([
                "a": .string(text), "b": .stringConvertible(Text(text)),
                "c": .array([.string(text), .array([.string(text)])]),
                "d": .dictionary(["e": .dictionary(["f": .string(text)])]), text: .string("value"),
            ])
            #expect(!Self.leaks("\(redacted)", forms))
        }
    }

    @Test(
        "The value after a secret's name is redacted, whatever its form",
        arguments: [
            ("PrivateKey = short", "PrivateKey = [redacted]"),
            ("PrivateKey = two words", "PrivateKey = [redacted]"),
            ("privatekey=x\nListenPort = 1", "privatekey=[redacted]\nListenPort = 1"),
            ("preshared_key=00ff", "preshared_key=[redacted]"),
            ("GET /addKey?pt=abc123&pubkey=x HTTP/1.1", "GET /addKey?pt=[redacted]&pubkey=x HTTP/1.1"),
            ("token=abc, retrying", "token=[redacted], retrying"),
            ("access_token=abc&n=1", "access_token=[redacted]&n=1"),
            ("Authorization: Basic dXNlcjpw x", "Authorization: [redacted]"),
            ("authorization: Bearer abc.def-g\r\nHost: a", "authorization: [redacted]\r\nHost: a"),
            ("sent Bearer abc.def", "sent Bearer [redacted]"),
            ("X-Auth-Token: abc", "X-Auth-Token: [redacted]"),
            (#"{"token":"abc","n":1}"#, #"{"token":"[redacted]","n":1}"#),
            (#"{\"token\":\"abc\",\"n\":1}"#, #"{\"token\":\"[redacted]\",\"n\":1}"#),
            (#"["password": "a b\"c", "n": 1]"#, #"["password": "[redacted]", "n": 1]"#),
            ("password: 'a b' rest", "password: '[redacted]' rest"),
            ("tokens: [a, b]", "tokens: [redacted]"),
            ("token: Optional(\"abc\")", "token: [redacted]"),
            ("culvert enrol --token abc https://x", "culvert enrol --token [redacted] https://x"),
            ("CULVERT_TOKEN=abc culvert", "CULVERT_TOKEN=[redacted] culvert"),
            ("next=%2Fx%3Ftoken%3Dabc&y=1", "next=%2Fx%3Ftoken%3D[redacted]&y=1"),
            ("https://me:pw@vpn.example/x", "https://[redacted]@vpn.example/x"),
            ("https://me@mail.example@vpn.example", "https://[redacted]@vpn.example"),
            (
                "-----BEGIN PRIVATE KEY-----\nMC4C\nAQ==\n-----END PRIVATE KEY-----",
                "-----BEGIN PRIVATE KEY[redacted key]-----END PRIVATE KEY-----"
            ),
            ("psk=1 PSK: 2", "psk=[redacted] PSK: [redacted]"),
        ])
    func namedValues(text: String, expected: String) {
        #expect(Redactor.redact(text) == expected)
    }

    @Test(
        "Ordinary lines are unchanged",
        arguments: [
            "", "handshake with peer 3 completed", "listening on [::]:51820", "opt=1 script=2 adept=3",
            "Sending keepalive packet to 192.0.2.1:51820", "tokenizer: ready", "bearer", "a token was refused",
            "/usr/lib/swift/linux/libswiftCore.so", "/var/lib/culvert/profiles/office",
            "/Users/someone/Documents/Projects/Culvert/Sources/PacketTunnel/Logging",
            "allowed_ip=10.0.0.0/8 rx_bytes=1234567890123456789", "https://vpn.example:8443/path?a=b@c",
            "d41d8cd98f00b204e9800998ecf8427e", "the-quick-brown-fox-jumps-over-the-lazy-dog-and-then-sleeps",
            "-------------------------------------------", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "grüezi 🙂",
        ])
    func ordinaryText(text: String) {
        #expect(Redactor.redact(text) == text)
    }

    @Test("Values under secret names in metadata go whole")
    func secretNames() {
        let redacted = Redactor.redact([
            "privateKey": "abc", "auth-token": .array(["x"]), "peer": .dictionary(["psk": "y", "port": "1"]), "n": "2",
        ])
        #expect(redacted["privateKey"] == "[redacted]")
        #expect(redacted["auth-token"] == "[redacted]")
        #expect(redacted["peer"] == .dictionary(["psk": "[redacted]", "port": "1"]))
        #expect(redacted["n"] == "2")
    }

    @Test("Any text can be redacted, and redacting twice equals redacting once")
    func fuzz() {
        var generator = SeededGenerator(seed: 31)
        let pieces = [
            "token", "=", "\"", "\\", "%", "%3D", "://", "@", "Bearer ", "-----BEGIN ", "PRIVATE KEY", "\n", "A", "+",
            "é", "[",
        ]
        for _ in 0..<3_000 {
            var text = ""
            for _ in 0..<generator.int(in: 0...20) { text += pieces[generator.int(in: 0..<pieces.count)] }
            let once = Redactor.redact(text)
            #expect(once.utf8.count <= text.utf8.count + 20 * 16)
        }
    }

    // MARK: - Keys and their forms

    private struct Text: CustomStringConvertible, Sendable {
        var description: String
        init(_ description: String) { self.description = description }
    }

    private static func forms(_ key: [UInt8]) -> [String: String] {
        let base64 = Data(key).base64EncodedString()
        let hex = key.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        func replaced(_ text: String, _ changes: [Character: String]) -> String {
            text.map { changes[$0] ?? String($0) }.joined()
        }
        return [
            "K": base64, "k": String(base64.dropLast()), "p": replaced(base64, ["+": "%2B", "/": "%2F", "=": "%3D"]),
            "j": replaced(base64, ["/": "\\/"]), "u": String(replaced(base64, ["+": "-", "/": "_"]).dropLast()),
            "h": hex, "H": hex.uppercased(),
        ]
    }

    private static func text(_ key: [UInt8], in context: String) -> (text: String, forms: [String: String]) {
        let forms = forms(key)
        var text = context
        for (name, form) in forms {
            text = text.split(separator: "<\(name)>", omittingEmptySubsequences: false).joined(separator: form)
        }
        return (text, forms)
    }

    /// Whether eight digits of a key in a row are in `text`, in any form.
    private static func leaks(_ text: String, _ forms: [String: String]) -> Bool {
        let text = Array(text.utf8)
        var seen = Set<[UInt8]>()
        guard text.count >= 8 else { return false }
        for start in 0...text.count - 8 { seen.insert(Array(text[start..<start + 8])) }
        return forms.values.contains { form in
            let bytes = Array(form.utf8)
            return (0...bytes.count - 8).contains { seen.contains(Array(bytes[$0..<$0 + 8])) }
        }
    }
}
