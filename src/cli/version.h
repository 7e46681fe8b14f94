/* The version of program and library. */
#ifndef OD_CLI_VERSION_H
#define OD_CLI_VERSION_H
#define OD_VERSION "0.1.0"
#endif
