// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import CCulvert
import CTunnelSystem
import WireGuardCore
import WireGuardDevice

/// A parsed configuration text of a caller.
struct ConfigurationText {
    /// The most bytes of a text.
    private static let mostBytes = 16 << 20

    /// The update for the device.
    let update: UAPIDeviceUpdate
    /// The MTU that the text asks for.
    let mtu: Int?

    /// Parses a wg-quick file, or the lines of a UAPI request.
    /// - Parameters:
    ///   - mark: The mark for a file without one; `nil` for none.
    ///   - timeout: The time limit for resolving endpoint names.
    init(_ text: String, mark: UInt32?, lookingUpWithin timeout: Duration) throws(Failure) {
        guard text.utf8.count <= Self.mostBytes else {
            throw Failure(CULVERT_INVALID_CONFIGURATION, "the configuration has more than \(Self.mostBytes) bytes")
        }
        // No line of a UAPI request begins with a bracket.
        let isFile = text.split(whereSeparator: \.isNewline).contains { line in
            line.first { !$0.isWhitespace } == "["
        }
        self = isFile ? try Self.file(text, mark, timeout) : try Self.request(text)
    }

    private init(update: UAPIDeviceUpdate, mtu: Int?) {
        self.update = update
        self.mtu = mtu
    }

    private static func file(_ text: String, _ mark: UInt32?, _ timeout: Duration) throws(Failure) -> Self {
        let configuration: TunnelConfiguration
        do throws(ConfigurationErrors) {
            configuration = try TunnelConfiguration.parse(text)
        } catch {
            throw Failure(CULVERT_INVALID_CONFIGURATION, error.description)
        }
        let endpoints: ResolvedEndpoints
        do throws(WireGuardDeviceError) {
            endpoints = try ResolvedEndpoints(of: configuration, within: timeout)
        } catch {
            throw Failure(error)
        }
        do throws(UnresolvedEndpoint) {
            var update = try configuration.deviceUpdate(resolve: endpoints.endpoint)
            // A file resets what it omits, but the caller's mark takes precedence over the file's.
            if configuration.interface.fwMark == nil, let mark { update.fwMark = mark }
            return Self(update: update, mtu: configuration.interface.mtu.map(Int.init))
        } catch {
            throw Failure(CULVERT_NO_ADDRESS, error.description)
        }
    }

    private static func request(_ text: String) throws(Failure) -> Self {
        var parser = UAPIRequestParser(resolveZone: { name in
            let index = unsafe if_nametoindex(name)
            return index == 0 ? nil : index
        })
        var bytes = Array("set=1\n".utf8)
        // A blank line would end the request.
        for line in text.split(whereSeparator: \.isNewline) where line.contains(where: { !$0.isWhitespace }) {
            bytes += line.utf8
            bytes.append(UInt8(ascii: "\n"))
        }
        defer { for index in bytes.indices { bytes[index] = 0 } }
        parser.feed(bytes)
        parser.finish()
        switch parser.next() {
        case .success(.set(let update)): return Self(update: update, mtu: nil)
        case .failure(let error):
            throw Failure(CULVERT_INVALID_CONFIGURATION, "configuration, \(error.description)")
        case .success(.get), nil:
            throw Failure(CULVERT_INVALID_CONFIGURATION, "the configuration is empty")
        }
    }
}
