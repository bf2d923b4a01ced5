#include "processors.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace posenc {

namespace {

std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, at);) {
        parts.push_back(part);
    }
    return parts;
}

bool has_cpu(const std::string& names) {
    for (const std::string& name : split(names, ',')) {
        if (name == "cpu") {
            return true;
        }
    }
    return false;
}

// The group of this process in the hierarchy that shares out processor time: "" where there is none.
std::string group(const std::string& root, bool second) {
    std::ifstream file(root + "/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        // number:controllers:/path, where version 2 has "0::/path"
        const size_t one = line.find(':');
        const size_t two = one == std::string::npos ? one : line.find(':', one + 1);
        if (two == std::string::npos) {
            continue;
        }
        const std::string names = line.substr(one + 1, two - one - 1);
        if (second ? names.empty() : has_cpu(names)) {
            return line.substr(two + 1);
        }
    }
    return "";
}

// quota / period of one group, 0 for no limit.
double quota_of(const std::string& folder, bool second) {
    double quota = 0;
    double period = 0;
    if (second) {
        std::ifstream file(folder + "/cpu.max");  // "max 100000" leaves both as they are
        file >> quota >> period;
    } else {
        std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;  // -1 is no limit
        std::ifstream(folder + "/cpu.cfs_period_us") >> period;
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

double least(double a, double b) { return a == 0 || (b != 0 && b < a) ? b : a; }

}  // namespace

double processor_quota(const std::string& root) {
    double found = 0;
    std::ifstream mounts(root + "/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        // number parent device root place options… - type source options
        const size_t dash = line.find(" - ");
        if (dash == std::string::npos) {
            continue;
        }
        const std::vector<std::string> before = split(line.substr(0, dash), ' ');
        const std::vector<std::string> after = split(line.substr(dash + 3), ' ');
        const bool second = !after.empty() && after[0] == "cgroup2";
        const bool first = after.size() > 2 && after[0] == "cgroup" && has_cpu(after[2]);
        if (before.size() < 5 || !(first || second)) {
            continue;
        }
        // A container may see a part of the hierarchy only, below its root.
        std::string path = group(root, second);
        const std::string& top = before[3];
        if (top != "/") {
            const bool below = path.compare(0, top.size(), top) == 0 &&
                               (path.size() == top.size() || path[top.size()] == '/');
            path = below ? path.substr(top.size()) : "";
        }
        while (!path.empty() && path.back() == '/') {
            path.pop_back();
        }
        for (;;) {
            found = least(found, quota_of(root + before[4] + path, second));
            if (path.empty()) {
                break;
            }
            path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
        }
    }
    return found;
}

int processors() {
    int count = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
        count = CPU_COUNT(&allowed);
    }
    const double quota = processor_quota("");
    if (quota > 0 && quota < count) {
        count = static_cast<int>(std::ceil(quota));
    }
#endif
    return count < 1 ? 1 : count;
}

}  // namespace posenc
