# The pages are true as far as a script can tell: links lead somewhere, commands and flags exist, generated pages are fresh, the index
# is complete.
. "$(dirname "$0")/lib.sh"
pages=$(cd "$root" && ls README.md docs/*.md)

# A heading as it stands in a link: lower case, blanks to hyphens, other signs gone.
anchors() { sed -n 's/^#\{1,6\} //p' "$1" | tr '[:upper:]' '[:lower:]' | sed "s/[^a-z0-9 _-]//g; s/ /-/g"; }

links() {
  broken=0
  for page in $pages; do
    grep -oE '\]\([^)]+\)' "$root/$page" | sed 's/^](//; s/)$//' | sort -u >links || true
    while read -r link; do
      case $link in http://* | https://* | mailto:*) continue ;; esac
      file=${link%%#*} anchor=
      case $link in *"#"*) anchor=${link#*#} ;; esac
      target=$root/$(dirname "$page")/$file
      [ -n "$file" ] || target=$root/$page
      if [ ! -e "$target" ]; then
        echo "$page: $link leads nowhere"
        broken=1
      elif [ -n "$anchor" ] && ! anchors "$target" | grep -qxF -- "$anchor"; then
        echo "$page: $link: there is no such heading"
        broken=1
      fi
    done <links
  done
  [ $broken -eq 0 ]
}

# "page command flag" of every call in code blocks and code spans; a call without flags gives "-".
calls() {
  awk '
    function call(text, n, i, words, name, any) {
      while (match(text, /(^|[^a-z_.-])(objdet|python|python3)( -m)? [a-z][a-z_.\/0-9]*/)) {
        name = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        python = name ~ /python/
        sub(/.* /, "", name)
        if (python && name !~ /^object_detection/) continue
        sub(/\.py$/, "", name)
        sub(/.*[\/.]/, "", name)
        if (name == "") continue
        rest = text
        if (match(rest, /(^|[ \/])(objdet|python) /)) rest = substr(rest, 1, RSTART)
        sub(/[|;&].*/, "", rest)
        n = split(rest, words, /[ \t]+/)
        any = 0
        for (i = 1; i <= n; i++)
          if (words[i] ~ /^--[a-z]/) {
            sub(/=.*/, "", words[i])
            print FILENAME, name, words[i]
            any = 1
          }
        if (!any) print FILENAME, name, "-"
      }
    }
    FNR == 1 { held = "" }
    { line = held $0; held = "" }
    /\\$/ { sub(/\\$/, " ", line); held = line; next }
    line ~ /^    / || line ~ /^       / { call(line); next }
    { n_spans = split(line, spans, "`"); for (s = 2; s <= n_spans; s += 2) call(spans[s]) }
  ' "$@"
}

flags_of() { "$objdet" "$1" -h 2>/dev/null | sed -n 's/^  --\([a-z_0-9]*\).*/--\1/p'; }

flags() {
  wrong=0
  (cd "$root" && calls $pages) | sort -u >calls.txt
  [ "$(wc -l <calls.txt)" -gt 40 ] || { echo "only $(wc -l <calls.txt) calls found: is the script blind?"; return 1; }
  while read -r page command flag; do
    case $command in setup | model_tpu_main | create_labelme_tf_record) continue ;; esac # refused by name; an example of a how-to
    [ -f "flags-$command" ] || flags_of "$command" >"flags-$command"
    "$objdet" "$command" -h >/dev/null 2>&1 || { echo "$page: there is no command $command"; wrong=1; continue; }
    case $flag in - | --alsologtostderr | --logtostderr) continue ;; esac
    positive=$(echo "$flag" | sed 's/^--no/--/')
    grep -qx -- "$flag" "flags-$command" || grep -qx -- "$positive" "flags-$command" || { echo "$page: $command has no flag $flag"; wrong=1; }
  done <calls.txt
  [ $wrong -eq 0 ]
}

# Flags named in running text belong to some command, or to these.
flags_in_text() {
  {
    for command in $("$objdet" -h | sed -n 's/^  \([a-z_]*\) .*/\1/p'); do flags_of "$command"; done
    printf '%s\n' --flag --noflag --version --with-onednn --check --op --nofaces_only --alsologtostderr --logtostderr --cflags --libs --logdir
  } | sort -u >known
  (cd "$root" && grep -oE -- '(^|[^a-z-])--[a-z][a-z_0-9-]+' $pages) | sed 's/.*--/--/' | sort -u >named
  unknown=$(comm -13 known named)
  [ -z "$unknown" ] || { echo "no command has:" $unknown; return 1; }
}

ops_page() { "$objdet" ops | diff - "$root/docs/ops.md" || { echo "docs/ops.md is not what \`objdet ops\` prints"; return 1; }; }

index() {
  missing=0
  for page in "$root"/docs/*.md; do
    name=$(basename "$page")
    [ "$name" = index.md ] || [ "$name" = README.md ] || grep -qF "($name)" "$root/docs/index.md" || { echo "docs/index.md does not list $name"; missing=1; }
  done
  [ $missing -eq 0 ]
}

check links links
check flags_of_commands flags
check flags_in_text flags_in_text
check ops_page ops_page
check index index
finish
