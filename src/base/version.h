/* The version of program and library; the Makefile reads it here. */
#ifndef OD_BASE_VERSION_H
#define OD_BASE_VERSION_H
#define OD_VERSION "0.1.0"
#endif
