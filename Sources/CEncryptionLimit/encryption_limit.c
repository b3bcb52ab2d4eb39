#include "encryption_limit.h"
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double thread_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int encrypt(EVP_PKEY_CTX *maker, EVP_PKEY *peer, EVP_CIPHER_CTX *cipher, const unsigned char *content, unsigned bytes, unsigned char *out) {
    EVP_PKEY *own = NULL;
    if (EVP_PKEY_keygen(maker, &own) != 1) return 0;
    unsigned char secret[32], digest[32], info[160] = {0}, tag[16];
    size_t secret_bytes = sizeof secret;
    EVP_PKEY_CTX *exchange = EVP_PKEY_CTX_new_from_pkey(NULL, own, NULL);
    int done = exchange != NULL && EVP_PKEY_derive_init(exchange) == 1 && EVP_PKEY_derive_set_peer_ex(exchange, peer, 0) == 1 &&
               EVP_PKEY_derive(exchange, secret, &secret_bytes) == 1;
    EVP_PKEY_CTX_free(exchange);
    EVP_PKEY_free(own);
    if (!done) return 0;
    /* RFC 8291 section 3.4: two for the keying material, two for the content's key, one for the nonce. */
    static const unsigned lengths[] = {32, 145, 32, 28, 24};
    const EVP_MD *sha256 = EVP_sha256();
    memcpy(digest, secret, sizeof digest);
    for (unsigned index = 0; index < 5; index++) {
        if (HMAC(sha256, digest, sizeof digest, info, lengths[index], digest, NULL) == NULL) return 0;
    }
    int length = 0;
    return EVP_EncryptInit_ex(cipher, NULL, NULL, digest, digest + 16) == 1 &&
           EVP_EncryptUpdate(cipher, out, &length, content, (int)bytes) == 1 && EVP_EncryptFinal_ex(cipher, out + length, &length) == 1 &&
           EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, sizeof tag, tag) == 1;
}

double encryption_limit_seconds(unsigned count, unsigned content_bytes) {
    EVP_PKEY_CTX *maker = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    EVP_PKEY *peer = NULL;
    unsigned char *content = calloc(2, (size_t)content_bytes + 16);
    double seconds = -1;
    if (maker != NULL && cipher != NULL && content != NULL && EVP_PKEY_keygen_init(maker) == 1 &&
        EVP_PKEY_CTX_set_ec_paramgen_curve_nid(maker, NID_X9_62_prime256v1) == 1 && EVP_PKEY_keygen(maker, &peer) == 1 &&
        EVP_EncryptInit_ex(cipher, EVP_aes_128_gcm(), NULL, NULL, NULL) == 1) {
        double start = thread_seconds();
        unsigned done = 0;
        while (done < count && encrypt(maker, peer, cipher, content, content_bytes, content + content_bytes + 16)) done++;
        if (done == count) seconds = thread_seconds() - start;
    }
    free(content);
    EVP_PKEY_free(peer);
    EVP_CIPHER_CTX_free(cipher);
    EVP_PKEY_CTX_free(maker);
    return seconds;
}
