/* Tokens of the text format, and error messages that show the place and guess the cause; see textproto.h. */
#include "io/textproto_lex.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* ------------------------------------------------------------------------------------------------------------- errors */
enum { SHOWN_MAX = 100 }; /* characters of a source line shown: what fits on a screen beside an indent */

/* Bytes of the character that begins here (UTF-8; 1 for anything that is not). */
static size_t char_len(const char *p, const char *end) {
  unsigned char c = (unsigned char)*p;
  size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
  if (n > (size_t)(end - p)) return 1;
  for (size_t i = 1; i < n; i++)
    if (((unsigned char)p[i] & 0xc0) != 0x80) return 1;
  return n;
}

static int columns(const char *from, const char *to) {
  int n = 0;
  while (from < to) {
    from += char_len(from, to);
    n++;
  }
  return n;
}

int od_tok_column(const od_tok *tok) { return columns(tok->line_start, tok->start) + 1; }

const char *od_tok_show(const od_tok *tok) {
  static _Thread_local char text[64];
  if (tok->kind == OD_TOK_END) return "the end of the text";
  int n = tok->len > 40 ? 40 : (int)tok->len;
  while (n > 0 && n < (int)tok->len && ((unsigned char)tok->start[n] & 0xc0) == 0x80) n--;
  snprintf(text, sizeof text, "'%.*s%s'", n, tok->start, n < (int)tok->len ? "..." : "");
  return text;
}

static bool line_has(const char *from, const char *end, const char *what) {
  size_t n = strlen(what);
  for (const char *p = from; p + n <= end && *p != '\n'; p++)
    if (memcmp(p, what, n) == 0) return true;
  return false;
}

/* What the line looks like to someone who has seen many broken configs. */
static const char *guess(const od_lex *lex, const od_tok *at) {
  const char *l = at->line_start, *end = lex->end;
  if (end - l >= 7 && (memcmp(l, "<<<<<<<", 7) == 0 || memcmp(l, "=======", 7) == 0 || memcmp(l, ">>>>>>>", 7) == 0))
    return "a merge conflict that was left in the file";
  const char *p = lex->text;
  while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
  if (line_has(p, end, "<!DOCTYPE") || line_has(p, end, "<!doctype") || line_has(p, end, "<html") ||
      line_has(p, end, "<?xml"))
    return "this is a web page, not a config: download the file itself (the \"raw\" link)";
  if (p < end && *p == '{')
    return "this looks like JSON: the text format has no braces around the whole and no quotes round names";
  if (line_has(l, end, "://")) {
    for (const char *q = l; q < at->start + at->len; q++)
      if (*q == '"' || *q == '\'') return NULL; /* a URL inside quotes is fine */
    return "an address was pasted here; a comment begins with #, a text stands in quotes";
  }
  if (line_has(l, end, "</") || line_has(l, end, "/>")) return "a piece of a web page (HTML) was pasted here";
  if (line_has(l, end, "\\")) return "a Windows path: put it in quotes and write / or \\\\ for each backslash";
  if (at->kind == OD_TOK_MARK && *at->start == '/') return "a comment begins with #; a path stands in quotes";
  return NULL;
}

/* The line with a caret below; long lines are cut around the place. */
static void show_line(od_str *s, const od_lex *lex, const od_tok *at) {
  const char *from = at->line_start, *to = from;
  while (to < lex->end && *to != '\n' && *to != '\r' && *to) to++;
  int column = od_tok_column(at) - 1, total = columns(from, to);
  const char *head = "", *tail = "";
  if (total > SHOWN_MAX) {
    int skip = column > SHOWN_MAX / 2 ? column - SHOWN_MAX / 2 : 0;
    if (skip > 0) head = "...";
    for (int i = 0; i < skip && from < to; i++) from += char_len(from, to);
    column -= skip;
    const char *cut = from;
    for (int i = 0; i < SHOWN_MAX && cut < to; i++) cut += char_len(cut, to);
    if (cut < to) tail = "...";
    to = cut;
  }
  od_str_addf(s, "\n  %s", head);
  for (const char *p = from; p < to; p++) { /* control characters would play tricks with the terminal */
    char c = ((unsigned char)*p < 32 || *p == 127) ? ' ' : *p;
    od_str_add_bytes(s, &c, 1);
  }
  od_str_addf(s, "%s\n  %*s^", tail, column + (int)strlen(head), "");
}

od_status od_lex_fail(const od_lex *lex, const od_tok *at, const char *cause, const char *format, ...) {
  char text[1024];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  od_str s = OD_STR_INIT;
  od_str_addf(&s, "%s:%d:%d: %s", lex->name, at->line, od_tok_column(at), text);
  show_line(&s, lex, at);
  if (!cause) cause = guess(lex, at);
  if (cause) od_str_addf(&s, "\n  likely cause: %s", cause);
  od_status st = od_fail(OD_EINVAL, "%s", s.failed ? text : od_str_text(&s));
  od_str_free(&s);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------- tokens */
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool od_lex_is(const od_lex *lex, char mark) { return lex->tok.kind == OD_TOK_MARK && *lex->tok.start == mark; }

bool od_tok_equals(const od_tok *tok, const char *text) {
  return tok->len == strlen(text) && memcmp(tok->start, text, tok->len) == 0;
}

static void skip_space(od_lex *lex) {
  for (; lex->p < lex->end; lex->p++) {
    char c = *lex->p;
    if (c == '#') {
      while (lex->p < lex->end && *lex->p != '\n') lex->p++;
      if (lex->p == lex->end) return;
      c = '\n';
    }
    if (c == '\n') {
      lex->line++;
      lex->line_start = lex->p + 1;
    } else if (c != ' ' && c != '\t' && c != '\r' && c != '\v' && c != '\f') {
      return;
    }
  }
}

/* Characters that word processors and web pages put where plain ones belong. */
static od_status strange_char(const od_lex *lex, const od_tok *at) {
  static const struct {
    const char *bytes, *what, *cause;
  } known[] = {
      {"\xe2\x80\x9c", "a typographic quote", NULL},
      {"\xe2\x80\x9d", "a typographic quote", NULL},
      {"\xe2\x80\x9e", "a typographic quote", NULL},
      {"\xe2\x80\x98", "a typographic quote", NULL},
      {"\xe2\x80\x99", "a typographic quote", NULL},
      {"\xc2\xab", "a typographic quote", NULL},
      {"\xc2\xbb", "a typographic quote", NULL},
      {"\xc2\xa0", "a no-break space", "text copied from a web page; write a plain space"},
      {"\xe2\x80\x8b", "a zero-width space", "text copied from a web page; delete it"},
      {"\xef\xbb\xbf", "a byte order mark",
       "files joined together, each saved with a mark (UTF-8 with BOM); delete it"},
      {"\xe2\x80\x93", "a dash", "a word processor made it from -; write a plain minus"},
      {"\xe2\x88\x92", "a typographic minus", "text copied from a page; write a plain minus"},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t n = strlen(known[i].bytes);
    if ((size_t)(lex->end - at->start) < n || memcmp(at->start, known[i].bytes, n) != 0) continue;
    const char *cause =
        known[i].cause ? known[i].cause : "a word processor or web page changed the quotes; write \" instead";
    return od_lex_fail(lex, at, cause, "%s where a name or value should be", known[i].what);
  }
  unsigned char c = (unsigned char)*at->start;
  if (c < 32 || c == 127) return od_lex_fail(lex, at, "not a text file", "a control character (code %u)", c);
  int n = (int)char_len(at->start, lex->end);
  return od_lex_fail(lex, at, NULL, "the character '%.*s' means nothing here", n, at->start);
}

static od_status string_token(od_lex *lex, od_tok *t) {
  char quote = *t->start;
  const char *p = t->start + 1;
  while (p < lex->end && *p != quote && *p != '\n') p += (*p == '\\' && p + 1 < lex->end && p[1] != '\n') ? 2 : 1;
  if (p >= lex->end || *p != quote) {
    t->len = (size_t)(p - t->start);
    const char *cause =
        memchr(t->start, '\\', t->len) ? "a backslash before the closing quote takes its meaning away" : NULL;
    return od_lex_fail(lex, t, cause ? cause : "the quote is missing, or it is of the other kind",
                       "a text without its closing %c on the same line", quote);
  }
  t->len = (size_t)(p + 1 - t->start);
  return OD_OK;
}

od_status od_lex_next(od_lex *lex) {
  skip_space(lex);
  od_tok *t = &lex->tok;
  *t = (od_tok){OD_TOK_END, lex->p, 0, lex->line_start, lex->line};
  if (lex->p >= lex->end) return OD_OK;
  const char *p = lex->p;
  char c = *p, after = p + 1 < lex->end ? p[1] : 0;
  if (is_letter(c)) {
    t->kind = OD_TOK_NAME;
    while (p < lex->end && (is_letter(*p) || is_digit(*p))) p++;
  } else if (is_digit(c) || c == '+' || c == '-' || (c == '.' && is_digit(after))) {
    t->kind = OD_TOK_NUMBER;
    do p++;
    while (p < lex->end && (is_letter(*p) || is_digit(*p) || *p == '.' || *p == '+' || *p == '-'));
  } else if (c == '"' || c == '\'') {
    t->kind = OD_TOK_STRING;
    OD_TRY(string_token(lex, t));
    p += t->len;
  } else if (strchr("{}<>[]:;,.=/()\\@!$%&*?^|~`", c) && c) {
    t->kind = OD_TOK_MARK;
    p++;
  } else {
    return strange_char(lex, t);
  }
  t->len = (size_t)(p - t->start);
  lex->p = p;
  return OD_OK;
}

od_status od_lex_begin(od_lex *lex, const char *name, const char *text, size_t len) {
  *lex = (od_lex){.name = name, .text = text, .end = text + len, .p = text, .line_start = text, .line = 1};
  const unsigned char *u = (const unsigned char *)text;
  if (len >= 2 && ((u[0] == 0xff && u[1] == 0xfe) || (u[0] == 0xfe && u[1] == 0xff)))
    return od_fail(OD_EINVAL,
                   "%s:1:1: the file is UTF-16, not plain text\n  likely cause: saved as \"Unicode\" by a Windows "
                   "editor or PowerShell; save it as UTF-8 without byte order mark",
                   name);
  if (len >= 3 && u[0] == 0xef && u[1] == 0xbb && u[2] == 0xbf)
    return od_fail(OD_EINVAL,
                   "%s:1:1: the file begins with a byte order mark (BOM), which the text format does not allow\n"
                   "  likely cause: saved as \"UTF-8 with BOM\" by a Windows editor; save it as plain UTF-8",
                   name);
  return od_lex_next(lex);
}
