# Runs that are killed, for the scripts that source tiny.sh: a run called "killed" is started again and again and killed at drawn
# moments; at last it must hold the same bits as one that nobody touched. $seed draws the moments.

# A pseudo-random number of 0..$1-1, the next of the seed's.
draw() {
  seed=$(((seed * 1103515245 + 12345) % 2147483648))
  drawn=$((seed / 65536 % $1))
}

seconds() { printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)); }

# What `checkpoint` names must be readable: every tensor, every checksum.
sound() {
  [ -f killed/checkpoint ] || return 0
  latest=$(sed -n 's/^model_checkpoint_path: "\(.*\)"/\1/p' killed/checkpoint)
  "$objdet" inspect "killed/$latest.index" >inspect.log 2>&1 || {
    echo "after kill $1: $latest"
    cat inspect.log
    return 1
  }
}

# Starts the run, kills it after 30 to 30 + $2 milliseconds (more on a slow machine), $1 times; the next start goes on. Every step is saved, so that many kills
# hit a save: at least $3 of them must. Then both runs go to the same step, a little behind where the last kill left things, saving
# every $4 steps.
killed_and_resumed() {
  i=0 inside=0 window=$2
  rm -rf killed
  while [ $i -lt "$1" ]; do
    tiny_exec killed 1000000 --save_interval_steps=1 >run.log 2>&1 &
    pid=$!
    draw $window
    sleep "$(seconds $((drawn + 30)))"
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    rc=$?
    [ $rc -eq 137 ] || {
      echo "run $i ended with $rc"
      cat run.log
      return 1
    }
    for f in killed/.*; do [ -f "$f" ] && inside=$((inside + 1)); done
    sound $i || return 1
    i=$((i + 1))
    [ $inside -eq 0 ] && [ $((i % 4)) -eq 0 ] && window=$((window * 2)) # a slow machine: it has to get as far as a save
  done
  end=$(($(sed -n 's/^model_checkpoint_path: ".*-\(.*\)"/\1/p' killed/checkpoint 2>/dev/null || echo 0) + 3))
  echo "$inside kills left a file half written; on to step $end"
  [ $inside -ge "$3" ] || return 1
  tiny_train killed $end --save_interval_steps="$4" >run.log 2>&1 && tiny_train long $end --save_interval_steps=1000 >long.log 2>&1 || {
    tail run.log long.log
    return 1
  }
  same_ckpt long killed $end || return 1
  for f in killed/.*; do [ -f "$f" ] && echo "$f was left behind" && return 1; done
  return 0
}
