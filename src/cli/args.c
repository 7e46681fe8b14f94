/* Command-line flags; see command.h. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/command.h"

typedef struct {
  const char **items;
  size_t n, cap;
} texts;

typedef struct {
  const od_flag *flag;
  texts values; /* as given; the last counts unless it is a list */
} given;

struct od_args {
  const od_command *command;
  given *flags; /* one for each flag of the command */
  size_t n_flags;
  texts words;
};

/* absl's flags, understood and without effect: this program always logs to stderr. */
static const od_flag ignored[] = {{"logtostderr", OD_FLAG_BOOL, NULL, NULL},
                                  {"alsologtostderr", OD_FLAG_BOOL, NULL, NULL},
                                  {"stderrthreshold", OD_FLAG_TEXT, NULL, NULL},
                                  {"verbosity", OD_FLAG_TEXT, NULL, NULL},
                                  {"v", OD_FLAG_TEXT, NULL, NULL},
                                  {"log_dir", OD_FLAG_TEXT, NULL, NULL}};
enum { N_IGNORED = sizeof ignored / sizeof *ignored };

static od_status add(texts *t, const char *text) {
  OD_TRY(od_grow(&t->items, &t->cap, t->n + 1, sizeof *t->items));
  t->items[t->n++] = text;
  return OD_OK;
}

static given *find(const od_args *a, const char *name, size_t len) {
  for (size_t i = 0; i < a->n_flags; i++)
    if (strlen(a->flags[i].flag->name) == len && strncmp(a->flags[i].flag->name, name, len) == 0) return &a->flags[i];
  return NULL;
}

static const od_flag *find_ignored(const char *name, size_t len) {
  for (size_t i = 0; i < N_IGNORED; i++)
    if (strlen(ignored[i].name) == len && strncmp(ignored[i].name, name, len) == 0) return &ignored[i];
  return NULL;
}

static od_status unknown(const od_args *a, const char *name, size_t len) {
  const char *names[128];
  size_t n = 0;
  char word[128];
  snprintf(word, sizeof word, "%.*s", (int)len, name);
  for (size_t i = 0; i < a->n_flags && n < 128; i++) names[n++] = a->flags[i].flag->name;
  const char *near = od_did_you_mean(word, names, n);
  if (near) return od_fail(OD_EUSAGE, "%s has no flag --%s; did you mean --%s?", a->command->name, word, near);
  return od_fail(OD_EUSAGE, "%s has no flag --%s; objdet %s -h lists them", a->command->name, word, a->command->name);
}

static bool is_truth(const char *text, bool *value) {
  static const char *const yes[] = {"true", "t", "1", "yes", "y"}, *const no[] = {"false", "f", "0", "no", "n"};
  for (int i = 0; i < 5; i++) {
    if (strcasecmp(text, yes[i]) == 0) return *value = true, true;
    if (strcasecmp(text, no[i]) == 0) return *value = false, true;
  }
  return false;
}

static od_status check_value(const od_flag *f, const char *value) {
  int64_t i;
  double d;
  bool b;
  if (f->type == OD_FLAG_INT && !od_parse_i64(&i, value))
    return od_fail(OD_EUSAGE, "--%s wants a whole number, not '%s'", f->name, value);
  if (f->type == OD_FLAG_FLOAT && !od_parse_f64(&d, value))
    return od_fail(OD_EUSAGE, "--%s wants a number, not '%s'", f->name, value);
  if (f->type == OD_FLAG_BOOL && !is_truth(value, &b))
    return od_fail(OD_EUSAGE, "--%s wants true or false, not '%s'", f->name, value);
  return OD_OK;
}

/* One argument that begins with a dash; may take the next one. */
static od_status parse_flag(od_args *a, int argc, char **argv, int *at) {
  const char *name = argv[*at] + (argv[*at][1] == '-' ? 2 : 1), *equals = strchr(name, '=');
  size_t len = equals ? (size_t)(equals - name) : strlen(name);
  given *g = find(a, name, len);
  const od_flag *f = g ? g->flag : find_ignored(name, len);
  const char *value = equals ? equals + 1 : NULL;
  if (!f && !equals && len > 2 && strncmp(name, "no", 2) == 0) {
    g = find(a, name + 2, len - 2);
    f = g ? g->flag : find_ignored(name + 2, len - 2);
    if (f && f->type == OD_FLAG_BOOL)
      value = "false";
    else
      f = NULL;
  }
  if (!f) return unknown(a, name, len);
  if (!value && f->type == OD_FLAG_BOOL) value = "true";
  if (!value) {
    if (*at + 1 >= argc) return od_fail(OD_EUSAGE, "--%s wants a value", f->name);
    value = argv[++*at];
  }
  OD_TRY(check_value(f, value));
  return g ? add(&g->values, value) : OD_OK;
}

static bool asks_help(const char *arg) {
  static const char *const words[] = {"-h", "-help", "--help", "--helpfull", "--helpshort"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(arg, words[i]) == 0) return true;
  return false;
}

static od_status check_words(const od_args *a) {
  if (a->words.n == 0 || a->command->words) return OD_OK;
  bool truth;
  const char *word = a->words.items[0];
  if (is_truth(word, &truth))
    return od_fail(OD_EUSAGE, "%s takes flags only, not '%s': a switch wants its value behind '=', as in --flag=%s",
                   a->command->name, word, word);
  return od_fail(OD_EUSAGE, "%s takes flags only, not '%s'", a->command->name, word);
}

static od_status parse_all(od_args *a, int argc, char **argv, bool *help) {
  bool only_words = false;
  for (int i = 0; i < argc; i++) {
    if (only_words || argv[i][0] != '-' || !argv[i][1]) {
      OD_TRY(add(&a->words, argv[i]));
    } else if (strcmp(argv[i], "--") == 0) {
      only_words = true;
    } else if (asks_help(argv[i])) {
      *help = true;
    } else {
      OD_TRY(parse_flag(a, argc, argv, &i));
    }
  }
  return *help ? OD_OK : check_words(a);
}

od_status od_args_parse(od_args **out, const od_command *c, int argc, char **argv, bool *help) {
  od_args *a;
  OD_TRY(od_new(&a, 1, sizeof *a));
  a->command = c;
  *help = false;
  while (c->flags && c->flags[a->n_flags].name) a->n_flags++;
  od_status st = od_new(&a->flags, a->n_flags, sizeof *a->flags);
  for (size_t i = 0; i < a->n_flags && st == OD_OK; i++) a->flags[i].flag = &c->flags[i];
  if (st == OD_OK) st = parse_all(a, argc, argv, help);
  if (st != OD_OK)
    od_args_free(a);
  else
    *out = a;
  return st;
}

void od_args_free(od_args *a) {
  if (!a) return;
  for (size_t i = 0; a->flags && i < a->n_flags; i++) od_free(a->flags[i].values.items);
  od_free(a->flags);
  od_free(a->words.items);
  od_free(a);
}

static const given *get(const od_args *a, const char *flag) {
  const given *g = find(a, flag, strlen(flag));
  OD_ASSERT(g); /* a command asks only for flags of its table */
  return g;
}

const char *od_arg_text(const od_args *a, const char *flag) {
  const given *g = get(a, flag);
  return g->values.n ? g->values.items[g->values.n - 1] : g->flag->value;
}

int64_t od_arg_int(const od_args *a, const char *flag) {
  int64_t v = 0;
  const char *text = od_arg_text(a, flag);
  return text && od_parse_i64(&v, text) ? v : 0;
}

int od_arg_int32(const od_args *a, const char *flag) {
  int64_t v = od_arg_int(a, flag);
  return v > INT_MAX ? INT_MAX : v < INT_MIN ? INT_MIN : (int)v;
}

double od_arg_float(const od_args *a, const char *flag) {
  double v = 0;
  const char *text = od_arg_text(a, flag);
  return text && od_parse_f64(&v, text) ? v : 0;
}

bool od_arg_bool(const od_args *a, const char *flag) {
  bool v = false;
  const char *text = od_arg_text(a, flag);
  return text && is_truth(text, &v) && v;
}

bool od_arg_given(const od_args *a, const char *flag) { return get(a, flag)->values.n > 0; }

bool od_arg_has(const od_args *a, const char *flag) { return find(a, flag, strlen(flag)) != NULL; }

size_t od_arg_list(const od_args *a, const char *flag, const char *const **items) {
  const given *g = get(a, flag);
  *items = g->values.items;
  return g->values.n;
}

size_t od_arg_words(const od_args *a, const char *const **words) {
  *words = a->words.items;
  return a->words.n;
}

od_status od_arg_required(const od_args *a, const char *flag) {
  const char *text = od_arg_text(a, flag);
  if (text && *text) return OD_OK;
  return od_fail(OD_EUSAGE, "%s needs --%s; objdet %s -h explains it", a->command->name, flag, a->command->name);
}

void od_command_help(const od_command *c) {
  printf("usage: objdet %s [flags]%s%s\n\n%s\n\n", c->name, c->words ? " " : "", c->words ? c->words : "",
         c->summary ? c->summary : "not listed: for work on objdet itself");
  for (const od_flag *f = c->flags; f && f->name; f++) {
    char left[64];
    static const char *const kinds[] = {"=TEXT", "=N", "=X", "", "=TEXT"};
    snprintf(left, sizeof left, "--%s%s", f->name, kinds[f->type]);
    printf("  %-34s %s", left, f->help);
    if (f->value && *f->value) printf(" (default: %s)", f->value);
    printf("\n");
  }
}
