// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

// For Apple's targets only, where nothing of it is executed. Stand-ins with the signatures of
// https://developer.apple.com/documentation/foundation/notificationcenter
// https://developer.apple.com/documentation/foundation/nsnotification/name-swift.struct
// https://developer.apple.com/documentation/foundation/bundle
// https://developer.apple.com/documentation/foundation/thread
// https://developer.apple.com/documentation/foundation/filemanager/containerurl(forsecurityapplicationgroupidentifier:)

open class OperationQueue: NSObject, @unchecked Sendable {
    open class var main: OperationQueue { OperationQueue() }
}

open class NSNotification: NSObject {
    public struct Name: RawRepresentable, Hashable, Sendable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }
        public init(_ rawValue: String) { self.rawValue = rawValue }
    }
}

public struct Notification {
    public typealias Name = NSNotification.Name
    public var name: Name
    public var object: Any?
    public var userInfo: [AnyHashable: Any]?

    public init(name: Name, object: Any? = nil, userInfo: [AnyHashable: Any]? = nil) {
        (self.name, self.object, self.userInfo) = (name, object, userInfo)
    }
}

extension NotificationCenter {
    public func addObserver(
        forName name: NSNotification.Name?, object obj: Any?, queue: OperationQueue?,
        using block: @escaping @Sendable (Notification) -> Void
    ) -> any NSObjectProtocol { NSObject() }

    public func removeObserver(_ observer: Any) {}

    public func post(name: NSNotification.Name, object: Any?, userInfo: [AnyHashable: Any]? = nil) {}
}

open class Bundle: NSObject, @unchecked Sendable {
    open class var main: Bundle { Bundle() }

    open var bundleIdentifier: String? { nil }

    open func object(forInfoDictionaryKey key: String) -> Any? { nil }

    open func url(forResource name: String?, withExtension ext: String?) -> URL? { nil }
}

open class Thread: NSObject, @unchecked Sendable {
    private let block: @Sendable () -> Void

    public init(block: @escaping @Sendable () -> Void) { self.block = block }

    open func start() { block() }

    open class func sleep(forTimeInterval seconds: Double) {}

    open class var isMainThread: Bool { true }

    open var stackSize: Int {
        get { 0 }
        set {}
    }

    open var name: String? {
        get { nil }
        set {}
    }
}

extension FileManager {
    public func containerURL(forSecurityApplicationGroupIdentifier groupIdentifier: String) -> URL? { nil }
}
