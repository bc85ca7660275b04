// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

/// The fuzz targets. Each has the name of its folder in `Fuzz/seeds`.
enum FuzzTarget: String, CaseIterable, Sendable {
    case aead = "fuzz-aead"
    case contract = "fuzz-contract"
    case credential = "fuzz-credential"
    case datagram = "fuzz-datagram"
    case invitation = "fuzz-invitation"
    case offload = "fuzz-offload"
    case trust = "fuzz-trust"
    case tun = "fuzz-tun"
    case uapi = "fuzz-uapi"
    case wgQuick = "fuzz-wgquick"

    /// Checks one input; a finding ends the process.
    func check(_ input: [UInt8]) {
        switch self {
        case .aead: fuzzAEAD(input)
        case .contract: fuzzContract(input)
        case .credential: fuzzCredential(input)
        case .datagram: fuzzDatagram(input)
        case .invitation: fuzzInvitation(input)
        case .offload: fuzzOffload(input)
        case .trust: fuzzTrust(input)
        case .tun: fuzzTun(input)
        case .uapi: fuzzUAPI(input)
        case .wgQuick: fuzzWgQuick(input)
        }
    }
}
