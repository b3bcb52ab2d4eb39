#ifndef ENCRYPTION_LIMIT_H
#define ENCRYPTION_LIMIT_H

/*
 * Returns the processor seconds of this thread for `count` times what one message to a browser needs of OpenSSL: a P-256 key pair, one
 * Diffie-Hellman exchange, the five HMACs of RFC 8291 and RFC 8188, and AES-128-GCM over `content_bytes`. Everything that can be prepared is
 * prepared before, and nothing is put together to a body. Returns a negative number when a step failed.
 */
double encryption_limit_seconds(unsigned count, unsigned content_bytes);

#endif
