// Hold angles in float32 to a golden file of posenc, without a library for JSON.
// g++ -std=c++17 golden_reader.cpp -o golden_reader && ./golden_reader FILE
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>
using Numbers = std::vector<double>;

// A record is one line, and no text in it has brackets: a number, or a list of them, by its key.
Numbers numbers(const std::string& line, const std::string& key) {
  size_t at = line.find('"' + key + "\": ");
  if (at == std::string::npos) return {};
  const char* text = line.c_str() + at + key.size() + 4;
  Numbers found;
  for (bool list = *text == '['; *text && *text != ']'; text += *text == ',' && list) {
    char* end = nullptr;
    double value = std::strtod(text + (*text == '['), &end);
    if (end == text + (*text == '[')) break;
    found.push_back(value);
    text = end;
    if (!list) break;
  }
  return found;
}

int main(int, char** argv) {
  std::ifstream file(argv[1]);
  std::string line, known;
  int compared = 0, wrong = 0;
  while (std::getline(file, line)) {
    if (line.rfind("{\"check\": \"frequencies\"", 0) == 0) known = line;
    if (line.rfind("{\"check\": \"angles\"", 0) != 0 || line.find("\"cos\"") == std::string::npos) continue;
    Numbers f = numbers(known, "frequencies_float32"), axis = numbers(known, "axis"), x = numbers(known, "query");
    Numbers a = numbers(known, "first"), b = numbers(known, "second"), position = numbers(line, "position");
    Numbers a_out = numbers(known, "first_out"), b_out = numbers(known, "second_out"), y(x.size()), cos, sin;
    float factor = numbers(known, "attention_factor")[0], start = numbers(known, "start")[0];
    float sign = numbers(known, "sign")[0];
    for (size_t j = 0; j < f.size(); ++j) {
      float angle = (float(position[axis[j]]) + start) * float(f[j]);
      float c = factor * std::cos(angle), s = factor * std::sin(angle), p = x[a[j]], q = x[b[j]];
      cos.push_back(c), sin.push_back(s);
      y[a_out[j]] = p * c - sign * q * s, y[b_out[j]] = q * c + sign * p * s;
    }
    for (auto& [name, mine] : {std::pair{"cos", &cos}, {"sin", &sin}, {"rotated_query", &y}}) {
      Numbers expected = numbers(line, name);
      double off = expected.size() == mine->size() ? 0 : INFINITY;
      for (size_t i = 0; i < mine->size() && i < expected.size(); ++i) off = std::fmax(off, std::fabs((*mine)[i] - expected[i]));
      double bound = numbers(line, std::string(mine == &y ? "rotated_" : "") + "tolerance_float32")[0];
      ++compared;
      if (!(off <= bound)) ++wrong, std::printf("%s at position %.0f is off by %g, allowed %g\n", name, position[0], off, bound);
    }
  }
  std::printf("%d arrays compared, %d differ\n", compared, wrong);
  return wrong || !compared;
}
