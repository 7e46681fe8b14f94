/* Tokens of the text format and the errors that point at them. Private to the textproto files. */
#ifndef OD_IO_TEXTPROTO_LEX_H
#define OD_IO_TEXTPROTO_LEX_H

#include "io/protobuf.h"
#include "io/textproto.h"

typedef enum {
  OD_TOK_END,
  OD_TOK_NAME,   /* letters, digits, underscores; begins with no digit */
  OD_TOK_NUMBER, /* begins with a digit, a sign, or a point before a digit; not yet checked */
  OD_TOK_STRING, /* quotes included */
  OD_TOK_MARK    /* one character */
} od_tok_kind;

typedef struct {
  od_tok_kind kind;
  const char *start;
  size_t len;
  const char *line_start;
  int line;
} od_tok;

typedef struct {
  const char *name, *text, *end; /* what is read */
  const char *p, *line_start;
  int line;
  od_tok tok; /* the token to be looked at */
} od_lex;

/* Begins; refuses byte order marks, UTF-16 and web pages. tok is the first token afterwards. */
OD_MUST_CHECK od_status od_lex_begin(od_lex *lex, const char *name, const char *text, size_t len);
/* Goes on to the next token. Fails on a character that begins none and on a string without end. */
OD_MUST_CHECK od_status od_lex_next(od_lex *lex);

bool od_lex_is(const od_lex *lex, char mark);
bool od_tok_equals(const od_tok *tok, const char *text);
/* Column of the token, from 1, in characters. */
int od_tok_column(const od_tok *tok);

/* Fails at a token: "name:line:column: <text>", the line, the caret; then "likely cause: ..." when cause is not NULL or
 * one is seen in the text. */
od_status od_lex_fail(const od_lex *lex, const od_tok *at, const char *cause, const char *format, ...) OD_PRINTF(4, 5);

/* The token as a short quotable text, cut where it is long. Static buffer of the thread. */
const char *od_tok_show(const od_tok *tok);

/* Reads one scalar of the field's type (adjacent strings are one) into *value, of the struct's own type; texts and bytes
 * are od_alloc'ed. Not for messages. */
OD_MUST_CHECK od_status od_lex_scalar(od_lex *lex, const ProtobufCFieldDescriptor *field, void *value);

/* Decodes a string token's escapes onto s. */
OD_MUST_CHECK od_status od_lex_string(const od_lex *lex, const od_tok *tok, const ProtobufCFieldDescriptor *field,
                                      od_str *s);

/* ------------------------------------------------------------------------------------------------ textproto_pos.c */
/* Records a place; field NULL: the block of the message itself. Names are kept once. */
OD_MUST_CHECK od_status od_textpos_put(od_textpos *pos, const void *message, const ProtobufCFieldDescriptor *field,
                                       size_t i, const char *name, int line, int column);
/* Forgets what was recorded for this message, and for those inside it. To be called before it is freed. */
void od_textpos_forget(od_textpos *pos, const void *message);
/* Forgets one element. */
void od_textpos_drop(od_textpos *pos, const void *message, const ProtobufCFieldDescriptor *field, size_t i);
/* Forgets one field, all its elements and the messages inside it. */
void od_textpos_forget_field(od_textpos *pos, const void *message, const ProtobufCFieldDescriptor *field);

/* -------------------------------------------------------------------------------------------------- textproto.c */
/* Parses the rest of a value whose field is known: a scalar, a block, or a [list], from lex->tok on, up to the end of
 * the text, into message. For the setter. */
OD_MUST_CHECK od_status od_textproto_value(void *message, const ProtobufCFieldDescriptor *field, const char *name,
                                           const char *text, od_textpos *pos);

/* Field names of a type that resemble the word; NULL when none does. */
const char *od_textproto_near(const ProtobufCMessageDescriptor *type, const char *word);

#endif
