#pragma once
#include <nghttp2/nghttp2.h>

// Debian 12 ships 1.52; older ones lack the caps that ApusHTTP2 sets (settings, acknowledgements, errors with codes).
#if NGHTTP2_VERSION_NUM < 0x013400
#error "nghttp2 1.52 or later is required"
#endif
