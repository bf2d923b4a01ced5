/* Read a golden file of posenc and compare numbers with it: one header, without a library.

   C++17 compiles it, in one file of a program, behind

       #define POSENC_GOLDEN_IMPLEMENTATION
       #include "posenc_golden.h"

   All other files, in C or C++, include it alone. No exception leaves it: where a function cannot
   do what it is asked, posenc_golden_error() says why, in this thread, until the next failure. */
#ifndef POSENC_GOLDEN_H
#define POSENC_GOLDEN_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct posenc_golden posenc_golden;

/* A file that is whole, of version 1 or 2: every record is parsed, its digest and its count hold, no
   record stands twice, no index lies outside its array, and no tolerance of cosines and rotated
   vectors is wider than the rule. NULL where one of these fails. */
posenc_golden* posenc_golden_open(const char* path);
void posenc_golden_close(posenc_golden* file);

/* How many records it has; they are numbered from 0. */
size_t posenc_golden_count(const posenc_golden* file);

/* The text of a key of a record, such as its "check", "part" or "state"; NULL if it has none. */
const char* posenc_golden_name(const posenc_golden* file, size_t record, const char* key);

/* The number of axes of the numbers of a key, and their sizes; 0 if the record has no such numbers.
   A number has one axis of 1. "scores" have 2 axes, "bias" and "relative" (heads, queries, keys). */
size_t posenc_golden_shape(
    const posenc_golden* file, size_t record, const char* key, size_t sizes[3]);

/* The numbers of a key, row after row: how many there are, of which the first `room` are written. */
size_t posenc_golden_values(
    const posenc_golden* file, size_t record, const char* key, double* values, size_t room);

/* For "cos", "sin", "rotated_query", "rotated_key", "row", "scores", "bias" and "relative".
   0: your numbers are those of the file, within what it allows an engine of that dtype ("float64",
   "float32", "float16", "bfloat16"). 1: one is off, and the error names the one that is farthest
   beyond. -1: they cannot be compared. */
int posenc_golden_compare(const posenc_golden* file, size_t record, const char* key,
    const double* values, size_t count, const char* dtype);

/* Why the last call of this thread failed or found a difference. */
const char* posenc_golden_error(void);

#ifdef __cplusplus
}
#endif
#endif

#if defined(__cplusplus) && defined(POSENC_GOLDEN_IMPLEMENTATION)
#undef POSENC_GOLDEN_IMPLEMENTATION
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <locale>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace posenc_golden_detail {
using Numbers = std::vector<double>;

// A value of a record: a text, or numbers; `written` is how it stands in the file.
struct Value {
  std::string text, written;
  Numbers numbers;
  bool is_text = false;
};
using Record = std::map<std::string, Value>;

inline void must(bool holds, const char* otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}

// FIPS 180-4: 64 rounds over each block of 64 bytes. Its constants are the first 32 bits behind the
// point of the square and cube roots of the first primes.
inline std::string sha256(std::string data) {
  uint32_t k[64], h[8];
  for (int n = 0, prime = 2; n < 64; ++prime) {
    bool is_prime = true;
    for (int d = 2; d * d <= prime; ++d) is_prime = is_prime && prime % d;
    if (!is_prime) continue;
    double square = std::sqrt(double(prime)), cube = std::cbrt(double(prime));
    if (n < 8) h[n] = uint32_t((square - std::floor(square)) * 4294967296.0);
    k[n++] = uint32_t((cube - std::floor(cube)) * 4294967296.0);
  }
  uint64_t bits = uint64_t(data.size()) * 8;
  data += char(0x80);
  while (data.size() % 64 != 56) data += char(0);
  for (int i = 56; i >= 0; i -= 8) data += char(bits >> i & 255);
  auto turn = [](uint32_t x, int n) { return x >> n | x << (32 - n); };
  for (size_t at = 0; at < data.size(); at += 64) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; ++i) {
      w[i] = 0;
      for (int b = 0; b < 4; ++b) w[i] = w[i] << 8 | uint8_t(data[at + size_t(4 * i + b)]);
    }
    for (int i = 16; i < 64; ++i) {
      uint32_t x = w[i - 15], y = w[i - 2];
      w[i] = w[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ x >> 3) + w[i - 7] +
             (turn(y, 17) ^ turn(y, 19) ^ y >> 10);
    }
    for (int i = 0; i < 8; ++i) s[i] = h[i];
    for (int i = 0; i < 64; ++i) {
      uint32_t a = s[0], e = s[4];
      uint32_t t = s[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & s[5]) ^ (~e & s[6])) +
                   k[i] + w[i];
      uint32_t u =
          (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
      for (int j = 7; j > 0; --j) s[j] = s[j - 1];
      s[4] += t, s[0] = t + u;
    }
    for (int i = 0; i < 8; ++i) h[i] += s[i];
  }
  std::string hex;
  for (uint32_t word : h)
    for (int i = 28; i >= 0; i -= 4) hex += "0123456789abcdef"[word >> i & 15];
  return hex;
}

// A text between quotes, as it stands there: what a backslash precedes is two characters of it.
inline std::string quoted(std::istream& in) {
  std::string found;
  must(in.get() == '"', "no text where one stands");
  for (int next; (next = in.get()) != '"'; found += char(next)) {
    must(next != EOF, "a text that does not end");
    if (next == '\\') found += char(next), next = in.get();
    must(next != EOF, "a text that does not end");
  }
  return found;
}

inline double number(std::istream& in) {
  double value = 0;
  in >> value;
  must(!in.fail() && std::isfinite(value), "no number where one stands");
  return value;
}

// What stands behind a comma or an end: whether more follows.
inline bool more(std::istream& in, char end) {
  int next = in.get();
  must(next == end || (next == ',' && in.get() == ' '), "neither a comma nor an end");
  return next == ',';
}

// A line that is a record: keys with texts, numbers, and lists of numbers.
inline Record record_of(std::string line) {
  if (!line.empty() && line.back() == ',') line.pop_back();
  std::istringstream in(line);
  in.imbue(std::locale::classic());  // the program may have chosen another point
  in >> std::noskipws;
  Record record;
  must(in.get() == '{', "no record");
  do {
    std::string key = quoted(in);
    must(in.get() == ':' && in.get() == ' ' && !record.count(key),
        "a key without a value, or twice");
    Value& value = record[key];
    std::streamoff begin = in.tellg();
    if (in.peek() == '"') {
      value.text = quoted(in), value.is_text = true;
    } else if (in.peek() == '[') {
      in.get();
      bool listed = in.peek() != ']' || in.get() == EOF;  // an empty list ends at once
      while (listed) value.numbers.push_back(number(in)), listed = more(in, ']');
    } else {
      value.numbers.push_back(number(in));
    }
    must(!in.eof(), "a record that does not end");  // before its place is asked for
    value.written = line.substr(size_t(begin), size_t(in.tellg() - std::streampos(begin)));
  } while (more(in, '}'));
  must(in.get() == EOF, "something behind a record");
  return record;
}

// How a value stands in the file; empty if the record has none.
inline std::string written(const Record& record, const char* key) {
  auto found = record.find(key);
  return found == record.end() ? "" : found->second.written;
}

// The numbers of a key, which the record must have; as many as a count where one is given.
inline const Numbers& numbers(const Record& record, const std::string& key, size_t count = 0) {
  auto found = record.find(key);
  must(found != record.end() && !found->second.is_text,
      "a record without numbers that it must have");
  must(!count || found->second.numbers.size() == count,
      "another number of values than there must be");
  return found->second.numbers;
}

// Each below a size, as many as there are pairs.
inline const Numbers& indices(const Record& record, const char* key, size_t pairs, size_t size) {
  const Numbers& found = numbers(record, key, pairs);
  for (double value : found)
    must(value >= 0 && value < double(size) && value == std::floor(value),
        "an index outside its array");
  return found;
}

// That a record of angles fits its frequencies, and is no more tolerant than the rule of docs/golden.md.
inline void hold(const Record& record, const Record* known) {
  must(known, "angles without their frequencies");
  for (const char* key : {"part", "state"})
    must(written(record, key) == written(*known, key), "angles without their frequencies");
  const Numbers &f = numbers(*known, "frequencies"), &position = numbers(record, "position");
  size_t pairs = f.size(), width = numbers(*known, "query").size();
  must(pairs > 0, "no frequencies");
  numbers(*known, "frequencies_float32", pairs), numbers(record, "rotated_query", width);
  for (const char* key : {"cos", "sin"}) numbers(record, key, pairs);
  for (const char* key : {"first", "second", "first_out", "second_out"})
    indices(*known, key, pairs, width);
  for (const char* key : {"frequencies_float32", "query", "attention_factor", "start", "sign"})
    for (double value : numbers(*known, key))
      must(std::fabs(value) <= FLT_MAX, "a number outside float32");
  for (double value : position) must(std::fabs(value) <= FLT_MAX, "a number outside float32");
  const Numbers& axis = indices(*known, "axis", pairs, position.size());
  double start = numbers(*known, "start", 1)[0], size = 0;
  numbers(*known, "sign", 1);
  for (size_t j = 0; j < pairs; ++j) {
    double logarithm = f[j] == 0 ? 0 : std::fabs(std::log(std::fabs(f[j])));
    size = std::fmax(
        size, std::fabs((position[size_t(axis[j])] + start) * f[j]) * (4 + logarithm) + 2);
  }
  double m = std::fabs(numbers(*known, "attention_factor", 1)[0]);
  const struct {
    const char* dtype;
    int angles, rounding;
  } rules[] = {
      {"float64", -53, 0}, {"float32", -24, 0}, {"float16", -24, -11}, {"bfloat16", -24, -8}};
  for (auto& rule : rules) {
    double rounding = rule.rounding == 0 ? 0 : std::ldexp(1.0, rule.rounding);
    double unit = std::ldexp(1.0, rule.angles), own = m * unit * size + m * rounding;
    double stated = numbers(record, std::string("tolerance_") + rule.dtype, 1)[0];
    double after = numbers(record, std::string("rotated_tolerance_") + rule.dtype, 1)[0];
    must(stated >= 0 && stated <= own * 1.001, "a tolerance that is wider than its rule");
    must(after >= 0 && after <= 2 * (own + 3 * m * (rounding == 0 ? unit : rounding)) * 1.001,
        "a tolerance that is wider than its rule");
  }
}

// The records of a file, once it is known to be whole: version 2 by its digest and count.
inline std::vector<Record> records_of(const std::string& data) {
  const std::string first = "{\n\"format\": \"posenc contract\",\n\"version\": ", closed = "\n}\n";
  must(data.rfind(first, 0) == 0, "no golden file");
  char version = data.size() > first.size() + 1 ? data[first.size()] : '0';
  must((version == '1' || version == '2') && data[first.size() + 1] == ',', "not version 1 or 2");
  must(data.size() > 80 && data.compare(data.size() - 3, 3, closed) == 0, "cut: it does not end");
  if (version == '2') {
    std::string digest = sha256(data.substr(0, data.size() - 79));
    must(data.substr(data.size() - 79) == "\"sha256\": \"" + digest + "\"" + closed,
        "cut or changed: another digest");
  }
  std::vector<Record> records;
  std::vector<std::string> lines;
  std::set<std::string> places;
  for (size_t at = 0, end; at < data.size(); at = end + 1) {
    end = data.find('\n', at);
    lines.push_back(data.substr(at, end - at));
    if (lines.back().rfind("{\"check\": ", 0) != 0) continue;
    records.push_back(record_of(lines.back()));
    std::string place;
    for (const char* key :
        {"check", "part", "state", "length", "case", "position", "positions", "q_positions"})
      place += written(records.back(), key) + '\n';
    must(places.insert(place).second, "a record stands twice");
  }
  must(version == '1' ||
           lines[lines.size() - 3] == "\"records\": " + std::to_string(records.size()) + ",",
      "another count of records");
  const Record* known = nullptr;
  for (const Record& record : records) {
    if (written(record, "check") == "\"frequencies\"") known = &record;
    if (written(record, "check") == "\"angles\"" && record.count("cos")) hold(record, known);
  }
  return records;
}

inline char (&last_error())[400] {
  thread_local char text[400] = "";
  return text;
}
}  // namespace posenc_golden_detail

struct posenc_golden {
  std::vector<posenc_golden_detail::Record> records;

  const posenc_golden_detail::Value* value(size_t record, const char* key, bool is_text) const {
    if (record >= records.size() || !key) return nullptr;
    auto found = records[record].find(key);
    return found == records[record].end() || found->second.is_text != is_text ? nullptr
                                                                              : &found->second;
  }
};

extern "C" posenc_golden* posenc_golden_open(const char* path) try {
  std::ifstream file(path ? path : "", std::ios::binary);
  posenc_golden_detail::must(bool(file), "it cannot be read");
  std::string data(std::istreambuf_iterator<char>(file), {});
  return new posenc_golden{posenc_golden_detail::records_of(data)};
} catch (const std::exception& error) {
  std::snprintf(
      posenc_golden_detail::last_error(), 400, "no golden file that is whole: %s", error.what());
  return nullptr;
}

extern "C" void posenc_golden_close(posenc_golden* file) { delete file; }

extern "C" size_t posenc_golden_count(const posenc_golden* file) {
  return file ? file->records.size() : 0;
}

extern "C" const char* posenc_golden_name(
    const posenc_golden* file, size_t record, const char* key) try {
  auto found = file ? file->value(record, key, true) : nullptr;
  return found ? found->text.c_str() : nullptr;
} catch (const std::exception&) {
  return nullptr;  // no memory for the key
}

extern "C" size_t posenc_golden_values(
    const posenc_golden* file, size_t record, const char* key, double* values, size_t room) try {
  auto found = file ? file->value(record, key, false) : nullptr;
  if (!found) return 0;
  for (size_t i = 0; values && i < room && i < found->numbers.size(); ++i)
    values[i] = found->numbers[i];
  return found->numbers.size();
} catch (const std::exception&) {
  return 0;
}

extern "C" size_t posenc_golden_shape(
    const posenc_golden* file, size_t record, const char* key, size_t sizes[3]) {
  auto count = [&](const char* of) { return posenc_golden_values(file, record, of, nullptr, 0); };
  size_t all = count(key), side = size_t(std::lround(std::sqrt(double(all))));
  if (!all) return 0;
  if (!std::strcmp(key, "scores") && side * side == all) return sizes[0] = sizes[1] = side, 2;
  double heads = 0, axes = 0;
  posenc_golden_values(file, record, "heads", &heads, 1);
  posenc_golden_values(file, record, "axes", &axes, 1);
  bool pairs = !std::strcmp(key, "bias") || !std::strcmp(key, "relative");
  if (pairs && heads >= 1 && axes >= 1 && heads <= double(all) && axes <= double(all)) {
    size_t q = count("q_positions") / size_t(axes), k = count("k_positions") / size_t(axes);
    sizes[0] = size_t(heads), sizes[1] = q, sizes[2] = k;
    if (sizes[0] * q * k == all) return 3;
  }
  return sizes[0] = all, 1;
}

extern "C" int posenc_golden_compare(const posenc_golden* file, size_t record, const char* key,
    const double* values, size_t count, const char* dtype) try {
  using namespace posenc_golden_detail;
  const std::string keys = " cos sin rotated_query rotated_key row scores bias relative ";
  auto expected = file ? file->value(record, key, false) : nullptr;
  must(expected && values, "no numbers of that key in the record, or none given");
  must(expected->numbers.size() == count, "another number of values than in the file");
  bool turned = std::string(key).rfind("rotated_", 0) == 0;
  std::string bound =
      (turned ? "rotated_tolerance_" : "tolerance_") + std::string(dtype ? dtype : "");
  auto allowed = file->value(record, bound.c_str(), false);
  must(allowed && keys.find(' ' + std::string(key) + ' ') != std::string::npos &&
           (allowed->numbers.size() == 1 || allowed->numbers.size() == count),
      "no tolerance is stated for that key and dtype");
  std::string where = written(file->records[record], "part");
  where += " at position " + written(file->records[record], "position");  // empty in some records
  double worst = 0;
  for (size_t i = 0; i < count; ++i) {
    double mine = values[i], theirs = expected->numbers[i];
    double most = allowed->numbers[allowed->numbers.size() > 1 ? i : 0],
           apart = std::fabs(mine - theirs);
    if (theirs == -DBL_MAX && mine <= -FLT_MAX) continue;  // how a file writes minus infinity
    double beyond = std::isnan(apart) ? INFINITY : apart - most;
    if (beyond <= worst) continue;
    worst = beyond;
    std::snprintf(last_error(), 400,
        "%s of %.150s: value %zu is %.9g, not %.9g: off by %.3g, allowed %.3g", key, where.c_str(),
        i, mine, theirs, apart, most);
  }
  return worst > 0;
} catch (const std::exception& error) {
  std::snprintf(posenc_golden_detail::last_error(), 400, "not compared: %s", error.what());
  return -1;
}

extern "C" const char* posenc_golden_error(void) { return posenc_golden_detail::last_error(); }
#endif
