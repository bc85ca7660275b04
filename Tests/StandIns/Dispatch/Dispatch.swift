// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

// For Apple's targets only, where nothing of it is executed; Linux has a Dispatch of its own. Stand-ins with the signatures of
// https://developer.apple.com/documentation/dispatch/dispatchqueue
// https://developer.apple.com/documentation/dispatch/dispatchsemaphore
// https://developer.apple.com/documentation/dispatch/dispatchtime
// https://developer.apple.com/documentation/dispatch/dispatchtimeinterval
// https://developer.apple.com/documentation/dispatch/dispatchqos

public struct DispatchQoS: Equatable, Sendable {
    public enum QoSClass: Sendable {
        case background
        case utility
        case `default`
        case userInitiated
        case userInteractive
        case unspecified
    }

    public let qosClass: QoSClass
    public static let background = DispatchQoS(qosClass: .background)
    public static let utility = DispatchQoS(qosClass: .utility)
    public static let `default` = DispatchQoS(qosClass: .default)
    public static let userInitiated = DispatchQoS(qosClass: .userInitiated)
    public static let userInteractive = DispatchQoS(qosClass: .userInteractive)
    public static let unspecified = DispatchQoS(qosClass: .unspecified)
}

open class DispatchObject: @unchecked Sendable {
    init() {}
}

public final class DispatchQueue: DispatchObject, @unchecked Sendable {
    public struct Attributes: OptionSet, Sendable {
        public let rawValue: UInt64
        public init(rawValue: UInt64) { self.rawValue = rawValue }
        public static let concurrent = Attributes(rawValue: 2)
    }

    public let label: String

    public init(label: String, qos: DispatchQoS = .unspecified, attributes: Attributes = []) { self.label = label }

    public class var main: DispatchQueue { DispatchQueue(label: "main") }

    public class func global(qos: DispatchQoS.QoSClass = .default) -> DispatchQueue { DispatchQueue(label: "global") }

    public func async(execute work: @escaping @Sendable () -> Void) { work() }

    public func asyncAfter(deadline: DispatchTime, execute work: @escaping @Sendable () -> Void) {
        work()
    }

    public func sync<T>(execute work: () throws -> T) rethrows -> T { try work() }
}

open class DispatchSemaphore: DispatchObject, @unchecked Sendable {
    public init(value: Int) {}

    public func wait() {}

    public func wait(timeout: DispatchTime) -> DispatchTimeoutResult { .timedOut }

    @discardableResult
    public func signal() -> Int { 0 }
}

open class DispatchGroup: DispatchObject, @unchecked Sendable {
    public override init() { super.init() }

    public func enter() {}

    public func leave() {}

    public func wait() {}

    public func wait(timeout: DispatchTime) -> DispatchTimeoutResult { .timedOut }
}

public enum DispatchTimeoutResult: Sendable {
    case success
    case timedOut
}

public enum DispatchTimeInterval: Equatable, Sendable {
    case seconds(Int)
    case milliseconds(Int)
    case microseconds(Int)
    case nanoseconds(Int)
    case never
}

public struct DispatchTime: Comparable, Sendable {
    public let uptimeNanoseconds: UInt64

    public init(uptimeNanoseconds: UInt64) { self.uptimeNanoseconds = uptimeNanoseconds }

    public static func now() -> DispatchTime { DispatchTime(uptimeNanoseconds: 0) }

    public static let distantFuture = DispatchTime(uptimeNanoseconds: .max)

    public static func < (a: DispatchTime, b: DispatchTime) -> Bool { a.uptimeNanoseconds < b.uptimeNanoseconds }
}

public func + (time: DispatchTime, interval: DispatchTimeInterval) -> DispatchTime { time }

public func + (time: DispatchTime, seconds: Double) -> DispatchTime { time }
