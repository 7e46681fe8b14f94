#!/bin/sh
# A run that is killed again and again, some times inside a save, ends in the same bits as one that nobody touched.
# OBJDET_KILLS says how often (50); OBJDET_KILL_SEED draws other moments.
. "$(dirname "$0")/tiny.sh"
. "$(dirname "$0")/kill.sh"
tiny_begin
kills=${OBJDET_KILLS:-50}
seed=${OBJDET_KILL_SEED:-1}
steps=40

killed_many_times() { killed_and_resumed "$kills" 400 1 1; }

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
