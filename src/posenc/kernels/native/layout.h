// Where the elements of an array lie, and whether two arrays share any.
#pragma once

#include <cstdint>

namespace posenc {

constexpr int MAX_RANK = 8;

enum class Element : int { float32, bfloat16, float16, int32, int64 };

constexpr int64_t size_of(Element element) {
    return element == Element::int64 ? 8
           : element == Element::float32 || element == Element::int32 ? 4
                                                                      : 2;
}

struct Layout {
    char* data = nullptr;
    Element element = Element::float32;
    int rank = 0;
    int64_t size[MAX_RANK] = {};
    int64_t stride[MAX_RANK] = {};  // bytes

    bool empty() const;
    bool aligned() const;
    bool same_shape(const Layout& other) const;
    bool same_place(const Layout& other) const;
};

// Whether two elements of one array lie in one place, as those of an expanded array do. What cannot
// be decided in a bounded number of steps counts as true.
bool overlaps_itself(const Layout& x);

// Whether an element of one array shares a byte with one of the other; likewise.
bool overlap(const Layout& x, const Layout& y);

}  // namespace posenc
