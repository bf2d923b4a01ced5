#include <initializer_list>

#include "plans.h"

namespace posenc {

Number number_of(const Layout& layout, const char* who) {
    switch (layout.element) {
        case Element::float32:
            return Number::float32;
        case Element::bfloat16:
            return Number::bfloat16;
        case Element::float16:
            return Number::float16;
        default:
            refuse_type(who, "float32, bfloat16 or float16", name_of(layout.element));
    }
}

void check_distinct(const Layout& to, const char* who) {
    if (overlaps_itself(to)) {
        refuse(who, "a result with memory of its own for each element",
               shape_text(to) + " with elements that share it", "Copy an expanded array first.");
    }
}

void check_result(const Layout& from, const Layout& to, const char* who) {
    if (from.element != to.element) {
        refuse_type(who, std::string("a result of ") + name_of(from.element), name_of(to.element));
    }
    if (!from.same_shape(to)) {
        refuse(who, "a result of " + shape_text(from), shape_text(to));
    }
    check_distinct(to, who);
    if (!from.same_place(to) && overlap(from, to)) {
        refuse(who, "the array itself as result, or memory apart from it",
               "a result that overlaps it", "Copy one of them first.");
    }
}

std::vector<Block> blocks_of(const std::vector<int64_t>& sizes, int64_t pairs, const char* who) {
    if (sizes.empty()) {
        return {{0, pairs}};
    }
    std::vector<Block> blocks;
    int64_t total = 0;
    for (const int64_t size : sizes) {
        if (size < 0 || size > pairs - total) {
            total = -1;
            break;
        }
        blocks.push_back({total, size});
        total += size;
    }
    if (total != pairs) {
        refuse(std::string(who) + ": blocks", "sizes that add up to " + std::to_string(pairs) + " pairs",
               std::to_string(sizes.size()) + " that do not");
    }
    return blocks;
}

int choice(const std::string& word, std::initializer_list<const char*> words, const char* who) {
    int number = 0;
    std::string list;
    for (const char* known : words) {
        if (word == known) {
            return number;
        }
        list += (number++ > 0 ? ", \"" : "\"") + std::string(known) + "\"";
    }
    refuse(who, "one of " + list, "\"" + word + "\"");
}

}  // namespace posenc
