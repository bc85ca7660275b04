// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

import Foundation

// Stand-ins with the signatures of
// https://developer.apple.com/documentation/security/secitemadd(_:_:)
// https://developer.apple.com/documentation/security/secitemcopymatching(_:_:)
// https://developer.apple.com/documentation/security/secitemupdate(_:_:)
// https://developer.apple.com/documentation/security/secitemdelete(_:)
// https://developer.apple.com/documentation/security/item-attribute-keys-and-values
//
// Core Foundation's types are Swift's and Foundation's here: what is written to be compiled there and here makes
// dictionaries with `NSDictionary`, and gets data with `as? Data`.

public typealias OSStatus = Int32
public typealias CFString = NSString
public typealias CFDictionary = NSDictionary
public typealias CFTypeRef = AnyObject

public let errSecSuccess: OSStatus = 0
public let errSecParam: OSStatus = -50
public let errSecItemNotFound: OSStatus = -25300
public let errSecDuplicateItem: OSStatus = -25299
public let errSecInteractionNotAllowed: OSStatus = -25308
public let errSecMissingEntitlement: OSStatus = -34018

private func key(_ text: String) -> CFString { NSString(string: text) }

nonisolated(unsafe) public let kSecClass = key("class")
nonisolated(unsafe) public let kSecClassGenericPassword = key("genp")
nonisolated(unsafe) public let kSecAttrService = key("svce")
nonisolated(unsafe) public let kSecAttrAccount = key("acct")
nonisolated(unsafe) public let kSecAttrLabel = key("labl")
nonisolated(unsafe) public let kSecAttrDescription = key("desc")
nonisolated(unsafe) public let kSecAttrAccessGroup = key("agrp")
nonisolated(unsafe) public let kSecAttrAccessible = key("pdmn")
nonisolated(unsafe) public let kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly = key("cku")
nonisolated(unsafe) public let kSecAttrSynchronizable = key("sync")
nonisolated(unsafe) public let kSecUseDataProtectionKeychain = key("nleg")
nonisolated(unsafe) public let kSecValueData = key("v_Data")
nonisolated(unsafe) public let kSecValuePersistentRef = key("v_PersistentRef")
nonisolated(unsafe) public let kSecReturnData = key("r_Data")
nonisolated(unsafe) public let kSecReturnAttributes = key("r_Attributes")
nonisolated(unsafe) public let kSecReturnPersistentRef = key("r_PersistentRef")
nonisolated(unsafe) public let kSecMatchLimit = key("m_Limit")
nonisolated(unsafe) public let kSecMatchLimitOne = key("m_LimitOne")
nonisolated(unsafe) public let kSecMatchLimitAll = key("m_LimitAll")

public func SecItemAdd(_ attributes: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    StandInKeychain.add(attributes, result)
}

public func SecItemCopyMatching(_ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    StandInKeychain.find(query, result)
}

public func SecItemUpdate(_ query: CFDictionary, _ attributesToUpdate: CFDictionary) -> OSStatus {
    StandInKeychain.update(query, attributesToUpdate)
}

public func SecItemDelete(_ query: CFDictionary) -> OSStatus { StandInKeychain.delete(query) }

public func SecCopyErrorMessageString(_ status: OSStatus, _ reserved: UnsafeMutableRawPointer?) -> CFString? {
    NSString(string: "keychain status \(status)")
}
