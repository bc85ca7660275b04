// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

extension Pin {
    /// The explanation if pins of the kind `ca` have the hash of an issuer's certificate; `nil` if none has.
    ///
    /// A `ca` pin of PinGuard is the hash of the certificate. Carried over, it matches nothing here.
    /// - Parameter issuers: the hashes of the certificates above the leaf.
    package static func carriedOverHint(
        _ pins: [Pin], issuers: [(keyHash: PinHash, certificateHash: PinHash)]
    ) -> String? {
        for pin in pins where pin.kind == .ca {
            guard let issuer = issuers.first(where: { $0.certificateHash == pin.hash }) else { continue }
            return
                "the ca pin \(pin.hash) is the hash of an issuer's certificate, as PinGuard writes ca pins, and must be "
                + "the hash of its key, \(issuer.keyHash); or give it the kind 'certificate'"
        }
        return nil
    }
}
