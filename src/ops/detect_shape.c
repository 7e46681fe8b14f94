/* Shape inference by patterns; see detect_shape.h. */
#include "ops/detect_shape.h"

#include <ctype.h>
#include <string.h>

void od_letters_clear(od_letters *d) {
  for (int i = 0; i < 26; i++) d->dim[i] = -1;
}

static od_status wrong(const od_infer *c, int i, const char *what, const char *pattern) {
  char text[OD_SHAPE_TEXT];
  return od_fail(OD_EINVAL, "input %d (%s) is %s, expected [%s]", i, what, od_shape_text(text, &c->in[i].shape),
                 pattern);
}

/* Binds or compares one dimension. */
static bool bind(od_letters *d, char p, int64_t v) {
  if (p == '?') return true;
  if (isdigit((unsigned char)p)) return v < 0 || v == p - '0';
  int64_t *at = &d->dim[p - 'A'];
  if (*at < 0) *at = v;
  return v < 0 || *at == v;
}

od_status od_letters_in(od_letters *d, const od_infer *c, int i, const char *what, od_dtype dtype,
                        const char *pattern) {
  if (i >= c->n_in || !c->present[i]) return OD_OK;
  if (c->in[i].dtype != dtype)
    return od_fail(OD_EINVAL, "input %d (%s) is %s, expected %s", i, what, od_dtype_name(c->in[i].dtype),
                   od_dtype_name(dtype));
  const od_shape *s = &c->in[i].shape;
  if (s->rank != (int)strlen(pattern)) return wrong(c, i, what, pattern);
  for (int k = 0; k < s->rank; k++)
    if (!bind(d, pattern[k], s->dim[k])) return wrong(c, i, what, pattern);
  return OD_OK;
}

od_status od_letters_in2(od_letters *d, const od_infer *c, int i, const char *what, od_dtype dtype, const char *one,
                         const char *other) {
  bool second = i < c->n_in && c->present[i] && c->in[i].shape.rank == (int)strlen(other);
  return od_letters_in(d, c, i, what, dtype, second ? other : one);
}

void od_letters_set(od_letters *d, char letter, int64_t v) { d->dim[letter - 'A'] = v; }
int64_t od_letters_get(const od_letters *d, char letter) { return d->dim[letter - 'A']; }

void od_letters_out(const od_letters *d, const od_infer *c, int o, od_dtype dtype, const char *pattern) {
  od_type *t = &c->out[o];
  t->dtype = dtype;
  t->shape.rank = (int)strlen(pattern);
  for (int k = 0; k < t->shape.rank; k++)
    t->shape.dim[k] = isdigit((unsigned char)pattern[k]) ? pattern[k] - '0'
                      : pattern[k] == '?'                ? -1
                                                         : d->dim[pattern[k] - 'A'];
}
