// Threads that share the items of one piece of work.
#pragma once

#include <cstdint>

namespace posenc {

using Item = void (*)(void* context, int64_t item);

// Call item(context, i) for every i below `count`, in up to `threads` threads, this one among them.
// Items are taken in order; `item` does not throw.
void share(int threads, int64_t count, Item item, void* context);

template <class Body>
void share(int threads, int64_t count, Body& body) {
    share(
        threads, count,
        [](void* context, int64_t item) { (*static_cast<Body*>(context))(item); }, &body);
}

// To be called once, before any work.
void watch_forks();

int default_threads();

// Whether the threads are those of an OpenMP that another library has loaded.
bool team_is_openmp();

}  // namespace posenc
