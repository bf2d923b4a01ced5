#include "layout.h"

#include <algorithm>
#include <cstdlib>

namespace posenc {

bool Layout::empty() const {
    return std::any_of(size, size + rank, [](int64_t n) { return n == 0; });
}

bool Layout::aligned() const {
    int64_t bits = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data));
    for (int i = 0; i < rank; ++i) {
        bits |= size[i] > 1 ? stride[i] : 0;
    }
    return bits % size_of(element) == 0;
}

bool Layout::same_shape(const Layout& other) const {
    return rank == other.rank && std::equal(size, size + rank, other.size);
}

bool Layout::same_place(const Layout& other) const {
    if (data != other.data || !same_shape(other)) {
        return false;
    }
    for (int i = 0; i < rank; ++i) {
        if (size[i] > 1 && stride[i] != other.stride[i]) {
            return false;
        }
    }
    return true;
}

namespace {

// A step that may be taken `from` to `to` times.
struct Steps {
    int64_t stride;  // positive
    int64_t from, to;
};

// Addresses as numbers: all that follows is about sums of steps, in 128 bits, as a sum of products
// of sizes and strides may be anything where an axis has one element.
using Wide = __int128;

Wide floor_divide(Wide a, Wide b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

class Search {
public:
    explicit Search(Steps* begin, int count) : steps_(begin), count_(count) {
        std::sort(steps_, steps_ + count_,
                  [](const Steps& a, const Steps& b) { return a.stride > b.stride; });
        for (int i = count_; i-- > 0;) {
            least_[i] = least_[i + 1] + static_cast<Wide>(steps_[i].stride) * steps_[i].from;
            most_[i] = most_[i + 1] + static_cast<Wide>(steps_[i].stride) * steps_[i].to;
        }
    }

    // Whether some sum of steps lies in [low, high]; the sum of no steps does not count where
    // `moving`.
    bool reaches(Wide low, Wide high, bool moving) {
        moving_ = moving;
        return from(0, low, high, false);
    }

private:
    bool from(int i, Wide low, Wide high, bool moved) {
        if (high < least_[i] || low > most_[i]) {
            return false;
        }
        if (--patience_ < 0) {
            return true;
        }
        if (i == count_) {
            return moved || !moving_;
        }
        const Steps& step = steps_[i];
        // The counts with which the steps after this one can still get there.
        Wide first = floor_divide(low - most_[i + 1] + step.stride - 1, step.stride);
        Wide last = floor_divide(high - least_[i + 1], step.stride);
        first = std::max<Wide>(first, step.from);
        last = std::min<Wide>(last, step.to);
        for (Wide n = first; n <= last; ++n) {
            if (from(i + 1, low - n * step.stride, high - n * step.stride, moved || n != 0)) {
                return true;
            }
        }
        return false;
    }

    Steps* steps_;
    int count_;
    Wide least_[2 * MAX_RANK + 1] = {};
    Wide most_[2 * MAX_RANK + 1] = {};
    bool moving_ = false;
    int patience_ = 10000;
};

}  // namespace

bool overlaps_itself(const Layout& x) {
    if (x.empty()) {
        return false;
    }
    Steps steps[2 * MAX_RANK];
    int count = 0;
    for (int i = 0; i < x.rank; ++i) {
        if (x.size[i] == 1) {
            continue;
        }
        if (x.stride[i] == 0) {
            return true;
        }
        steps[count++] = {std::abs(x.stride[i]), -(x.size[i] - 1), x.size[i] - 1};
    }
    const int64_t size = size_of(x.element);
    return Search(steps, count).reaches(-(size - 1), size - 1, true);
}

bool overlap(const Layout& x, const Layout& y) {
    if (x.empty() || y.empty()) {
        return false;
    }
    // y - x as a sum of steps from the lowest address of one to that of the other.
    Steps steps[2 * MAX_RANK];
    int count = 0;
    Wide distance = static_cast<Wide>(reinterpret_cast<uintptr_t>(y.data)) -
                    static_cast<Wide>(reinterpret_cast<uintptr_t>(x.data));
    for (const Layout* of : {&x, &y}) {
        const int sign = of == &y ? 1 : -1;
        for (int i = 0; i < of->rank; ++i) {
            if (of->size[i] == 1 || of->stride[i] == 0) {
                continue;
            }
            const int64_t last = of->size[i] - 1;
            const bool up = (of->stride[i] > 0) == (sign > 0);
            steps[count++] = {std::abs(of->stride[i]), up ? 0 : -last, up ? last : 0};
        }
    }
    // They meet where -size_y < distance + sum < size_x.
    return Search(steps, count)
        .reaches(1 - size_of(y.element) - distance, size_of(x.element) - 1 - distance, false);
}

}  // namespace posenc
