// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import TunnelSystem

/// The user's settings of a tunnel. Its secrets are in a ``SecretStore``, under the profile's ID.
public struct TunnelProfile: Hashable, Sendable, Identifiable {
    /// The permanent ID: 32 hexadecimal digits.
    public let id: String
    /// The name that the user gave it, unique within a manager.
    public var name: String
    /// The type of provider, as a word that the app and the service agree on.
    public var provider: String
    /// The server's address, for display.
    public var serverAddress: String
    /// The provider's configuration.
    public var configuration: JSONValue
    /// The least strict leak policy that applies; the provider may apply a stricter one.
    public var leakPolicy: LeakPolicy
    /// Whether the tunnel can be started.
    public var isEnabled: Bool
    /// The rules for automatic starts and stops.
    public var onDemand: OnDemandRules
    /// Whether ``onDemand`` is in effect.
    public var isOnDemandEnabled: Bool
    /// The user's name at the server, for display, such as in the system's VPN settings; `nil` if there is none.
    public var userName: String?
    /// The names of the users, besides root, who may query the tunnel and stop it, on hosts with users.
    public var permittedUsers: [String] = []

    /// Creates a profile with a new ID.
    public init(
        name: String, provider: String, serverAddress: String = "", configuration: JSONValue = .object([:]),
        leakPolicy: LeakPolicy = .routeBased, isEnabled: Bool = true, onDemand: OnDemandRules = OnDemandRules(),
        isOnDemandEnabled: Bool = false
    ) {
        self.init(
            id: Self.makeID(), name: name, provider: provider, serverAddress: serverAddress,
            configuration: configuration, leakPolicy: leakPolicy, isEnabled: isEnabled, onDemand: onDemand,
            isOnDemandEnabled: isOnDemandEnabled)
    }

    /// Creates a profile with a new ID and a provider's configuration as a value. Set the other properties afterwards.
    /// - Throws: `.configurationInvalid` if `configuration` cannot be encoded.
    public init(
        name: String, provider: String, serverAddress: String = "", encoding configuration: some Encodable
    ) throws(TunnelError) {
        self.init(
            name: name, provider: provider, serverAddress: serverAddress,
            configuration: try JSONValue(encoding: configuration))
    }

    private init(
        id: String, name: String, provider: String, serverAddress: String, configuration: JSONValue,
        leakPolicy: LeakPolicy, isEnabled: Bool, onDemand: OnDemandRules, isOnDemandEnabled: Bool
    ) {
        self.id = id
        self.name = name
        self.provider = provider
        self.serverAddress = serverAddress
        self.configuration = configuration
        self.leakPolicy = leakPolicy
        self.isEnabled = isEnabled
        self.onDemand = onDemand
        self.isOnDemandEnabled = isOnDemandEnabled
    }

    /// Returns the stand-in for a profile that cannot be read. It has an ID and a name, and cannot be started.
    static func placeholder(_ unreadable: UnreadableProfile) -> TunnelProfile {
        TunnelProfile(
            id: unreadable.id, name: unreadable.name, provider: "", serverAddress: "", configuration: .object([:]),
            leakPolicy: .routeBased, isEnabled: false, onDemand: OnDemandRules(), isOnDemandEnabled: false)
    }

    private static func makeID() -> String {
        (0..<2).map { _ in
            let digits = String(UInt64.random(in: 0...UInt64.max), radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }

    static func isID(_ text: String) -> Bool {
        text.utf8.count == 32
            && text.utf8.allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
    }

    /// Returns every problem of this profile, except those of the configuration, which only its provider can check.
    public func validate() -> [SettingsProblem] {
        var problems: [SettingsProblem] = []
        let isBlank = name.utf8.allSatisfy { $0 == 0x20 }
        if isBlank || name.utf8.count > 128 || name.unicodeScalars.contains(where: Self.isControl) {
            problems.append(
                SettingsProblem(
                    field: "name", value: String(name.prefix(40)),
                    problem: "is blank, too long or has control characters",
                    fix: "use 1 to 128 bytes of text"))
        } else if name.utf8.first == 0x20 || name.utf8.last == 0x20 {
            problems.append(
                SettingsProblem(
                    field: "name", value: name, problem: "begins or ends with a space", fix: "remove the space"))
        }
        if !FileName.isValid(provider) {
            problems.append(
                SettingsProblem(
                    field: "provider", value: String(provider.prefix(40)), problem: "is not a word",
                    fix: "use letters, digits, '-', '_' or '.'"))
        }
        return problems + onDemand.validate()
    }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value) || scalar.value == 0x2028 || scalar.value == 0x2029
    }
}

extension TunnelProfile: Codable {
    private enum CodingKeys: String, CodingKey {
        case id, name, provider, serverAddress, configuration, leakPolicy, isEnabled, onDemand, isOnDemandEnabled
        case permittedUsers, userName
    }

    /// Decodes; omitted members have their defaults.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        let id = try container.decode(String.self, forKey: .id)
        guard Self.isID(id) else {
            throw DecodingError.dataCorruptedError(
                forKey: .id, in: container, debugDescription: "'\(id)' is not 32 hexadecimal digits in lower case")
        }
        self.init(
            id: id, name: try container.decode(String.self, forKey: .name),
            provider: try container.decode(String.self, forKey: .provider),
            serverAddress: try container.decodeIfPresent(String.self, forKey: .serverAddress) ?? "",
            configuration: try container.decodeIfPresent(JSONValue.self, forKey: .configuration) ?? .object([:]),
            leakPolicy: try container.decodeIfPresent(LeakPolicy.self, forKey: .leakPolicy) ?? .routeBased,
            isEnabled: try container.decodeIfPresent(Bool.self, forKey: .isEnabled) ?? true,
            onDemand: try container.decodeIfPresent(OnDemandRules.self, forKey: .onDemand) ?? OnDemandRules(),
            isOnDemandEnabled: try container.decodeIfPresent(Bool.self, forKey: .isOnDemandEnabled) ?? false)
        permittedUsers = try container.decodeIfPresent([String].self, forKey: .permittedUsers) ?? []
        userName = try container.decodeIfPresent(String.self, forKey: .userName)
    }
}
