// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation

/// The keychain of the process: generic passwords, found by class, service, account, access group or persistent
/// reference, and identities, found by persistent reference or application tag.
public enum StandInKeychain {
    private struct Item {
        var attributes: [String: Any]
        var reference: Data
    }

    private final class Store: @unchecked Sendable {
        let lock = NSLock()
        var items: [Item] = []
        var next: UInt32 = 1
        var failures: [String: OSStatus] = [:]
        var writeFailures: [String: OSStatus] = [:]
    }

    private static let store = Store()

    // MARK: - For tests

    /// Makes every call about this service end with `status`; nil ends that.
    public static func fail(_ service: String, with status: OSStatus?) {
        store.lock.withLock { store.failures[service] = status }
    }

    /// Makes every call that adds or changes items of this service end with `status`; nil ends that.
    public static func failWrites(_ service: String, with status: OSStatus?) {
        store.lock.withLock { store.writeFailures[service] = status }
    }

    /// Makes every call about this reference end with `status`; nil ends that.
    public static func fail(reference: Data, with status: OSStatus?) {
        store.lock.withLock { store.failures[reference.base64EncodedString()] = status }
    }

    /// The items of a service: account, and attributes by their short names.
    public static func items(of service: String) -> [String: [String: String]] {
        store.lock.withLock {
            var found: [String: [String: String]] = [:]
            for item in store.items where item.attributes["svce"] as? String == service {
                found[item.attributes["acct"] as? String ?? ""] = item.attributes.compactMapValues { $0 as? String }
            }
            return found
        }
    }

    // MARK: - The calls

    private static let identity = ["class", "svce", "acct", "agrp"]

    private static func strings(_ dictionary: NSDictionary) -> [String: Any] {
        var result: [String: Any] = [:]
        for (key, value) in dictionary {
            guard let key = key as? String ?? (key as? NSString).map({ String($0.description) }) else { continue }
            result[key] = (value as? NSString).map { $0.description } ?? value
        }
        return result
    }

    private static func failure(_ attributes: [String: Any], writes: Bool = false) -> OSStatus? {
        let name = attributes["svce"] as? String ?? (attributes["v_PersistentRef"] as? Data)?.base64EncodedString()
        return name.flatMap { store.failures[$0] ?? (writes ? store.writeFailures[$0] : nil) }
    }

    static func add(_ attributes: NSDictionary, _ result: UnsafeMutablePointer<AnyObject?>?) -> OSStatus {
        store.lock.withLock {
            let attributes = strings(attributes)
            if let failure = failure(attributes, writes: true) { return failure }
            if attributes["v_Ref"] is SecIdentity { return addIdentity(attributes, result) }
            guard attributes["class"] as? String == "genp", attributes["v_Data"] is Data else { return errSecParam }
            let isTaken = store.items.contains { item in
                identity.allSatisfy { item.attributes[$0] as? String == attributes[$0] as? String }
            }
            guard !isTaken else { return errSecDuplicateItem }
            let reference = Data("genp".utf8) + withUnsafeBytes(of: store.next.bigEndian) { Data($0) }
            store.next += 1
            var kept = attributes
            for key in kept.keys where key.hasPrefix("r_") { kept[key] = nil }
            store.items.append(Item(attributes: kept, reference: reference))
            if attributes["r_PersistentRef"] as? Bool == true { result?.pointee = NSData(data: reference) }
            return errSecSuccess
        }
    }

    private static func addIdentity(_ attributes: [String: Any], _ result: UnsafeMutablePointer<AnyObject?>?)
        -> OSStatus
    {
        let reference = Data("idnt".utf8) + withUnsafeBytes(of: store.next.bigEndian) { Data($0) }
        store.next += 1
        var kept = attributes.filter { !$0.key.hasPrefix("r_") }
        kept["class"] = "idnt"
        store.items.append(Item(attributes: kept, reference: reference))
        if attributes["r_PersistentRef"] as? Bool == true { result?.pointee = NSData(data: reference) }
        return errSecSuccess
    }

    private static func matches(_ item: Item, _ query: [String: Any]) -> Bool {
        if let reference = query["v_PersistentRef"] as? Data { return item.reference == reference }
        if let tag = query["atag"] as? Data, item.attributes["atag"] as? Data != tag { return false }
        return identity.allSatisfy { key in
            query[key] == nil || item.attributes[key] as? String == query[key] as? String
        }
    }

    static func find(_ query: NSDictionary, _ result: UnsafeMutablePointer<AnyObject?>?) -> OSStatus {
        store.lock.withLock {
            let query = strings(query)
            if let failure = failure(query) { return failure }
            let found = store.items.filter { matches($0, query) }
            guard let first = found.first else { return errSecItemNotFound }
            if query["m_Limit"] as? String == "m_LimitAll" {
                // With data the system refuses to give all.
                guard query["r_Data"] as? Bool != true else { return errSecParam }
                result?.pointee = NSArray(array: found.map { value(of: $0, query) })
            } else {
                result?.pointee = value(of: first, query)
            }
            return errSecSuccess
        }
    }

    private static func value(of item: Item, _ query: [String: Any]) -> NSObject {
        if query["r_Ref"] as? Bool == true, let value = item.attributes["v_Ref"] as? NSObject { return value }
        let data = item.attributes["v_Data"] as? Data ?? Data()
        if query["r_Attributes"] as? Bool == true {
            let attributes = NSMutableDictionary()
            for (key, value) in item.attributes where key != "v_Data" {
                if let value = value as? String { attributes[NSString(string: key)] = NSString(string: value) }
            }
            if query["r_PersistentRef"] as? Bool == true {
                attributes[NSString(string: "v_PersistentRef")] = NSData(data: item.reference)
            }
            if query["r_Data"] as? Bool == true { attributes[NSString(string: "v_Data")] = NSData(data: data) }
            return attributes
        }
        return query["r_PersistentRef"] as? Bool == true ? NSData(data: item.reference) : NSData(data: data)
    }

    static func update(_ query: NSDictionary, _ changes: NSDictionary) -> OSStatus {
        store.lock.withLock {
            let (query, changes) = (strings(query), strings(changes))
            if let failure = failure(query, writes: true) { return failure }
            var count = 0
            for index in store.items.indices where matches(store.items[index], query) {
                store.items[index].attributes.merge(changes) { $1 }
                count += 1
            }
            return count > 0 ? errSecSuccess : errSecItemNotFound
        }
    }

    static func delete(_ query: NSDictionary) -> OSStatus {
        store.lock.withLock {
            let query = strings(query)
            if let failure = failure(query) { return failure }
            let before = store.items.count
            store.items.removeAll { matches($0, query) }
            return store.items.count < before ? errSecSuccess : errSecItemNotFound
        }
    }
}
