// How many processors a process may use: those it may run on, and the time it is given on them.
#pragma once

#include <string>

namespace posenc {

// Processors' worth of time that the control groups of this process allow (Linux, versions 1 and 2,
// every group from its own to the root); 0 where they set no limit. `root` stands before the files
// of the system, for tests.
double processor_quota(const std::string& root);

// At least 1.
int processors();

}  // namespace posenc
