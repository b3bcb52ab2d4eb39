// Takes the place of the system's clocks, random numbers and process id in a program that simulates a whole fleet.
//
// Until virtual_start everything is the system's. Afterwards time stands still until virtual_set_time moves it, and random numbers follow
// from the seed. One thread runs everything; other threads must not ask.
#pragma once

#include <stdint.h>
#include <sys/types.h>

/// Begins: the clocks stand at that time since the start of the machine, in nanoseconds, and random numbers follow from the seed.
void virtual_start(int64_t nanoseconds, uint64_t seed);

/// Moves the clocks.
void virtual_set_time(int64_t nanoseconds);

/// Sets the difference between the time of day and the time since the start of the machine, in nanoseconds.
void virtual_set_wall_offset(int64_t nanoseconds);

/// Sets the process id.
void virtual_set_process(pid_t pid);

/// Returns the system's time since its start in nanoseconds, which the simulation measures itself by.
int64_t virtual_real_time(void);
