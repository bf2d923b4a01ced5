#include "team.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

#include "processors.h"

namespace posenc {

namespace {

// Work in progress. Whoever comes takes the next item until there are none.
struct Work {
    Item item;
    void* context;
    int64_t count;
    std::atomic<int64_t> next{0};

    void help() {
        for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
            item(context, i);
        }
    }
};

// A child process has one thread, whatever its parent had: a pool of ours is made anew, and that of
// an OpenMP lends no threads any more, as it would wait for those that are gone. How many it may use
// it still knows.
std::atomic<bool> forked{false};

// --- threads of an OpenMP that is already there -----------------------------------------------

// Two pools would compete for the processors: GNU's keeps its threads spinning for a while after
// each use. torch loads its OpenMP for all to see, so that its threads can be borrowed, and what
// `torch.set_num_threads` says holds here too. The function is what GCC calls for `omp parallel`.
using Parallel = void (*)(void (*)(void*), void*, unsigned threads, unsigned flags);
using MaxThreads = int (*)();

struct OpenMP {
    Parallel parallel = nullptr;
    MaxThreads max_threads = nullptr;
};

const OpenMP* openmp() {
    static std::atomic<const OpenMP*> known{nullptr};
    const OpenMP* found = known.load(std::memory_order_acquire);
    if (found == nullptr) {
        // Looked up until it is there, as torch may be imported later.
        const OpenMP now = {reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel")),
                            reinterpret_cast<MaxThreads>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"))};
        if (now.parallel == nullptr || now.max_threads == nullptr) {
            return nullptr;
        }
        found = new OpenMP(now);
        known.store(found, std::memory_order_release);
    }
    return found;
}

const OpenMP* lender() { return forked.load(std::memory_order_relaxed) ? nullptr : openmp(); }

// --- threads of our own -----------------------------------------------------------------------

class Pool {
public:
    void run(int threads, Work& work) {
        const std::lock_guard<std::mutex> one_at_a_time(running_);
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            grow(threads - 1);
            work_ = &work;
            wanted_ = threads - 1;
            ++generation_;
        }
        wake_.notify_all();
        work.help();
        std::unique_lock<std::mutex> lock(mutex_);
        work_ = nullptr;  // who wakes up late finds nothing to do
        done_.wait(lock, [&] { return helping_ == 0; });
    }

private:
    void grow(int helpers) {
        for (; helpers_ < helpers; ++helpers_) {
            try {
                std::thread(&Pool::help, this).detach();
            } catch (const std::system_error&) {
                return;  // the threads there are do the work
            }
        }
    }

    void help() {
        uint64_t seen = 0;
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return generation_ != seen; });
            seen = generation_;
            if (work_ == nullptr || wanted_ == 0) {
                continue;
            }
            Work* work = work_;
            --wanted_;
            ++helping_;
            lock.unlock();
            work->help();
            lock.lock();
            if (--helping_ == 0) {
                done_.notify_all();
            }
        }
    }

    std::mutex running_, mutex_;
    std::condition_variable wake_, done_;
    Work* work_ = nullptr;
    uint64_t generation_ = 0;
    int helpers_ = 0;
    int wanted_ = 0;
    int helping_ = 0;
};

std::atomic<Pool*> pool{nullptr};

void in_the_child() {
    forked.store(true);
    pool.store(nullptr);  // left where it is: its mutexes may be held by threads that are gone
}

Pool& own() {
    // Never deleted: its threads sleep until the process ends.
    Pool* found = pool.load();
    if (found == nullptr) {
        Pool* made = new Pool;
        if (pool.compare_exchange_strong(found, made)) {
            return *made;
        }
        delete made;
    }
    return *found;
}

int from_environment() {
    const char* text = std::getenv("OMP_NUM_THREADS");
    const long count = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
    return count > 0 && count < 4096 ? static_cast<int>(count) : processors();
}

}  // namespace

int default_threads() {
    if (const OpenMP* there = openmp()) {
        return there->max_threads();
    }
    static const int count = from_environment();
    return count;
}

void watch_forks() { pthread_atfork(nullptr, nullptr, in_the_child); }

bool team_is_openmp() { return lender() != nullptr; }

void share(int threads, int64_t count, Item item, void* context) {
    Work work{item, context, count};
    if (threads > count) {
        threads = static_cast<int>(count);
    }
    if (threads <= 1) {
        work.help();
    } else if (const OpenMP* there = lender()) {
        const auto help = [](void* data) { static_cast<Work*>(data)->help(); };
        there->parallel(help, &work, static_cast<unsigned>(threads), 0);
    } else {
        own().run(threads, work);
    }
}

}  // namespace posenc
