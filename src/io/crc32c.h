/* CRC-32C (Castagnoli, polynomial 0x1edc6f41 reflected, RFC 3720 appendix B.4), TensorFlow's checksum in records, tables and
 * bundles. Our own: it is forty lines, and the smallest distribution we build on has no package of libcrc32c for C. */
#ifndef OD_IO_CRC32C_H
#define OD_IO_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Checksum of n bytes. */
uint32_t od_crc32c(const void *data, size_t n);
/* Checksum of A followed by these n bytes, crc being that of A (0 for nothing). */
uint32_t od_crc32c_extend(uint32_t crc, const void *data, size_t n);
/* The same by table, whatever the processor offers: the yardstick of the tests. */
uint32_t od_crc32c_table(uint32_t crc, const void *data, size_t n);

/* TensorFlow stores checksums rotated and shifted, since the checksum of text that holds its checksum is bad. */
uint32_t od_crc32c_mask(uint32_t crc);
uint32_t od_crc32c_unmask(uint32_t masked);

#endif
