// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import Testing
import TrustPinningTesting

@testable import TrustPinning

/// Runs shell scripts that call the openssl program, in a separate folder.
struct OpenSSL: ~Copyable {
    static let isThere = FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl")

    let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "openssl-\(UInt64.random(in: 0...UInt64.max))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    func write(_ name: String, _ bytes: [UInt8]) throws { try Data(bytes).write(to: folder.appending(path: name)) }

    func read(_ name: String) throws -> [UInt8] { Array(try Data(contentsOf: folder.appending(path: name))) }

    func text(_ name: String) throws -> String {
        String(decoding: try read(name), as: UTF8.self).trimmingCharacters(in: .newlines)
    }

    /// Runs a script and waits for its end, which takes some hundredths of a second.
    func run(_ script: String) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-euc", script]
        process.currentDirectoryURL = folder
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "\(script)")
    }

    /// Shell commands that convert a public key on standard input to its pin.
    static let pin = "openssl pkey -pubin -outform DER | openssl dgst -sha256 -binary | openssl base64"
}

@Suite("Agreement with OpenSSL", .enabled(if: OpenSSL.isThere, "needs openssl"))
struct OpenSSLTests {
    @Test("Pins of certificates, public and private keys are equal to OpenSSL's")
    func ownKeys() throws {
        let openSSL = try OpenSSL()
        for algorithm in TestKey.Algorithm.signing {
            let authority = try TestAuthority(algorithm: algorithm)
            try openSSL.write("\(algorithm).pem", Array(authority.leaf.pem.utf8))
            try openSSL.write("\(algorithm).key", Array(authority.leaf.key.pem.utf8))
            try openSSL.write("\(algorithm).issuers", Array((authority.intermediate.pem + authority.root.pem).utf8))
        }
        try openSSL.run(
            """
            for file in *.pem; do
                name=${file%.pem}
                openssl x509 -in $file -noout -pubkey | \(OpenSSL.pin) >$name.pin
                openssl pkey -in $name.key -pubout | \(OpenSSL.pin) >$name.keypin
                openssl x509 -in $file -outform DER | openssl dgst -sha256 -binary | openssl base64 >$name.certpin
                openssl x509 -in $file -noout -fingerprint -sha256 | sed 's/.*=//' >$name.fingerprint
                openssl verify -attime \(TestDate.today.seconds) -trusted $name.issuers $file
            done
            """)
        for algorithm in TestKey.Algorithm.signing {
            let certificate = try #require(try KeySource.read(pem: openSSL.text("\(algorithm).pem")).first)
            #expect(certificate.keyHash.base64 == (try openSSL.text("\(algorithm).pin")))
            #expect(certificate.certificateHash?.base64 == (try openSSL.text("\(algorithm).certpin")))
            #expect(certificate.certificateHash == (try PinHash(openSSL.text("\(algorithm).fingerprint"))))
            let key = try #require(try KeySource.read(pem: openSSL.text("\(algorithm).key")).first)
            #expect(key.keyHash.base64 == (try openSSL.text("\(algorithm).keypin")))
            #expect(key.keyHash == certificate.keyHash)
        }
    }

    @Test("Pins of openssl's keys, requests and certificates are equal, even for unsupported keys")
    func foreignKeys() throws {
        let openSSL = try OpenSSL()
        try openSSL.run(
            """
            openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out p256.key
            openssl ecparam -name secp384r1 -genkey -out p384.key
            openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-521 -out p521.key
            openssl genpkey -algorithm ED25519 -out ed25519.key
            openssl genrsa -traditional -out rsa.key 2048
            openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp256k1 -out k1.key
            openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-224 -out p224.key
            openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:explicit -out explicit.key
            openssl genpkey -algorithm ED448 -out ed448.key
            openssl genpkey -algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048 -out pss.key
            for file in *.key; do
                name=${file%.key}
                openssl req -new -key $file -subj /CN=$name.example -out $name.csr
                openssl req -new -x509 -key $file -subj /CN=$name.example -days 30 -out $name.pem
                openssl req -in $name.csr -outform DER -out $name.csrder
                openssl pkey -in $file -pubout -out $name.pub
                openssl pkey -in $file -pubout | \(OpenSSL.pin) >$name.pin
            done
            """)
        let supported = ["p256", "p384", "p521", "ed25519", "rsa"]
        for name in supported + ["k1", "p224", "explicit", "ed448", "pss"] {
            let pin = try openSSL.text("\(name).pin")
            for kind in ["csr", "pem", "pub"] {
                let source = try #require(try KeySource.read(pem: openSSL.text("\(name).\(kind)")).first)
                #expect(source.keyHash.base64 == pin, "\(name).\(kind)")
            }
            let request = try KeySource(der: openSSL.read("\(name).csrder"))
            #expect(request.kind == .certificateRequest)
            #expect(request.keyHash.base64 == pin)
            if supported.contains(name) {
                #expect(try KeySource.read(pem: openSSL.text("\(name).key")).map(\.keyHash.base64) == [pin], "\(name)")
            } else {
                #expect(throws: PinError.self) { try KeySource.read(pem: openSSL.text("\(name).key")) }
            }
        }
    }

    @Test("OpenSSL verifies signatures of policies, and its signatures are verified")
    func signatures() throws {
        let openSSL = try OpenSSL()
        let algorithms = PolicyEnvelope.Algorithm.allCases
        for algorithm in algorithms {
            let envelope = try Publisher.envelope(Publisher.policies("one"), algorithm)
            try openSSL.write("\(algorithm.rawValue).bin", envelope.signedBytes)
            try openSSL.write("\(algorithm.rawValue).ours", envelope.signature)
        }
        try openSSL.write("ecdsa-p256-sha256.key", Array(TestKey(.p256, "publisher").pem.utf8))
        try openSSL.write("ecdsa-p384-sha384.key", Array(TestKey(.p384, "publisher").pem.utf8))
        try openSSL.write("ed25519.key", Array(TestKey(.ed25519, "publisher").pem.utf8))
        let secret = Publisher.secret.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        try openSSL.run(
            """
            for name in ecdsa-p256-sha256 ecdsa-p384-sha384 ed25519; do openssl pkey -in $name.key -pubout -out $name.pub; done
            openssl dgst -sha256 -sign ecdsa-p256-sha256.key -out ecdsa-p256-sha256.sig ecdsa-p256-sha256.bin
            openssl dgst -sha384 -sign ecdsa-p384-sha384.key -out ecdsa-p384-sha384.sig ecdsa-p384-sha384.bin
            openssl pkeyutl -sign -rawin -inkey ed25519.key -in ed25519.bin -out ed25519.sig
            openssl dgst -sha256 -mac HMAC -macopt hexkey:\(secret) -binary -out hmac-sha256.sig hmac-sha256.bin
            openssl dgst -sha256 -verify ecdsa-p256-sha256.pub -signature ecdsa-p256-sha256.ours ecdsa-p256-sha256.bin
            openssl dgst -sha384 -verify ecdsa-p384-sha384.pub -signature ecdsa-p384-sha384.ours ecdsa-p384-sha384.bin
            openssl pkeyutl -verify -rawin -pubin -inkey ed25519.pub -in ed25519.bin -sigfile ed25519.ours
            cmp hmac-sha256.sig hmac-sha256.ours
            """)
        for algorithm in algorithms {
            let envelope = try Publisher.envelope(Publisher.policies("one"), algorithm)
                .changed(signature: openSSL.read("\(algorithm.rawValue).sig"))
            #expect(throws: Never.self) { try Publisher.verifier().verify(envelope, at: TestDate.today.date) }
        }
    }
}
