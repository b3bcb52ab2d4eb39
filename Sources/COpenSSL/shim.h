#pragma once
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

// Macros and variadic functions are invisible to Swift: each becomes a function here, named after its module, so
// that no symbol can collide.

/// `EVP_PKEY_Q_keygen` is variadic.
static inline EVP_PKEY *COpenSSL_generate_p256(void) { return EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"); }

/// `EVP_PKEY_Q_keygen` is variadic; the size is a `size_t` behind the dots.
static inline EVP_PKEY *COpenSSL_generate_rsa(size_t bits) { return EVP_PKEY_Q_keygen(NULL, NULL, "RSA", bits); }

/// `BIO_get_mem_data` is a macro over `BIO_ctrl`.
static inline long COpenSSL_BIO_get_mem_data(BIO *bio, char **data) { return BIO_get_mem_data(bio, data); }

/// `BIO_set_retry_read` is a macro.
static inline void COpenSSL_BIO_set_retry_read(BIO *bio) { BIO_set_retry_read(bio); }

/// `BIO_clear_retry_flags` is a macro.
static inline void COpenSSL_BIO_clear_retry_flags(BIO *bio) { BIO_clear_retry_flags(bio); }

/// `OPENSSL_free` is a macro that adds file and line.
static inline void COpenSSL_free(void *memory) { OPENSSL_free(memory); }

/// `SSL_CTX_set_min_proto_version` is a macro over `SSL_CTX_ctrl`.
static inline int COpenSSL_SSL_CTX_set_min_proto_version(SSL_CTX *context, int version) {
    return (int)SSL_CTX_set_min_proto_version(context, version);
}

/// `SSL_CTX_set_mode` is a macro over `SSL_CTX_ctrl`.
static inline void COpenSSL_SSL_CTX_set_mode(SSL_CTX *context, long mode) { SSL_CTX_set_mode(context, mode); }

/// `SSL_CTX_set_session_cache_mode` is a macro over `SSL_CTX_ctrl`.
static inline void COpenSSL_SSL_CTX_set_session_cache_mode(SSL_CTX *context, long mode) {
    SSL_CTX_set_session_cache_mode(context, mode);
}

/// `SSL_CTX_add1_chain_cert` is a macro over `SSL_CTX_ctrl`; it counts its own reference.
static inline int COpenSSL_SSL_CTX_add1_chain_cert(SSL_CTX *context, X509 *certificate) {
    return (int)SSL_CTX_add1_chain_cert(context, certificate);
}

/// `SSL_set_tlsext_host_name` is a macro over `SSL_ctrl`.
static inline int COpenSSL_SSL_set_tlsext_host_name(SSL *ssl, const char *name) {
    return (int)SSL_set_tlsext_host_name(ssl, name);
}

/// `X509V3_set_ctx_nodb` is a macro, needed before an extension is made from text.
static inline void COpenSSL_X509V3_set_ctx(X509V3_CTX *context, X509 *issuer, X509 *subject) {
    X509V3_set_ctx_nodb(context);
    X509V3_set_ctx(context, issuer, subject, NULL, NULL, 0);
}

/// The `sk_X509` family is macros.
static inline int COpenSSL_sk_X509_num(const STACK_OF(X509) * stack) { return sk_X509_num(stack); }

/// The `sk_X509` family is macros; the certificate stays the stack's.
static inline X509 *COpenSSL_sk_X509_value(const STACK_OF(X509) * stack, int index) {
    return sk_X509_value(stack, index);
}

/// The `sk_X509` family is macros; frees the stack and what it holds.
static inline void COpenSSL_sk_X509_pop_free(STACK_OF(X509) * stack) { sk_X509_pop_free(stack, X509_free); }

/// The `SSL_OP_…` are macros with casts.
static inline void COpenSSL_SSL_CTX_set_strict_options(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
}
