// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import CTunnelSystem
import Synchronization
package import WireGuardCore

/// The implementation of ChaCha20-Poly1305 that seals and opens the packets of this process.
package enum TransportAEAD {
    /// A choice of the implementation, with its name on the command line.
    package enum Choice: String, CaseIterable, Sendable {
        /// `ipsec-mb` if this machine has it, otherwise the implementation that this package links.
        case auto
        /// The implementation that this package links; on Apple platforms, that is CryptoKit.
        case boringssl
        /// Intel's multi-buffer library 1.3 with AVX-512 and IFMA (libipsec-mb1 in Debian).
        case ipsecMB = "ipsec-mb"

        /// The choice of a program that gets no other one.
        package static let standard = Choice.auto

        /// The names of all choices, for messages.
        package static let names = "auto, boringssl or ipsec-mb"
    }

    /// The name of the implementation of sessions that begin from now on: `boringssl`, `ipsec-mb`, or `cryptokit`.
    package static var name: String {
        TransportLibrary.current == nil ? TransportLibrary.linkedName : Choice.ipsecMB.rawValue
    }

    private static let selectedRejection = Mutex<TransportAEADError?>(nil)

    /// The reason for which `auto` does not use the library, although the library and a suitable processor exist; `nil` if
    /// there is no such reason.
    package static var rejection: TransportAEADError? { selectedRejection.withLock { $0 } }

    /// The implementation of sessions that begin from now on, with the reason for which `auto` does not use the library.
    package static var summary: String { summary(name, rejection?.description) }

    /// Returns the text for people about an implementation, and the reason for which `auto` does not use the library.
    package static func summary(_ name: String, _ rejection: String?) -> String {
        "ChaCha20-Poly1305 by \(name)" + (rejection.map { " (\($0))" } ?? "")
    }

    /// The result of a choice.
    package struct Selection: Sendable {
        /// The loaded library, or `nil` for the implementation that this package links.
        package var library: TransportLibrary?
        /// The reason for which `auto` does not use the library.
        package var rejection: TransportAEADError?
    }

    /// Selects the implementation of sessions that begin from now on.
    ///
    /// `auto` and `ipsec-mb` load the library, so a program calls this before it gives up its rights to open files.
    /// - Throws: The reason for which `ipsec-mb` cannot be used, if that is the choice.
    package static func select(_ choice: Choice) throws(TransportAEADError) {
        let selected = try evaluate(choice)
        TransportLibrary.current = selected.library
        selectedRejection.withLock { $0 = selected.rejection }
    }

    /// Returns the result of a choice, and selects nothing.
    /// - Parameter load: Loads Intel's library.
    /// - Throws: The reason for which `ipsec-mb` cannot be used, if that is the choice.
    package static func evaluate(
        _ choice: Choice, load: () throws(TransportAEADError) -> TransportLibrary = loadIPsecMB
    ) throws(TransportAEADError) -> Selection {
        guard choice != .boringssl else { return Selection() }
        do throws(TransportAEADError) {
            let library = try load()
            guard library.givesKnownAnswers() else { throw .wrongAnswers }
            return Selection(library: library)
        } catch {
            guard choice == .auto else { throw error }
            return Selection(rejection: error.isExpected ? nil : error)
        }
    }

    /// Loads Intel's library, without selecting it.
    package static func loadIPsecMB() throws(TransportAEADError) -> TransportLibrary {
        if let error = TransportAEADError(loadResult: ctunnel_ipsec_mb_load()) { throw error }
        return unsafe TransportLibrary(seal: ctunnel_ipsec_mb_seal, open: ctunnel_ipsec_mb_open)
    }
}

/// The reason for which Intel's multi-buffer library is not used.
package enum TransportAEADError: Error, Hashable, CustomStringConvertible {
    /// The platform or the processor does not suffice.
    case processor
    case notInstalled
    case notLoadable
    case otherVersion
    /// The library has failed its own test or does not wipe keys, or there is no memory for it.
    case notReady
    /// The library does not give the known answers.
    case wrongAnswers

    init?(loadResult: CInt) {
        switch ctunnel_ipsec_mb_result(rawValue: .init(loadResult)) {
        case CTUNNEL_IPSEC_MB_LOADED: return nil
        case CTUNNEL_IPSEC_MB_NO_PROCESSOR: self = .processor
        case CTUNNEL_IPSEC_MB_NOT_INSTALLED: self = .notInstalled
        case CTUNNEL_IPSEC_MB_NOT_LOADABLE: self = .notLoadable
        case CTUNNEL_IPSEC_MB_OTHER_VERSION: self = .otherVersion
        default: self = .notReady
        }
    }

    /// Whether the machine has no library, or no processor for it.
    var isExpected: Bool { self == .processor || self == .notInstalled }

    package var description: String {
        switch self {
        case .processor:
            "ipsec-mb needs Linux and an x86-64 processor with AVX-512 and IFMA (avx512ifma in /proc/cpuinfo)"
        case .notInstalled: "ipsec-mb needs libIPSec_MB.so.1, which is not installed"
        case .notLoadable: "ipsec-mb needs libIPSec_MB.so.1, which cannot be loaded"
        case .otherVersion: "ipsec-mb needs version 1.3.0 of libIPSec_MB.so.1; another version is installed"
        case .notReady:
            "libIPSec_MB.so.1 cannot be used: its self-test failed, it does not wipe keys (SAFE_DATA), or memory is short"
        case .wrongAnswers: "libIPSec_MB.so.1 cannot be used: it seals or opens a test message wrongly"
        }
    }

    /// The remedy, in the imperative.
    package var fix: String {
        switch self {
        case .notInstalled, .notLoadable, .otherVersion:
            "install libipsec-mb1 1.3 (Debian 12), or use auto or boringssl"
        case .processor, .notReady, .wrongAnswers: "use auto or boringssl"
        }
    }
}
