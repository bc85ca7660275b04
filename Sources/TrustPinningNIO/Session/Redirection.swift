// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

import NIOHTTP1
import TrustPinning

extension PinnedRequest {
    /// The request that follows an answer, or nil where the answer is the last.
    /// - Throws: when it leads to where it may not.
    func redirected(
        by response: PinnedResponse, _ redirection: Redirection
    ) throws(PinnedSessionError) -> (request: PinnedRequest, limit: Int)? {
        let next = try redirection.next(
            after: url, method: method.rawValue, isReplayable: body.isReplayable, status: response.statusCode,
            location: response.headers["location"].first)
        guard let next else { return nil }
        var request = self
        request.url = next.url
        for name in next.droppedFields { request.headers.remove(name: name) }
        if next.becomesGet {
            request.method = .GET
            request.body = .none
            request.expectsContinue = false
        }
        return (request, next.limit)
    }
}
