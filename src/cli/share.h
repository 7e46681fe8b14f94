/* Where the program's own data files lie: label maps and sample configs. */
#ifndef OD_CLI_SHARE_H
#define OD_CLI_SHARE_H

#include "base/status.h"

/* The folder that holds data/ and samples/: $OBJDET_SHARE, else beside the program as installed (../share/objdet), else the
 * source tree that it was built in (..), else the prefix that it was built for. OD_ENOENT naming where it was looked for. The
 * caller frees *out with od_free. */
OD_MUST_CHECK od_status od_share_folder(char **out);

/* Absolute path of this program's file. The caller frees *out with od_free. */
OD_MUST_CHECK od_status od_program_path(char **out);

#endif
