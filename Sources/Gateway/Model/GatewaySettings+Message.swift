// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import PasswordHashing
package import Provisioning
import TunnelServer
import TunnelSystem

// gateway.json is a patch of the default settings: a setting that it does not contain has its default. `init` writes
// all settings.

extension GatewaySettings {
    /// The members of gateway.json and their bounds. ``problem`` checks the relations between them.
    package static let message = Message<GatewaySettings>(ignoresNull: true) {
        Field("label", \.label, .line(0...64), options: .patch)
        Field("host", \.host, .reachableHost, options: .patch)
        Field(part: "api", \.api, Listener.message)
        Field(part: "admin", \.admin, Listener.message)
        Field(
            "adminTLS", \.adminTLS, .nullable(.object(CertificateFiles.message, .create), omitted: "none"),
            options: .patch)
        Field("metricsNeedToken", \.metricsNeedToken, .flag, options: .patch)
        Field("socket", \.socket, .path, options: .patch)
        Field(part: "addKey", \.addKey, AddKey.message)
        Field(part: "loginTunnel", \.loginTunnel, LoginTunnel.message)
        Field("servesWireGuard", \.servesWireGuard, .flag, options: .patch)
        Field("interface", \.interface, .interface, options: .patch)
        Field("wireGuardPort", \.wireGuardPort, .port, options: .patch)
        Field("addresses", \.addresses, .list(of: .interfaceAddress, count: 1...2), options: .patch)
        Field("endpoints", \.endpoints, .list(of: .endpoint, count: 0...16), options: .patch)
        Field("dns", \.dns, .list(of: .address, count: 0...mostNameServers), options: .patch)
        Field("searchDomains", \.searchDomains, .searchDomains, options: .patch)
        Field("routes", \.routes, .list(of: .network, count: 0...1024), options: .patch)
        Field("mtu", \.mtu, .integer(576...65_535), options: .patch)
        Field("keepaliveSeconds", \.keepaliveSeconds, .integer(0...65_535), options: .patch)
        Field("usesPresharedKeys", \.usesPresharedKeys, .flag, options: .patch)
        Field("ipv4", \.ipv4, .choice, options: .patch)
        Field("ipv6", \.ipv6, .choice, options: .patch)
        Field("services", \.services, .list(of: .service, count: 0...1024), options: .patch)
        Field("answersPings", \.answersPings, .flag, options: .patch)
        Field("allowedNetworks", \.allowedNetworks, .list(of: .network, count: 0...16_384), options: .patch)
        Field("otherInterfaces", \.otherInterfaces, .list(of: .interface, count: 0...1024), options: .patch)
        Field("flowsPerSource", \.flowsPerSource, .integer(0...1_000_000), options: .patch)
        Field("deviceLifetimeSeconds", \.deviceLifetimeSeconds, .lifetime(), options: .patch)
        Field("renewAfterSeconds", \.renewAfterSeconds, .lifetime(from: 1), options: .patch)
        Field("invitationLifetimeSeconds", \.invitationLifetimeSeconds, .lifetime(from: 1), options: .patch)
        Field("tokenLifetimeSeconds", \.tokenLifetimeSeconds, .lifetime(), options: .patch)
        Field("addressRestSeconds", \.addressRestSeconds, .lifetime(), options: .patch)
        Field("serverKeyOverlapSeconds", \.serverKeyOverlapSeconds, .lifetime(), options: .patch)
        Field("auditLifetimeSeconds", \.auditLifetimeSeconds, .lifetime(), options: .patch)
        Field("devicesPerUser", \.devicesPerUser, .integer(1...1_000_000), options: .patch)
        Field("devices", \.devices, .integer(1...1_000_000), options: .patch)
        Field(part: "failures", \.failures, failureLimits)
    }

    private static let failureLimits = Message<LoginLimiter.Limits>(ignoresNull: true) {
        Field("free", \.free, .integer(1...1_000_000), options: .patch)
        Field("longestSourceWait", \.longestSourceWait, .lifetime(from: 1), options: .patch)
        Field("longestLoginWait", \.longestLoginWait, .lifetime(from: 1), options: .patch)
        Field("memory", \.memory, .lifetime(from: 1), options: .patch)
    }

    /// Reads the content of gateway.json.
    /// - Throws: `.invalid` with the path of a member that is unknown, not valid or repeated.
    package init(json: [UInt8]) throws(GatewayError) {
        func invalid(_ field: String, _ problem: String) -> GatewayError {
            .invalid(field: field.isEmpty ? Self.fileName : "\(Self.fileName): \(field)", problem: problem)
        }
        self.init()
        let document: JSON
        do throws(JSONError) { document = try JSON.read(json) } catch {
            guard let path = error.repeatedPath else {
                throw invalid("", "must be a JSON object: \(error.problem) at byte \(error.position)")
            }
            throw invalid(ContractError.visible(path), "must not occur twice")
        }
        guard case .object = document else { throw invalid("", "must be a JSON object") }
        do throws(ContractError) { try Self.message.decode(document, .patch).apply(to: &self) } catch {
            throw invalid(error.field, error.problem)
        }
        if let problem { throw invalid(problem.field, problem.words) }
    }

    /// The content of gateway.json, with all settings.
    package var text: [UInt8] { Array("\(Self.message.encode(self).text)\n".utf8) }
}

extension GatewaySettings.Listener {
    fileprivate static let message = Message<GatewaySettings.Listener>(ignoresNull: true) {
        Field("addresses", \.addresses, .list(of: .address, count: 1...64), options: .patch)
        Field("port", \.port, .port, options: .patch)
    }
}

extension GatewaySettings.CertificateFiles {
    fileprivate static let message = CompleteMessage<GatewaySettings.CertificateFiles>(
        GatewaySettings.CertificateFiles.init(certificate:key:),
        TypedField("certificate", \.certificate, .path), TypedField("key", \.key, .path))
}

extension GatewaySettings.AddKey {
    package static let message = Message<GatewaySettings.AddKey>(ignoresNull: true) {
        Field("isEnabled", \.isEnabled, .flag, options: .patch)
        Field(part: "listener", \.listener, GatewaySettings.Listener.message)
        Field("idleKeySeconds", \.idleKeySeconds, .lifetime(from: 60), options: .patch)
    }
}

extension GatewaySettings.LoginTunnel {
    package static let message = Message<GatewaySettings.LoginTunnel>(ignoresNull: true) {
        Field("isEnabled", \.isEnabled, .flag, options: .patch)
        Field("port", \.port, .port, options: .patch)
        Field("interface", \.interface, .interface, options: .patch)
        Field("sessionsPerUser", \.sessionsPerUser, .integer(1...Int64(mostSessionsPerUser)), options: .patch)
        // The minimum must exceed the interval at which the runtime reports sessions.
        Field("leaseSeconds", \.leaseSeconds, .lifetime(from: 120), options: .patch)
        Field("sessionLifetimeSeconds", \.sessionLifetimeSeconds, .lifetime(), options: .patch)
        Field(part: "passwordCost", \.passwordCost, hashCost)
    }

    private static let hashCost = Message<PasswordHash.Cost>(ignoresNull: true) {
        Field("n", \.n, .integer(2...1 << 20), options: .patch)
        Field("r", \.r, .integer(1...64), options: .patch)
        Field("p", \.p, .integer(1...16), options: .patch)
    }
}
