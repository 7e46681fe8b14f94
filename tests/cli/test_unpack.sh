#!/bin/sh
# Records unpacked and converted again hold the same boxes and the same pictures.
. "$(dirname "$0")/tiny.sh"
tiny_begin

unpack_and_convert() {
  "$objdet" draw_shapes --output_dir=shapes --count=12 --held_out_count=1 >log 2>&1 &&
    "$objdet" create_pascal_tf_record --data_dir=shapes --label_map_path=shapes/label_map.pbtxt --examples=shapes/train.txt --output_path=a.record >>log 2>&1 &&
    "$objdet" unpack --record=a.record --output_dir=out >>log 2>&1 &&
    "$objdet" create_pascal_tf_record --data_dir=out --label_map_path=shapes/label_map.pbtxt --output_path=b.record >>log 2>&1 || { cat log; return 1; }
  "$objdet" inspect a.record >a.txt && "$objdet" inspect b.record >b.txt || return 1
  grep -E 'bbox|class' a.txt >a.boxes && grep -E 'bbox|class' b.txt >b.boxes && [ -s a.boxes ] && cmp a.boxes b.boxes || return 1
  for f in out/images/*; do cmp "$f" "shapes/images/$(basename "$f")" || return 1; done
  "$objdet" unpack --pets --record=a.record --output_dir=pets >>log 2>&1 && [ "$(ls pets/annotations/trimaps pets/annotations/xmls | grep -c '\.')" -eq 24 ] &&
    [ "$(wc -l <pets/annotations/trainval.txt)" -eq 12 ]
}
nothing_to_unpack() {
  fails 2 'needs --record' "$objdet" unpack --output_dir=x && fails 1 'nothing.record' "$objdet" unpack --record=nothing.record --output_dir=x
}
check unpack_and_convert_again unpack_and_convert
check unpack_needs_records nothing_to_unpack
finish
