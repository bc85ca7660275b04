// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import Foundation
import PacketTunnel
import Security

/// Generic passwords of one service in the keychain: bytes by account.
///
/// The items stay on the device. They can be read from the first unlock after a boot on, which a tunnel that starts on
/// demand needs.
struct KeychainItems: Hashable, Sendable {
    /// The service name of all items.
    var service: String
    /// The group of programs that may read them; `nil` for this program only.
    var accessGroup: String?

    private func query(_ account: String? = nil) -> NSMutableDictionary {
        let query = NSMutableDictionary()
        query[kSecClass] = kSecClassGenericPassword
        query[kSecAttrService] = NSString(string: service)
        query[kSecUseDataProtectionKeychain] = NSNumber(value: true)
        if let account { query[kSecAttrAccount] = NSString(string: account) }
        if let accessGroup { query[kSecAttrAccessGroup] = NSString(string: accessGroup) }
        return query
    }

    private func final(_ dictionary: NSDictionary) -> CFDictionary { dictionary as CFDictionary }

    /// The bytes of an account; `nil` if there are none.
    /// - Throws: `.storage`.
    func read(_ account: String) throws(TunnelError) -> [UInt8]? {
        let query = query(account)
        query[kSecMatchLimit] = kSecMatchLimitOne
        query[kSecReturnData] = NSNumber(value: true)
        guard let found = try copy(query) else { return nil }
        return try data(found)
    }

    /// Returns the bytes of the item with a persistent reference, or `nil` if it does not exist.
    /// - Throws: `.storage`.
    static func read(reference: [UInt8]) throws(TunnelError) -> [UInt8]? {
        let query = NSMutableDictionary()
        query[kSecClass] = kSecClassGenericPassword
        query[kSecValuePersistentRef] = NSData(data: Data(reference))
        query[kSecUseDataProtectionKeychain] = NSNumber(value: true)
        query[kSecReturnData] = NSNumber(value: true)
        let items = KeychainItems(service: "")
        guard let found = try items.copy(query) else { return nil }
        return try items.data(found)
    }

    /// The accounts that have bytes, sorted.
    /// - Throws: `.storage`.
    func accounts() throws(TunnelError) -> [String] {
        let query = query()
        query[kSecMatchLimit] = kSecMatchLimitAll
        query[kSecReturnAttributes] = NSNumber(value: true)
        guard let found = try copy(query) as? NSArray else { return [] }
        return found.compactMap { ($0 as? NSDictionary)?[kSecAttrAccount] as? String }.sorted()
    }

    /// Saves bytes, and replaces the previous ones. An item that is changed keeps its reference.
    /// - Returns: The item's persistent reference.
    /// - Throws: `.storage`.
    @discardableResult
    func write(_ bytes: [UInt8], _ account: String, label: String) throws(TunnelError) -> [UInt8] {
        func fill(_ item: NSMutableDictionary) -> NSMutableDictionary {
            item[kSecValueData] = NSData(data: Data(bytes))
            item[kSecAttrLabel] = NSString(string: label)
            return item
        }
        let updated = SecItemUpdate(final(query(account)), final(fill(NSMutableDictionary())))
        if updated == errSecItemNotFound {
            let item = fill(query(account))
            item[kSecAttrAccessible] = kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
            try check(SecItemAdd(final(item), nil), "write")
        } else {
            try check(updated, "write")
        }
        let query = query(account)
        query[kSecReturnPersistentRef] = NSNumber(value: true)
        guard let reference = try copy(query) else { throw failure(errSecItemNotFound, "find") }
        return try data(reference)
    }

    /// Removes the bytes of an account, if there are any.
    /// - Throws: `.storage`.
    func remove(_ account: String) throws(TunnelError) {
        let status = SecItemDelete(final(query(account)))
        if status != errSecItemNotFound { try check(status, "remove") }
    }

    private func copy(_ query: NSMutableDictionary) throws(TunnelError) -> CFTypeRef? {
        var result: CFTypeRef?
        let status = unsafe SecItemCopyMatching(final(query), &result)
        if status == errSecItemNotFound { return nil }
        try check(status, "read")
        return result
    }

    private func data(_ result: CFTypeRef) throws(TunnelError) -> [UInt8] {
        guard let data = result as? Data else { throw failure(errSecParam, "read") }
        return Array(data)
    }

    private func check(_ status: OSStatus, _ operation: String) throws(TunnelError) {
        if status != errSecSuccess { throw failure(status, operation) }
    }

    private func failure(_ status: OSStatus, _ operation: String) -> TunnelError {
        let text = SecCopyErrorMessageString(status, nil).map { String(describing: $0) } ?? ""
        let fix =
            switch status {
            case errSecInteractionNotAllowed: "unlock the device once after it was started"
            case errSecMissingEntitlement: "give app and extension the entitlement for the keychain access group"
            default: ""
            }
        return TunnelError(.storage, "the keychain did not \(operation) an item: \(text) (\(status))", fix: fix)
    }
}
