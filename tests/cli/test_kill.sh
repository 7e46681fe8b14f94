#!/bin/sh
# A run that is killed again and again, some times inside a save, ends in the same bits as one that nobody touched.
# OBJDET_KILLS says how often (50); OBJDET_KILL_SEED draws other moments.
. "$(dirname "$0")/tiny.sh"
tiny_begin
kills=${OBJDET_KILLS:-50}
seed=${OBJDET_KILL_SEED:-1}
steps=40

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

# Starts the run, kills it after a drawn time; the next start goes on. Every step is saved, so that many kills hit a save. At last
# both runs go to the same step, a little behind where the last kill left things.
killed_many_times() {
  i=0 inside=0
  while [ $i -lt "$kills" ]; do
    tiny_exec killed 1000000 --save_interval_steps=1 >run.log 2>&1 &
    pid=$!
    draw 400
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
  done
  end=$(($(sed -n 's/^model_checkpoint_path: ".*-\(.*\)"/\1/p' killed/checkpoint) + 3))
  echo "$inside kills left a file half written; on to step $end"
  [ $inside -gt 0 ] || return 1
  tiny_train killed $end --save_interval_steps=1 >run.log 2>&1 && tiny_train long $end >long.log 2>&1 || {
    tail run.log long.log
    return 1
  }
  same_ckpt long killed $end || return 1
  for f in killed/.*; do [ -f "$f" ] && echo "$f was left behind" && return 1; done
  return 0
}

# Ctrl-C and SIGTERM: saves, says so, ends with 128 + signal; goes on exactly.
stopped() {
  signal=$1 rc_wanted=$2 dir=stopped-$1
  tiny_exec "$dir" $steps --save_interval_secs=1000 >run.log 2>&1 &
  pid=$!
  n=0
  while ! grep -q 'global step 1:' run.log && [ $n -lt 200 ]; do
    sleep 0.05
    n=$((n + 1))
  done
  kill -"$signal" $pid
  wait $pid
  rc=$?
  [ $rc -eq "$rc_wanted" ] || {
    echo "ended with $rc"
    cat run.log
    return 1
  }
  [ "$(grep -c '^saved' run.log)" -eq 2 ] && [ "$(grep -c '^objdet: ' run.log)" -eq 1 ] || {
    cat run.log
    return 1
  }
  tiny_train "$dir" $steps >run.log 2>&1 || return 1
  grep -q 'resuming at step [1-9]' run.log && same_ckpt whole "$dir" $steps
}
interrupted() { stopped INT 130; }
terminated() { stopped TERM 143; }

check unkilled tiny_train whole $steps
check terminated terminated
check interrupted interrupted
check "killed_${kills}_times" killed_many_times
finish
