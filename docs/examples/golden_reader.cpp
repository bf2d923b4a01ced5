// Hold angles in float32 to a golden file of posenc, without a library for JSON.
// g++ -std=c++17 golden_reader.cpp -o golden_reader && ./golden_reader FILE
//
// It reads the layout that posenc writes: one record on a line, "key": value, no text with a bare
// quote. What is malformed raises `Malformed`: no index of the file is used before it is checked.
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>
using Numbers = std::vector<double>;
using Malformed = std::runtime_error;

void must(bool holds, const char* otherwise) {
  if (!holds) throw Malformed(otherwise);
}

// FIPS 180-4: 64 rounds over each block of 64 bytes. Its constants are the first 32 bits behind the
// point of the square and cube roots of the first primes.
std::string sha256(std::string data) {
  uint32_t k[64], h[8];
  for (int n = 0, prime = 2; n < 64; ++prime) {
    bool is_prime = true;
    for (int d = 2; d * d <= prime; ++d) is_prime = is_prime && prime % d;
    if (!is_prime) continue;
    long double square = std::sqrt((long double)prime), cube = std::cbrt((long double)prime);
    if (n < 8) h[n] = uint32_t((square - std::floor(square)) * 4294967296.0L);
    k[n++] = uint32_t((cube - std::floor(cube)) * 4294967296.0L);
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
      w[i] = w[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ x >> 3) + w[i - 7] + (turn(y, 17) ^ turn(y, 19) ^ y >> 10);
    }
    for (int i = 0; i < 8; ++i) s[i] = h[i];
    for (int i = 0; i < 64; ++i) {
      uint32_t a = s[0], e = s[4];
      uint32_t t = s[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + k[i] + w[i];
      uint32_t u = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
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

// Where the value of a key begins; npos where the line has no such key.
size_t value_of(const std::string& line, const std::string& key) {
  size_t at = line.find('"' + key + "\": ");
  return at == std::string::npos ? at : at + key.size() + 4;
}

// A number or a list of them; empty where the line has no such key. (strtod reads the point of the
// "C" locale, which a program has unless it chose another.)
Numbers numbers(const std::string& line, const std::string& key) {
  Numbers found;
  size_t at = value_of(line, key);
  if (at == std::string::npos) return found;
  const char* text = line.c_str() + at;  // ends with a null, at which strtod and the loop stop
  bool list = *text == '[';
  text += list;
  while (*text && *text != ']') {
    char* end = nullptr;
    double value = std::strtod(text, &end);
    must(end != text && std::isfinite(value), "no number where one stands");
    found.push_back(value);
    if (!list) return found;
    text = end;
    must(*text == ',' || *text == ']', "a list that does not end");
    if (*text == ',') must(*++text == ' ', "no space behind a comma");
  }
  must(*text == ']', "a list that does not end");
  return found;
}

// In float32, where a larger number is not defined.
float single(double value) {
  must(std::fabs(value) <= FLT_MAX, "a number outside float32");
  return float(value);
}

double number(const std::string& line, const std::string& key) {
  Numbers found = numbers(line, key);
  must(found.size() == 1, "not one number where one stands");
  return found[0];
}

// Indices below a size, as many as there are pairs.
std::vector<size_t> indices(const std::string& line, const std::string& key, size_t pairs, size_t size) {
  std::vector<size_t> found;
  for (double value : numbers(line, key)) {
    must(value >= 0 && value < double(size) && value == std::floor(value), "an index outside its array");
    found.push_back(size_t(value));
  }
  must(found.size() == pairs, "not one index for each pair");
  return found;
}

// The beginning of a record that no other one shares: its sort, part and state, and the positions.
std::string place_of(const std::string& line) {
  for (const char* key : {"position", "positions", "q_positions"}) {
    size_t at = value_of(line, key), end = at == std::string::npos ? at : line.find(']', at);
    if (end != std::string::npos) return line.substr(0, end);
  }
  size_t at = value_of(line, "state");
  return at == std::string::npos ? line : line.substr(0, line.find('"', at + 1));
}

// From "part" to the end of "state": what a record is of.
std::string subject_of(const std::string& line) {
  size_t begin = value_of(line, "part"), state = value_of(line, "state");
  must(begin != std::string::npos && state != std::string::npos && begin < state, "a record of no part");
  return line.substr(begin, line.find('"', state + 1) - begin);
}

// The lines of a file, once it is known to be whole: version 2 by its digest and count.
std::vector<std::string> lines_of(const std::string& data) {
  const std::string first = "{\n\"format\": \"posenc contract\",\n\"version\": ", closed = "\n}\n";
  must(data.rfind(first, 0) == 0, "no golden file");
  char version = data.size() > first.size() + 1 ? data[first.size()] : '0';
  must((version == '1' || version == '2') && data[first.size() + 1] == ',', "not version 1 or 2");
  must(data.size() > 80 && data.compare(data.size() - 3, 3, closed) == 0, "cut: it does not end");
  std::vector<std::string> lines;
  for (size_t at = 0, end; at < data.size(); at = end + 1) {
    end = data.find('\n', at);
    lines.push_back(data.substr(at, end - at));
  }
  size_t records = 0;
  std::set<std::string> places;
  for (const std::string& line : lines) {
    if (line.rfind("{\"check\": ", 0) != 0) continue;
    must(places.insert(place_of(line)).second, "a record stands twice");
    ++records;
  }
  if (version == '1') return lines;
  std::string digest = sha256(data.substr(0, data.size() - 79));
  must(data.substr(data.size() - 79) == "\"sha256\": \"" + digest + "\"" + closed, "cut or changed: another digest");
  must(lines[lines.size() - 3] == "\"records\": " + std::to_string(records) + ",", "another count of records");
  return lines;
}

// A tolerance of the file, which may not be wider than the rule of docs/golden.md.
double bounded(const std::string& line, const std::string& key, double most) {
  double stated = number(line, key);
  must(stated >= 0 && stated <= most * 1.001, "a tolerance that is wider than its rule");
  return stated;
}

int compare(const std::string& data) {
  std::string known;
  int compared = 0, wrong = 0;
  for (const std::string& line : lines_of(data)) {
    if (line.rfind("{\"check\": \"frequencies\"", 0) == 0) known = line;
    if (line.rfind("{\"check\": \"angles\"", 0) != 0 || value_of(line, "cos") == std::string::npos) continue;
    must(subject_of(line) == subject_of(known), "angles without their frequencies");
    Numbers f = numbers(known, "frequencies_float32"), exact = numbers(known, "frequencies");
    Numbers x = numbers(known, "query"), position = numbers(line, "position"), y(x.size()), cos, sin;
    must(!f.empty() && exact.size() == f.size(), "not one frequency for each pair");
    auto axis = indices(known, "axis", f.size(), position.size());
    auto a = indices(known, "first", f.size(), x.size()), b = indices(known, "second", f.size(), x.size());
    auto a_out = indices(known, "first_out", f.size(), x.size()), b_out = indices(known, "second_out", f.size(), x.size());
    float factor = single(number(known, "attention_factor")), start = single(number(known, "start"));
    float sign = single(number(known, "sign"));
    double size = 0, unit = std::ldexp(1.0, -24);
    for (size_t j = 0; j < f.size(); ++j) {
      float angle = (single(position[axis[j]]) + start) * single(f[j]);
      float c = factor * std::cos(angle), s = factor * std::sin(angle), p = single(x[a[j]]), q = single(x[b[j]]);
      cos.push_back(c), sin.push_back(s);
      y[a_out[j]] = p * c - sign * q * s, y[b_out[j]] = q * c + sign * p * s;
      double logarithm = exact[j] == 0 ? 0 : std::fabs(std::log(std::fabs(exact[j])));
      size = std::fmax(size, std::fabs(double(angle)) * (4 + logarithm) + 2);
    }
    double m = std::fabs(double(factor)), own = m * unit * size;
    double bound = bounded(line, "tolerance_float32", own);
    double after = bounded(line, "rotated_tolerance_float32", 2 * (own + 3 * m * unit));
    for (auto& [name, mine] : {std::pair{"cos", &cos}, {"sin", &sin}, {"rotated_query", &y}}) {
      Numbers expected = numbers(line, name);
      double off = expected.size() == mine->size() ? 0 : INFINITY, allowed = mine == &y ? after : bound;
      for (size_t i = 0; i < mine->size() && i < expected.size(); ++i) {
        double apart = std::fabs((*mine)[i] - expected[i]);
        if (!std::isnan(off) && !(apart <= off)) off = apart;  // NaN stays, and is no match
      }
      ++compared;
      if (!(off <= allowed)) ++wrong, std::printf("%s at position %.0f is off by %g, allowed %g\n", name, position[0], off, allowed);
    }
  }
  std::printf("%d arrays compared, %d differ\n", compared, wrong);
  return wrong || !compared;
}

int main(int count, char** names) {
  try {
    std::ifstream file(count > 1 ? names[1] : "", std::ios::binary);
    return compare({std::istreambuf_iterator<char>(file), {}});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "no golden file that is whole: %s\n", error.what());
    return 1;
  }
}
