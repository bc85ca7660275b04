// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

public import NetworkExtension
public import PacketTunnel

extension TunnelError {
    /// The domain of ``nsError``.
    public static let nsErrorDomain = "CulvertTunnelError"

    private static let jsonKey = "CulvertTunnelErrorJSON"

    /// The error in a form that the system passes on. Its number is the position of ``code-swift.property`` among all
    /// codes, and its description is the complete text.
    public var nsError: NSError {
        let number = Code.allCases.firstIndex(of: code) ?? 0
        var information: [String: Any] = [NSLocalizedDescriptionKey: description]
        if let json = try? JSONEncoder().encode(self) {
            information[Self.jsonKey] = String(decoding: json, as: UTF8.self)
        }
        return NSError(domain: Self.nsErrorDomain, code: number + 1, userInfo: information)
    }

    /// Converts an error that the system passed on.
    ///
    /// A ``TunnelError`` is restored unchanged; if the system kept only its number, its code is restored. An error of
    /// the system becomes `fallback` with the system's text, unless there is a specific code for it.
    public init(_ error: any Error, fallback: Code = .hostFailed) {
        if let error = error as? TunnelError {
            self = error
            return
        }
        let error = error as NSError
        if error.domain == Self.nsErrorDomain {
            let json = error.userInfo[Self.jsonKey] as? String
            if let json, let original = try? JSONDecoder().decode(TunnelError.self, from: Data(json.utf8)) {
                self = original
                return
            }
            let codes = Code.allCases
            let code = codes.indices.contains(error.code - 1) ? codes[error.code - 1] : .unknown
            self.init(code, error.localizedDescription)
            return
        }
        self.init(
            Self.code(of: error) ?? fallback, "\(error.localizedDescription) (\(error.domain) \(error.code))",
            fix: Self.fix(for: error))
    }

    private static func code(of error: NSError) -> Code? {
        guard error.domain == NEVPNErrorDomain else { return nil }
        return switch error.code {
        case NEVPNError.Code.configurationDisabled.rawValue: .profileDisabled
        case NEVPNError.Code.configurationInvalid.rawValue: .profileNotFound
        case NEVPNError.Code.configurationReadWriteFailed.rawValue: .permissionDenied
        default: nil
        }
    }

    private static func fix(for error: NSError) -> String {
        guard error.domain == NEVPNErrorDomain else { return "" }
        return switch error.code {
        case NEVPNError.Code.configurationReadWriteFailed.rawValue:
            "the user may have refused; the app needs the entitlement for packet tunnels"
        case NEVPNError.Code.configurationInvalid.rawValue: "save the profile again"
        default: ""
        }
    }
}
