"""make_nfkd.py: writes src/eval/nfkd_table.c (compatibility decompositions) from Python's unicodedata, and a few checks for it.

Run in the repository. The ranges are those of scripts in which people name classes; Hangul is arithmetic and in the C code.
"""
import unicodedata

RANGES = [(0xA0, 0x24F), (0x370, 0x4FF), (0x622, 0x626), (0x900, 0x9FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x209F),
          (0x2100, 0x218F), (0x3000, 0x30FF), (0xFB00, 0xFB06), (0xFF00, 0xFFEF)]
numbers, entries = [], 0
for first, last in RANGES:
    for c in range(first, last + 1):
        d = unicodedata.normalize("NFKD", chr(c))
        if d != chr(c):
            numbers += [c, len(d)] + [ord(x) for x in d]
            entries += 1
lines, line = [], " "
for n in numbers:
    item = " 0x%x," % n if n > 9 else " %d," % n
    if len(line) + len(item) > 118:
        lines.append(line)
        line = " "
    line += item
lines.append(line)
with open("src/eval/nfkd_table.c", "w") as f:
    f.write("/* Compatibility decompositions of Unicode %s, made by tests/witness/make_nfkd.py: character, count, its parts. */\n"
            '#include "eval/names.h"\n\n/* clang-format off */\nconst uint16_t od_nfkd_table[] = {\n%s\n};\n/* clang-format on */\n'
            "const size_t od_nfkd_size = sizeof od_nfkd_table / sizeof od_nfkd_table[0];\n"
            % (unicodedata.unidata_version, "\n".join(lines)))
with open("tests/golden/eval/nfkd.txt", "w") as f:
    f.write("# tests/witness/make_nfkd.py, Unicode %s: name, normalised name\n" % unicodedata.unidata_version)
    for name in ("cat", "Österreich", "café", "ёж", "さざえ", "ｶﾞ", "한국어", "ﬁsh ½", "ǅ ẚ ở", "Άλφα", "漢字", "a\u0301"):
        f.write("%s\t%s\n" % (name, unicodedata.normalize("NFKD", name)))
print(entries, "entries")
