# make install, and what is installed used as a stranger would: the example built with pkg-config alone, objdet init from the
# installed data files.
. "$(dirname "$0")/lib.sh"

installs() {
  make -s --no-print-directory -C "$root" BUILD="${BUILD:-build}" PREFIX="$dir/usr" install
  for f in bin/objdet lib/libobjdet.a lib/libobjdet.so lib/pkgconfig/objdet.pc include/objdet.h share/objdet/data/pet_label_map.pbtxt \
    share/objdet/samples/configs/ssd_mobilenet_v1_pets.config share/objdet/samples/quickstart.config \
    share/objdet/samples/quickstart_faster_rcnn.config; do
    test -s "usr/$f" || { echo "$f is missing"; return 1; }
  done
  [ "$(usr/bin/objdet --version)" = "objdet $(PKG_CONFIG_PATH=usr/lib/pkgconfig pkg-config --modversion objdet)" ]
}

# Staged as packagers do: nothing outside DESTDIR.
stages() {
  make -s --no-print-directory -C "$root" BUILD="${BUILD:-build}" PREFIX=/opt/objdet DESTDIR="$dir/stage" install
  test -x stage/opt/objdet/bin/objdet
  grep -qx 'prefix=/opt/objdet' stage/opt/objdet/lib/pkgconfig/objdet.pc
}

# The shared library has the functions of the header, no more and no fewer of that prefix.
shows_the_header() {
  nm -D --defined-only usr/lib/libobjdet.so | sed -n 's/.* T //p' | sort >shown
  grep -oE '\bobjdet_[a-z_]+\(' usr/include/objdet.h | tr -d '(' | sort -u >declared
  grep '^objdet_' shown | diff declared -
}

example() {
  PKG_CONFIG_PATH=usr/lib/pkgconfig
  export PKG_CONFIG_PATH
  # shellcheck disable=SC2046,SC2086
  ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror ${SAN:-} -o detect "$root/examples/detect.c" $(pkg-config --cflags --libs objdet)
  [ "$(wc -l <"$root/examples/detect.c")" -le 60 ]
  LD_LIBRARY_PATH=usr/lib
  export LD_LIBRARY_PATH
  fails_with 2 'usage: detect' ./detect
  fails_with 1 'no_such_graph' ./detect no_such_graph "$root/data/pet_label_map.pbtxt" photo.jpg
}

# The example looks at a real photograph with a graph that the original exported, and sees what TensorFlow saw.
example_sees() {
  run=$shared/data/raccoon_original
  LD_LIBRARY_PATH=usr/lib ./detect "$run/export/frozen_inference_graph.pb" "$run/label_map.pbtxt" "$shared/data/raccoon/images/raccoon-10.jpg" >seen
  cat seen
  grep -q 'raccoon-10.jpg: raccoon 0\.[5-9]' seen
}

# The tree of the original's pages, from the installed files; the user's changes survive a second time.
init() {
  usr/bin/objdet init tree
  test -s tree/object_detection/data/pet_label_map.pbtxt
  test -s tree/object_detection/samples/configs/faster_rcnn_resnet101_pets.config
  test -s tree/object_detection/samples/cloud/cloud.yml
  for f in train.py legacy/train.py legacy/eval.py create_pascal_tf_record.py dataset_tools/create_pascal_tf_record.py; do
    test -s "tree/object_detection/$f" || { echo "$f is missing"; return 1; }
  done
  sed -i 's|PATH_TO_BE_CONFIGURED|/data|g' tree/object_detection/samples/configs/ssd_mobilenet_v1_pets.config
  cp tree/object_detection/samples/configs/ssd_mobilenet_v1_pets.config changed
  usr/bin/objdet init tree --layout=model_dir 2>said
  cmp changed tree/object_detection/samples/configs/ssd_mobilenet_v1_pets.config
  grep -q 'ssd_mobilenet_v1_pets.config differs from ours and stays as it is' said
  test -d tree/models/my_model_dir/train && test -d tree/data && test -s tree/models/my_model_dir/my_model.config
  fails_with 2 'walkthrough or model_dir' usr/bin/objdet init tree --layout=both
  fails_with 2 'one folder' usr/bin/objdet init
}

# `python object_detection/...` through the launchers, and the same with objdet in python's place.
launchers() {
  cd tree
  ../usr/bin/objdet object_detection/train.py -h | grep -q '^usage: objdet train'
  ../usr/bin/objdet -m object_detection.legacy.train -h | grep -q '^usage: objdet train'
  if command -v python3 >/dev/null 2>&1; then
    python3 object_detection/legacy/train.py -h | grep -q '^usage: objdet train'
    python3 -m object_detection.dataset_tools.create_pascal_tf_record -h | grep -q '^usage: objdet create_pascal_tf_record'
  fi
}

check installs installs
check stages stages
check shows_the_header shows_the_header
check example example
shared=${OBJDET_SHARED:-$root/../shared}
if [ -d "$shared/data/raccoon_original" ]; then check example_sees example_sees; else skip example_sees "needs shared data data/raccoon_original"; fi
check init init
check launchers launchers
finish
