// Which of the compiled instruction sets runs.
#pragma once

#include <string>
#include <vector>

#include "rows.h"

namespace posenc {

// Those that were built and that this processor has, the best one last.
std::vector<const Kernels*> available();

// False where there is none of that name.
bool choose(const std::string& name);

}  // namespace posenc
