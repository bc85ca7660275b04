// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors
// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation, AlwaysUseLowerCamelCase

/// `autoreleasepool(invoking:)` of https://developer.apple.com/documentation/objectivec/autoreleasepool(invoking:),
/// which NetworkExtension brings with Foundation there. It counts, so that a test can see that one was used.
public func autoreleasepool<Result>(invoking body: () throws -> Result) rethrows -> Result {
    StandInPools.enter()
    defer { StandInPools.leave() }
    return try body()
}
