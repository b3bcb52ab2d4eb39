/* The module has no interface: linking it changes how OpenSSL is set up (openssl_setup.c). */
