// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

internal import CCulvert
import TunnelIO
import WireGuardCore
import WireGuardDevice

/// Looks the names of endpoints up, all at once and with a deadline.
enum EndpointLookup {
    /// The addresses of those endpoints whose host is a name.
    /// - Parameter timeout: for all of them together.
    static func resolve(
        _ endpoints: [EndpointAddress], within timeout: Duration
    ) throws(Failure) -> [EndpointAddress: Endpoint] {
        let names = Set(endpoints.filter { $0.endpoint == nil })
        guard !names.isEmpty else { return [:] }
        let answers = Monitor<[EndpointAddress: Answer]>([:])
        for name in names {
            do throws(TunnelIOError) {
                // A lookup cannot be cancelled; one that hangs is left to itself.
                _ = try LoopThread(name: "culvert-lookup") {
                    let answer = lookUp(name)
                    answers.update {
                        $0[name] = answer
                        return $0.count == names.count
                    }
                }
            } catch {
                throw Failure(error)
            }
        }
        let deadline = LaneClock.deadline(after: timeout)
        _ = answers.wait(until: deadline) { $0.count == names.count ? () : nil }
        let found = answers.withValue { $0 }
        var result: [EndpointAddress: Endpoint] = [:]
        for name in names {
            guard let answer = found[name] else {
                throw Failure(CULVERT_NO_ADDRESS, "the host of \(name) was not found within \(timeout)")
            }
            result[name] = try answer.get()
        }
        return result
    }

    private typealias Answer = Result<Endpoint, Failure>

    /// The system's first address.
    private static func lookUp(_ name: EndpointAddress) -> Answer {
        let reason: String
        do throws(HostLookupFailure) {
            if let first = try HostLookup.endpoints(of: name.host, port: name.port).first {
                return .success(Endpoint(first))
            }
            reason = "the answer is empty"
        } catch {
            reason = error.reason
        }
        return .failure(Failure(CULVERT_NO_ADDRESS, "the host of \(name) has no address: \(reason)"))
    }
}
