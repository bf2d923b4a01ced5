// Writing rows past the caches.
#pragma once

#include "numbers.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace posenc::POSENC_ISA {

// A line that is written is first fetched, as the processor cannot know that all of it will be. Of
// an array that no cache holds until it is read, that is a third of all traffic: so its rows are
// made in scratch memory, and stored in whole lines that go to memory at once.
inline void put_past(const void* from, char* to, int64_t bytes) {
    const char* x = static_cast<const char*>(from);
#if defined(__SSE2__)
#if defined(__AVX512F__)
    using Word = __m512i;
    const auto store = [](char* at, Word word) { _mm512_stream_si512(reinterpret_cast<Word*>(at), word); };
#elif defined(__AVX2__)
    using Word = __m256i;
    const auto store = [](char* at, Word word) { _mm256_stream_si256(reinterpret_cast<Word*>(at), word); };
#else
    using Word = __m128i;
    const auto store = [](char* at, Word word) { _mm_stream_si128(reinterpret_cast<Word*>(at), word); };
#endif
    constexpr int64_t size = static_cast<int64_t>(sizeof(Word));
    const int64_t before = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % sizeof(Word));
    const int64_t head = before < bytes ? before : bytes;
    __builtin_memcpy(to, x, static_cast<std::size_t>(head));
    int64_t at = head;
    for (; at + size <= bytes; at += size) {
        Word word;
        __builtin_memcpy(&word, x + at, sizeof(Word));
        store(to + at, word);
    }
    __builtin_memcpy(to + at, x + at, static_cast<std::size_t>(bytes - at));
#else
    __builtin_memcpy(to, x, static_cast<std::size_t>(bytes));
#endif
}

// Where a row is made, and how it gets to its place.
class Row {
public:
    Row(bool past, float* scratch, int64_t bytes)
        : scratch_(past ? reinterpret_cast<char*>(scratch) : nullptr), bytes_(bytes) {}

    bool past() const { return scratch_ != nullptr; }
    char* made_at(char* y) const { return past() ? scratch_ : y; }
    void put(char* y) const {
        if (past()) {
            put_past(scratch_, y, bytes_);
        }
    }

private:
    char* scratch_;
    int64_t bytes_;
};

}  // namespace posenc::POSENC_ISA
