// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

// For Apple's targets only, where nothing of it is executed. Which types `as` takes for each other, as in
// https://developer.apple.com/documentation/swift/working-with-foundation-types
// The bridging itself is Objective-C's, and is not here: casts between these are known to the compiler, and that is all.

extension Data: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSData { NSData(data: self) }

    public static func _forceBridgeFromObjectiveC(_ source: NSData, result: inout Data?) { result = bridged(source) }

    public static func _conditionallyBridgeFromObjectiveC(_ source: NSData, result: inout Data?) -> Bool {
        result = bridged(source)
        return true
    }

    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSData?) -> Data {
        source.map(bridged) ?? Data()
    }

    private static func bridged(_ source: NSData) -> Data { source.content }
}

extension String: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSString { NSString(string: self) }

    public static func _forceBridgeFromObjectiveC(_ source: NSString, result: inout String?) {
        result = bridged(source)
    }

    public static func _conditionallyBridgeFromObjectiveC(_ source: NSString, result: inout String?) -> Bool {
        result = bridged(source)
        return true
    }

    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSString?) -> String {
        source.map(bridged) ?? ""
    }

    private static func bridged(_ source: NSString) -> String { source.text }
}

extension Array: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSArray { NSArray(array: self.map { $0 as Any }) }

    public static func _forceBridgeFromObjectiveC(_ source: NSArray, result: inout [Element]?) {
        result = bridged(source)
    }

    public static func _conditionallyBridgeFromObjectiveC(_ source: NSArray, result: inout [Element]?) -> Bool {
        result = bridged(source)
        return true
    }

    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSArray?) -> [Element] {
        source.map(bridged) ?? []
    }

    private static func bridged(_ source: NSArray) -> [Element] { source.elements.compactMap { $0 as? Element } }
}

extension Dictionary: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSDictionary { NSDictionary(entries: self) }

    public static func _forceBridgeFromObjectiveC(_ source: NSDictionary, result: inout [Key: Value]?) {
        result = bridged(source)
    }

    public static func _conditionallyBridgeFromObjectiveC(_ source: NSDictionary, result: inout [Key: Value]?) -> Bool {
        result = bridged(source)
        return true
    }

    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSDictionary?) -> [Key: Value] {
        source.map(bridged) ?? [:]
    }

    private static func bridged(_ source: NSDictionary) -> [Key: Value] {
        Dictionary(
            source.entries.compactMap { entry in
                (entry.key.base as? Key).flatMap { key in (entry.value as? Value).map { (key, $0) } }
            }
        ) { $1 }
    }
}

extension Bool: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSNumber { NSNumber(value: self) }

    public static func _forceBridgeFromObjectiveC(_ source: NSNumber, result: inout Bool?) { result = bridged(source) }

    public static func _conditionallyBridgeFromObjectiveC(_ source: NSNumber, result: inout Bool?) -> Bool {
        result = bridged(source)
        return true
    }

    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSNumber?) -> Bool {
        source.map(bridged) ?? false
    }

    private static func bridged(_ source: NSNumber) -> Bool { source.boolValue }
}

extension Int: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSNumber { NSNumber(value: self) }

    public static func _forceBridgeFromObjectiveC(_ source: NSNumber, result: inout Int?) { result = bridged(source) }

    public static func _conditionallyBridgeFromObjectiveC(_ source: NSNumber, result: inout Int?) -> Bool {
        result = bridged(source)
        return true
    }

    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSNumber?) -> Int {
        source.map(bridged) ?? 0
    }

    private static func bridged(_ source: NSNumber) -> Int { source.intValue }
}

extension Date: _ObjectiveCBridgeable {
    public func _bridgeToObjectiveC() -> NSDate {
        NSDate(timeIntervalSinceReferenceDate: timeIntervalSinceReferenceDate)
    }

    public static func _forceBridgeFromObjectiveC(_ source: NSDate, result: inout Date?) { result = bridged(source) }

    public static func _conditionallyBridgeFromObjectiveC(_ source: NSDate, result: inout Date?) -> Bool {
        result = bridged(source)
        return true
    }

    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSDate?) -> Date {
        source.map(bridged) ?? Date()
    }

    private static func bridged(_ source: NSDate) -> Date {
        Date(timeIntervalSinceReferenceDate: source.timeIntervalSinceReferenceDate)
    }
}
