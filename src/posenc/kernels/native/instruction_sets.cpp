#include "instruction_sets.h"

#include <atomic>

namespace posenc {

namespace baseline {
extern const Kernels table;
}
#if defined(POSENC_X86)
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
#endif

std::vector<const Kernels*> available() {
    std::vector<const Kernels*> found = {&baseline::table};
#if defined(POSENC_X86)
    // The builtins ask the operating system too, whether it saves the wide registers.
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("f16c")) {
        found.push_back(&avx2::table);
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl")) {
            found.push_back(&avx512::table);
        }
    }
#endif
    return found;
}

namespace {

std::atomic<const Kernels*>& current() {
    static std::atomic<const Kernels*> chosen{available().back()};
    return chosen;
}

}  // namespace

const Kernels& kernels() { return *current().load(std::memory_order_relaxed); }

bool choose(const std::string& name) {
    for (const Kernels* set : available()) {
        if (name == set->name) {
            current().store(set);
            return true;
        }
    }
    return false;
}

}  // namespace posenc
