#include "openssl_setup.h"
#include <openssl/crypto.h>

/*
 * Keeps OpenSSL's memory until the process is gone. By default OpenSSL frees it in an exit handler, while event loops still use their TLS
 * connections, and a process that has done its work crashes now and then. Only the first call of OpenSSL in a process can change that, hence a
 * constructor (https://docs.openssl.org/3.0/man3/OPENSSL_init_crypto/, OPENSSL_INIT_NO_ATEXIT).
 */
__attribute__((constructor)) static void keep_openssl_until_the_end(void) {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
