// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

// For Apple's targets only, where nothing of it is executed. Stand-ins with the signatures of
// https://developer.apple.com/documentation/foundation/nsnumber
// https://developer.apple.com/documentation/foundation/nsstring
// https://developer.apple.com/documentation/foundation/nsdata
// https://developer.apple.com/documentation/foundation/nsdate
// https://developer.apple.com/documentation/foundation/nsarray
// https://developer.apple.com/documentation/foundation/nsdictionary
// The conversions that Swift has without Objective-C are in Bridging.swift.

open class NSValue: NSObject {}

open class NSNumber: NSValue, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral, ExpressibleByBooleanLiteral,
    @unchecked Sendable
{
    private let number: Double

    init(number: Double) { self.number = number }

    public convenience init(value: Int) { self.init(number: Double(value)) }
    public convenience init(value: Int32) { self.init(number: Double(value)) }
    public convenience init(value: UInt8) { self.init(number: Double(value)) }
    public convenience init(value: UInt16) { self.init(number: Double(value)) }
    public convenience init(value: UInt32) { self.init(number: Double(value)) }
    public convenience init(value: Double) { self.init(number: value) }
    public convenience init(value: Bool) { self.init(number: value ? 1 : 0) }
    public convenience init(_ value: Bool) { self.init(value: value) }
    public convenience init(_ value: Int) { self.init(value: value) }
    public convenience init(_ value: UInt8) { self.init(value: value) }
    public required convenience init(integerLiteral value: Int) { self.init(value: value) }
    public required convenience init(floatLiteral value: Double) { self.init(value: value) }
    public required convenience init(booleanLiteral value: Bool) { self.init(value: value) }

    open var boolValue: Bool { number != 0 }
    open var intValue: Int { Int(number) }
    open var int32Value: Int32 { Int32(number) }
    open var uint8Value: UInt8 { UInt8(number) }
    open var doubleValue: Double { number }
    open var stringValue: String { "\(number)" }
}

open class NSString: NSObject, ExpressibleByStringLiteral, @unchecked Sendable {
    let text: String

    public init(string: String) { text = string }

    public required convenience init(stringLiteral value: StaticString) { self.init(string: value.description) }

    open override var description: String { text }
}

open class NSData: NSObject, @unchecked Sendable {
    let content: Data

    public init(data: Data) { content = data }

    open var length: Int { content.count }
}

extension Data {
    public init(referencing reference: NSData) { self = reference.content }
}

open class NSDate: NSObject, @unchecked Sendable {
    public let timeIntervalSinceReferenceDate: Double

    public init(timeIntervalSinceReferenceDate seconds: Double) { timeIntervalSinceReferenceDate = seconds }

    public convenience init(timeIntervalSince1970 seconds: Double) {
        self.init(timeIntervalSinceReferenceDate: seconds - 978_307_200)
    }
}

open class NSArray: NSObject, ExpressibleByArrayLiteral, Sequence, @unchecked Sendable {
    let elements: [Any]

    public init(array: [Any]) { elements = array }

    public convenience init(object: Any) { self.init(array: [object]) }

    public required convenience init(arrayLiteral elements: Any...) { self.init(array: elements) }

    open var count: Int { elements.count }

    open subscript(index: Int) -> Any { elements[index] }

    public func makeIterator() -> IndexingIterator<[Any]> { elements.makeIterator() }
}

open class NSDictionary: NSObject, ExpressibleByDictionaryLiteral, Sequence, @unchecked Sendable {
    var entries: [(key: AnyHashable, value: Any)] = []

    public override init() { super.init() }

    convenience init<Key: Hashable, Value>(entries: [Key: Value]) {
        self.init()
        self.entries = entries.map { (AnyHashable($0.key), $0.value as Any) }
    }

    public required convenience init(dictionaryLiteral elements: (Any, Any)...) {
        self.init()
        for (key, value) in elements { if let key = key as? AnyHashable { entries.append((key, value)) } }
    }

    open var count: Int { entries.count }

    open subscript(key: Any) -> Any? { entries.first { $0.key == key as? AnyHashable }?.value }

    open var allKeys: [Any] { entries.map(\.key) }

    public func makeIterator() -> IndexingIterator<[(key: Any, value: Any)]> {
        entries.map { (key: $0.key as Any, value: $0.value) }.makeIterator()
    }
}

open class NSMutableDictionary: NSDictionary, @unchecked Sendable {
    public override init() { super.init() }

    open override subscript(key: Any) -> Any? {
        get { super[key] }
        set {
            guard let key = key as? AnyHashable else { return }
            entries.removeAll { $0.key == key }
            if let newValue { entries.append((key, newValue)) }
        }
    }
}

/// https://developer.apple.com/documentation/foundation/indexset
public struct IndexSet: Hashable, Sendable, Sequence {
    private var indices: Set<Int> = []

    public init() {}

    public func makeIterator() -> IndexingIterator<[Int]> { indices.sorted().makeIterator() }
}

/// https://developer.apple.com/documentation/foundation/bytecountformatstyle
public struct ByteCountFormatStyle: FormatStyle, Sendable {
    public enum Style: Int, Codable, Hashable, Sendable {
        case file = 0
        case memory
        case decimal
        case binary
    }

    let style: Style

    public func format(_ value: Int64) -> String { "\(value)" }
}

extension FormatStyle where Self == ByteCountFormatStyle {
    public static func byteCount(style: ByteCountFormatStyle.Style) -> Self { ByteCountFormatStyle(style: style) }
}

extension BinaryInteger {
    public func formatted<S: FormatStyle>(_ format: S) -> S.FormatOutput where S.FormatInput: BinaryInteger {
        format.format(S.FormatInput(truncatingIfNeeded: self))
    }
}
