// SPDX-License-Identifier: Apache-2.0
// Copyright (c) 2026 The Culvert Authors

// ChaCha20-Poly1305 in place with the BoringSSL that swift-crypto builds, or no encryption at all.

#include "baseline.h"

#include <string.h>

// As in swift-crypto's CCryptoBoringSSL_aead.h, without its include path.
extern const void *CCryptoBoringSSL_EVP_aead_chacha20_poly1305(void);
extern void *CCryptoBoringSSL_EVP_AEAD_CTX_new(const void *, const uint8_t *, size_t, size_t);
extern int CCryptoBoringSSL_EVP_AEAD_CTX_seal_scatter(
    const void *, uint8_t *, uint8_t *, size_t *, size_t, const uint8_t *, size_t, const uint8_t *, size_t,
    const uint8_t *, size_t, const uint8_t *, size_t);
extern int CCryptoBoringSSL_EVP_AEAD_CTX_open_gather(
    const void *, uint8_t *, const uint8_t *, size_t, const uint8_t *, size_t, const uint8_t *, size_t,
    const uint8_t *, size_t);

void cipher_init(struct cipher *cipher, int direction) {
    // Known to all: this is for measuring only.
    uint8_t key[32];
    memset(key, direction == 0 ? 0x11 : 0x22, sizeof key);
    cipher->context = NULL;
    if (!options.encrypts) return;
    cipher->context =
        CCryptoBoringSSL_EVP_AEAD_CTX_new(CCryptoBoringSSL_EVP_aead_chacha20_poly1305(), key, sizeof key, TAG);
    if (cipher->context == NULL) fail("cipher");
}

void cipher_seal(const struct cipher *cipher, uint8_t *out, const uint8_t *source, size_t count, uint64_t counter) {
    if (cipher->context == NULL) {
        memcpy(out, source, count);
        memset(out + count, 0, TAG);
        return;
    }
    uint8_t nonce[12] = {0};
    memcpy(nonce + 4, &counter, 8);
    size_t tag_count;
    CCryptoBoringSSL_EVP_AEAD_CTX_seal_scatter(
        cipher->context, out, out + count, &tag_count, TAG, nonce, sizeof nonce, source, count, NULL, 0, NULL, 0);
}

bool cipher_open(const struct cipher *cipher, uint8_t *out, const uint8_t *source, size_t count, uint64_t counter) {
    if (cipher->context == NULL) {
        memmove(out, source, count);
        return true;
    }
    uint8_t nonce[12] = {0};
    memcpy(nonce + 4, &counter, 8);
    return CCryptoBoringSSL_EVP_AEAD_CTX_open_gather(
        cipher->context, out, nonce, sizeof nonce, source, count, source + count, TAG, NULL, 0);
}
