/* Hold angles in float32 to a golden file of posenc, in C or C++, by the header beside this file.

   C:    g++ -std=c++17 -x c++ -DPOSENC_GOLDEN_IMPLEMENTATION -c posenc_golden.h -o posenc_golden.o
         gcc -std=c11 -c golden_reader.c && g++ golden_reader.o posenc_golden.o -o golden_reader
   C++:  g++ -std=c++17 -x c++ -DPOSENC_GOLDEN_IMPLEMENTATION golden_reader.c -o golden_reader
   Then: ./golden_reader FILE */
#include "posenc_golden.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 1 << 14 }; /* channels of a head in a file, at most */
static double f[MOST], axis[MOST], query[MOST], first[MOST], second[MOST], first_out[MOST],
    second_out[MOST];
static double position[MOST], cosine[MOST], sine[MOST], turned[MOST];

static float number(const posenc_golden* file, size_t record, const char* key) {
  double value = 0;
  posenc_golden_values(file, record, key, &value, 1);
  return (float)value;
}

/* One position of the engine that is tested: replace it by yours. */
static void turn(const posenc_golden* file, size_t known, size_t pairs) {
  float factor = number(file, known, "attention_factor"), start = number(file, known, "start");
  float sign = number(file, known, "sign");
  for (size_t j = 0; j < pairs; ++j) {
    float angle = ((float)position[(size_t)axis[j]] + start) * (float)f[j];
    float c = factor * cosf(angle), s = factor * sinf(angle);
    float p = (float)query[(size_t)first[j]], q = (float)query[(size_t)second[j]];
    cosine[j] = c, sine[j] = s;
    turned[(size_t)first_out[j]] = p * c - sign * q * s;
    turned[(size_t)second_out[j]] = q * c + sign * p * s;
  }
}

static int differ(
    const posenc_golden* file, size_t record, const char* key, const double* mine, size_t count) {
  int off = posenc_golden_compare(file, record, key, mine, count, "float32");
  if (off) printf("%s\n", posenc_golden_error());
  return off != 0;
}

int main(int count, char** names) {
  posenc_golden* file = posenc_golden_open(count > 1 ? names[1] : "");
  size_t known = 0, pairs = 0, width = 0;
  int compared = 0, wrong = 0;
  if (!file) return fprintf(stderr, "%s\n", posenc_golden_error()), 1;
  for (size_t r = 0; r < posenc_golden_count(file); ++r) {
    const char* check = posenc_golden_name(file, r, "check");
    if (check && !strcmp(check, "frequencies")) known = r;
    if (!check || strcmp(check, "angles") || !posenc_golden_values(file, r, "cos", NULL, 0))
      continue;
    pairs = posenc_golden_values(file, known, "frequencies_float32", f, MOST);
    width = posenc_golden_values(file, known, "query", query, MOST);
    posenc_golden_values(file, known, "axis", axis, MOST);
    posenc_golden_values(file, known, "first", first, MOST);
    posenc_golden_values(file, known, "second", second, MOST);
    posenc_golden_values(file, known, "first_out", first_out, MOST);
    posenc_golden_values(file, known, "second_out", second_out, MOST);
    if (pairs > MOST || width > MOST ||
        posenc_golden_values(file, r, "position", position, MOST) > MOST) {
      fprintf(stderr, "a head that is too wide\n"), ++wrong;
      continue;
    }
    turn(file, known, pairs);
    wrong += differ(file, r, "cos", cosine, pairs) + differ(file, r, "sin", sine, pairs);
    wrong += differ(file, r, "rotated_query", turned, width);
    compared += 3;
  }
  printf("%d arrays compared, %d differ\n", compared, wrong);
  posenc_golden_close(file);
  return wrong || !compared;
}
