#ifndef APUS_CFUZZER_H
#define APUS_CFUZZER_H
#include <stddef.h>
#include <stdint.h>

// libFuzzer's own loop, from the runtime that comes with the compiler (https://llvm.org/docs/LibFuzzer.html#using-libfuzzer-as-a-library).
int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*callback)(const uint8_t *data, size_t size));

#endif
