// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

// For Apple's targets only, where nothing of it is executed; Linux has a Foundation of its own. What open-source Foundation
// declares as values (Data, Date, URL, JSON) is its own declarations; the classes here have the signatures of
// https://developer.apple.com/documentation/objectivec/nsobject-swift.class
// https://developer.apple.com/documentation/foundation/nserror
// https://developer.apple.com/documentation/foundation/customnserror
// and where they say less, those of the open-source Foundation's classes of the same names.

@_exported import Dispatch
@_exported import FoundationValues

public protocol NSObjectProtocol: AnyObject {
    func isEqual(_ object: Any?) -> Bool
    var hash: Int { get }
    var description: String { get }
}

open class NSObject: NSObjectProtocol, Equatable, Hashable, CustomStringConvertible {
    public init() {}

    open func copy() -> Any { self }

    open func mutableCopy() -> Any { self }

    open func isEqual(_ object: Any?) -> Bool { (object as AnyObject?) === self }

    open var hash: Int { ObjectIdentifier(self).hashValue }

    open var description: String { "" }

    public static func == (a: NSObject, b: NSObject) -> Bool { a.isEqual(b) }

    public func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}

open class NSCoder: NSObject {}

open class NSNull: NSObject {}

// MARK: - Errors

public let NSLocalizedDescriptionKey = "NSLocalizedDescription"
public let NSUnderlyingErrorKey = "NSUnderlyingError"
public let NSOSStatusErrorDomain = "NSOSStatusErrorDomain"
public let NSPOSIXErrorDomain = "NSPOSIXErrorDomain"
public let NSURLErrorDomain = "NSURLErrorDomain"

open class NSError: NSObject, Error, @unchecked Sendable {
    public init(domain: String, code: Int, userInfo dict: [String: Any]? = nil) {
        (self.domain, self.code, userInfo) = (domain, code, dict ?? [:])
        super.init()
    }

    public let domain: String
    public let code: Int
    public let userInfo: [String: Any]
    open var localizedDescription: String { userInfo[NSLocalizedDescriptionKey] as? String ?? "" }
}

public protocol CustomNSError: Error {
    static var errorDomain: String { get }
    var errorCode: Int { get }
    var errorUserInfo: [String: Any] { get }
}

extension CustomNSError {
    public static var errorDomain: String { "" }
    public var errorCode: Int { 0 }
    public var errorUserInfo: [String: Any] { [:] }
}

extension Error {
    public var localizedDescription: String { "" }
}

/// Called by the compiler for `error as NSError` if there is no Objective-C.
public func _convertErrorToNSError(_ error: any Error) -> NSError { NSError(domain: "", code: 0) }

public func _convertNSErrorToError(_ error: NSError?) -> any Error { error ?? NSError(domain: "", code: 0) }

// MARK: - Locks

public protocol NSLocking {
    func lock()
    func unlock()
}

extension NSLocking {
    public func withLock<R>(_ body: () throws -> R) rethrows -> R {
        lock()
        defer { unlock() }
        return try body()
    }
}

open class NSLock: NSObject, NSLocking, @unchecked Sendable {
    open func lock() {}
    open func unlock() {}
    open func `try`() -> Bool { true }
}

open class NSRecursiveLock: NSObject, NSLocking, @unchecked Sendable {
    open func lock() {}
    open func unlock() {}
}
