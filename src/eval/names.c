/* Unicode normalisation of class names; see names.h. */
#include "eval/names.h"

/* Reads one character of UTF-8 up to U+FFFF; returns its bytes, 0 for anything else. */
static int read_char(uint32_t *out, const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  if (s[0] >= 0xC2 && s[0] < 0xE0 && (s[1] & 0xC0) == 0x80) {
    *out = ((uint32_t)(s[0] & 0x1F) << 6) | (s[1] & 0x3F);
    return 2;
  }
  if ((s[0] & 0xF0) == 0xE0 && (s[1] & 0xC0) == 0x80 && (s[2] & 0xC0) == 0x80) {
    *out = ((uint32_t)(s[0] & 0x0F) << 12) | ((uint32_t)(s[1] & 0x3F) << 6) | (s[2] & 0x3F);
    return 3;
  }
  return 0;
}

static void add_char(od_str *out, uint32_t c) {
  char b[4] = {0};
  if (c < 0x80) {
    b[0] = (char)c;
  } else if (c < 0x800) {
    b[0] = (char)(0xC0 | (c >> 6));
    b[1] = (char)(0x80 | (c & 0x3F));
  } else {
    b[0] = (char)(0xE0 | (c >> 12));
    b[1] = (char)(0x80 | ((c >> 6) & 0x3F));
    b[2] = (char)(0x80 | (c & 0x3F));
  }
  od_str_add(out, b);
}

/* Syllables are made of a leading, a vowel and perhaps a trailing letter, by arithmetic (Unicode 3.12). */
static bool add_hangul(od_str *out, uint32_t c) {
  if (c < 0xAC00 || c >= 0xAC00 + 11172) return false;
  uint32_t s = c - 0xAC00;
  add_char(out, 0x1100 + s / 588);
  add_char(out, 0x1161 + s % 588 / 28);
  if (s % 28) add_char(out, 0x11A7 + s % 28);
  return true;
}

static bool add_from_table(od_str *out, uint32_t c) {
  for (size_t i = 0; i < od_nfkd_size && od_nfkd_table[i] <= c; i += 2u + od_nfkd_table[i + 1]) {
    if (od_nfkd_table[i] != c) continue;
    for (size_t k = 0; k < od_nfkd_table[i + 1]; k++) add_char(out, od_nfkd_table[i + 2 + k]);
    return true;
  }
  return false;
}

void od_eval_add_nfkd(od_str *out, const char *name) {
  while (*name) {
    uint32_t c;
    int n = read_char(&c, name);
    if (n == 0 || (!add_hangul(out, c) && !add_from_table(out, c))) od_str_add_bytes(out, name, n ? (size_t)n : 1);
    name += n ? n : 1;
  }
}
