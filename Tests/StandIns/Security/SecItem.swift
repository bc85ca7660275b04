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

public var kSecClass: CFString { key("class") }
public var kSecClassIdentity: CFString { key("idnt") }
public var kSecClassGenericPassword: CFString { key("genp") }
public var kSecAttrService: CFString { key("svce") }
public var kSecAttrAccount: CFString { key("acct") }
public var kSecAttrLabel: CFString { key("labl") }
public var kSecAttrApplicationTag: CFString { key("atag") }
public var kSecAttrDescription: CFString { key("desc") }
public var kSecAttrAccessGroup: CFString { key("agrp") }
public var kSecAttrAccessible: CFString { key("pdmn") }
public var kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly: CFString { key("cku") }
public var kSecAttrSynchronizable: CFString { key("sync") }
public var kSecUseDataProtectionKeychain: CFString { key("nleg") }
public var kSecValueData: CFString { key("v_Data") }
public var kSecValuePersistentRef: CFString { key("v_PersistentRef") }
public var kSecValueRef: CFString { key("v_Ref") }
public var kSecReturnRef: CFString { key("r_Ref") }
public var kSecReturnData: CFString { key("r_Data") }
public var kSecReturnAttributes: CFString { key("r_Attributes") }
public var kSecReturnPersistentRef: CFString { key("r_PersistentRef") }
public var kSecMatchLimit: CFString { key("m_Limit") }
public var kSecMatchLimitOne: CFString { key("m_LimitOne") }
public var kSecMatchLimitAll: CFString { key("m_LimitAll") }

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
