/* The protocol of leases, outcomes, signals, sweeps and partition keys: what two nodes, the database's sessions and
 * a sender of signals do to two instances. One SQL statement is one atomic step. See README.md; run by ./check.
 *
 * What is sent, and when it takes effect, are two things here, because they are in reality: a node submits a unit of
 * statements, a server session works it off, and goes on with it when the node is dead or the connection is cut.
 *
 * Switches: KEYED (both instances have the same partition key), SIGNALS (how many instances get a signal),
 * DEADLINE (instance 1 waits with a timeout), and how many faults may happen: CRASHES, CUTS, EXPIRIES, FREEZES.
 * Wrong on purpose, as the original was: UNFENCED, NO_RECHECK, NO_LOCK, NO_KEY_CHECK, NO_TOMBSTONE; NO_END_SESSIONS. */

#ifdef ORIGINAL
#define UNFENCED
#define NO_RECHECK
#define NO_LOCK
#define NO_KEY_CHECK
#define NO_TOMBSTONE
#define NO_END_SESSIONS
#endif
#ifndef SIGNALS
#define SIGNALS 1
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef EXPIRIES
#define EXPIRIES 0
#endif
#ifndef FREEZES
#define FREEZES 0
#endif

#define ROWS 2
#define NODES 2
#define SESSIONS 4        /* one for node n: n + 1 and n + 3, the new one and what is left of the old; 0: none */
#define SENDER 5          /* as the owner of a row's lock */
#define TOKENS 6          /* of a node, at the same time */

/* -- the database ------------------------------------------------------------------------------------------------ */

mtype:status = { runnable, executing, awaiting, done }
mtype:mail = { unsent, inbox, consumed }

typedef Row {
  mtype:status status = runnable;
  byte token;             /* locked_by; 0: none */
  bit step;               /* of the machine below */
  bit timed_out;          /* wake_reason */
  bit armed;              /* deadline */
}
Row row[ROWS];            /* as committed: what everybody sees */
Row draft[ROWS];          /* as the owner of the row's lock has written it: nobody else sees it */
byte owner[ROWS];         /* the session that has the row's lock; 0: none */
mtype:mail mail[ROWS] = unsent;  /* the signal to the instance; it has a dedup key */

byte key_session;         /* the session with the session-level lock of the key; 0: none */
byte key_transaction;     /* the same for the lock that ends with its transaction */

/* -- a unit of statements, and the session that works it off ----------------------------------------------------- */

/* The machine. Step 0: took the signal, or timed out: next(1); else await. Step 1: done.
 * So what a step returns follows from what it was picked with, and need not be stored besides. */
typedef Execution {
  byte token;             /* 0: there is none */
  bit step;
  bit saw;                /* the signal was in the inbox when the row was picked */
  bit timed_out;
  bit returned;           /* the function has; its outcome waits to be written */
  bit holds;              /* the key's lock, in the session that the node has now */
}
#define IS_DONE(e)  (e.step == 1)
#define IS_NEXT(e)  (e.step == 0 && (e.saw || e.timed_out))
#define IS_AWAIT(e) (e.step == 0 && !e.saw && !e.timed_out)
#define CONSUMES(e) (e.step == 0 && e.saw)

mtype:at = { closed, idle, unlock_keys, release_lost, flush, recheck, pick, lock_keys, check_keys, hold_keys, commit,
             replied }
mtype:fate = { open, applied, stale, locked }

typedef Session {
  mtype:at at = closed;   /* the statement that comes next */
  byte client;            /* the node at the other end plus 1; 0: cut off */
  bit unlocks;            /* the unit: what is to be done */
  byte lost;
  Execution out[ROWS];
  bit may_pick[ROWS];
  byte token;
  mtype:fate fate[ROWS] = open;  /* the answer */
  byte took;              /* the row that was picked plus 1 */
  Execution got;
  bit won;
}
Session session[SESSIONS + 1];

/* -- the nodes' memory: gone in a crash -------------------------------------------------------------------------- */

typedef Node {
  byte session;           /* 0: not connected */
  Execution job[ROWS];    /* one at a time for each instance */
  byte lost;              /* token of a pick of unknown fate */
  bit unlocks;            /* a key is to be unlocked */
  bit frozen;             /* stopped for ever, its connection open */
}
Node node[NODES];

/* -- what must hold, and what is only counted for it ------------------------------------------------------------- */

byte crashes, cuts, expiries, freezes;  /* faults left */
bit zombies;              /* a lease was reaped while its step was alive */
bit accepted[ROWS];       /* the sender was told so, or would have been */
byte taken[ROWS];         /* signals consumed in committed history */
byte nexts[ROWS];         /* transitions 0 -> 1 in committed history */

#define FINISHED (row[0].status == done && row[1].status == done)
#define RUNNING(n, i) (node[n].job[i].token != 0 && !node[n].job[i].returned && !node[n].frozen)
#define IN_FORCE(n, i) (row[i].status == executing && row[i].token == node[n].job[i].token)

/* Property 3. Leases first: at no time are two rows of a key executing, as committed. Then functions: those that run
 * are never more than one, whatever crashes and is cut; unless a lease was reaped while its step lived, since nobody
 * can stop a function. Of those then running, one at most has its lease in force, and so can commit. */
inline check_key() {
#ifdef KEYED
  assert(!(row[0].status == executing && row[1].status == executing));
  assert((RUNNING(0, 0) && IN_FORCE(0, 0)) + (RUNNING(0, 1) && IN_FORCE(0, 1))
    + (RUNNING(1, 0) && IN_FORCE(1, 0)) + (RUNNING(1, 1) && IN_FORCE(1, 1)) <= 1);
  assert(zombies || RUNNING(0, 0) + RUNNING(0, 1) + RUNNING(1, 0) + RUNNING(1, 1) <= 1);
#endif
  skip
}

hidden byte i, j, k;     /* of loops within a statement: no part of any state */

/* What the search must have come by, or it proves nothing: with WITNESS, that is an error. */
mtype:seen = { nothing, stale_outcome, locked_outcome, dead_reaped, living_reaped, lost_after_commit, dead_commits,
               signal_while_executing, duplicate_signal, refused_signal, rechecked, deadline_passed, key_locked,
               key_executing, crash_in_step, lost_released, session_ended }
#ifndef WITNESS
#define WITNESS nothing
#endif
#define SEEN(what) assert(what != WITNESS)

/* -- small things ------------------------------------------------------------------------------------------------ */

inline copy_row(to, from) {
  to.status = from.status; to.token = from.token; to.step = from.step;
  to.timed_out = from.timed_out; to.armed = from.armed
}

/* Values that nobody will read are cleared everywhere, or states would differ by them. */
inline clear_row(r) {
  r.status = runnable; r.token = 0; r.step = 0; r.timed_out = 0; r.armed = 0
}

inline copy_execution(to, from) {
  to.token = from.token; to.step = from.step; to.saw = from.saw;
  to.timed_out = from.timed_out; to.returned = from.returned; to.holds = from.holds
}

inline clear_execution(e) {
  e.token = 0; e.step = 0; e.saw = 0; e.timed_out = 0; e.returned = 0; e.holds = 0
}

inline clear_unit(x) {
  session[x].unlocks = 0; session[x].lost = 0; session[x].token = 0; session[x].took = 0; session[x].won = 0;
  clear_execution(session[x].got);
  for (j : 0 .. ROWS - 1) {
    clear_execution(session[x].out[j]);
    session[x].may_pick[j] = 0; session[x].fate[j] = open
  }
}

inline lock_row(x, i) {
  if
  :: owner[i] == 0 -> owner[i] = x; copy_row(draft[i], row[i])
  :: else -> assert(owner[i] == x)
  fi
}

inline unlock_row(i) {
  owner[i] = 0; clear_row(draft[i])
}

/* As a statement of session x sees it: with what its own transaction has written. */
#define STATUS(x, i) (owner[i] == x -> draft[i].status : row[i].status)

/* Tokens are never used twice in reality. Here, one that nobody remembers any more may be, or there would be no end
 * of states. */
#define IN_SESSION(x, t) (session[x].token == t || session[x].lost == t || session[x].got.token == t \
  || session[x].out[0].token == t || session[x].out[1].token == t)
#define REMEMBERED(t) (row[0].token == t || row[1].token == t || draft[0].token == t || draft[1].token == t \
  || node[0].job[0].token == t || node[0].job[1].token == t || node[0].lost == t \
  || node[1].job[0].token == t || node[1].job[1].token == t || node[1].lost == t \
  || IN_SESSION(1, t) || IN_SESSION(2, t) || IN_SESSION(3, t) || IN_SESSION(4, t))

inline new_token(t, n) {
  t = 1 + n * TOKENS;
  do
  :: REMEMBERED(t) -> t++; assert(t <= TOKENS + n * TOKENS)
  :: else -> break
  od
}

/* -- a server session: works off a unit, whether or not anybody still waits for the answer ----------------------- */

#ifdef KEYED
#define KEYLESS false
#else
#define KEYLESS true
#endif
#ifdef NO_RECHECK
#define PARKED(x, i) false
#else
#define PARKED(x, i) (session[x].fate[i] == applied && IS_AWAIT(session[x].out[i]))
#endif

/* Statements that this unit does not have are left out. */
inline next_statement(x, what) {
  session[x].at = what;
  do
  :: session[x].at == unlock_keys && !session[x].unlocks -> session[x].at = release_lost
  :: session[x].at == release_lost && session[x].lost == 0 -> session[x].at = flush
  :: session[x].at == flush && session[x].out[0].token == 0 && session[x].out[1].token == 0 -> session[x].at = pick
  :: session[x].at == recheck && !PARKED(x, 0) && !PARKED(x, 1) -> session[x].at = pick
  :: session[x].at == lock_keys && (KEYLESS || session[x].took == 0) -> session[x].at = commit
  :: session[x].at == hold_keys && session[x].took == 0 -> session[x].at = commit
  :: else -> break
  od
}

inline write_outcome(x, i) {
  draft[i].token = 0;
  draft[i].timed_out = 0;
  draft[i].armed = 0;
  if
  :: IS_DONE(session[x].out[i]) -> draft[i].status = done
  :: IS_NEXT(session[x].out[i]) -> draft[i].status = runnable; draft[i].step = 1
  :: else -> draft[i].status = awaiting
#ifdef DEADLINE
    ; draft[i].armed = i
#endif
  fi;
  session[x].fate[i] = applied
}

/* "for no key update skip locked": a row that somebody else has is locked, one with another token is stale. */
inline do_flush(x) {
  for (i : 0 .. ROWS - 1) {
    if
    :: session[x].out[i].token == 0 -> skip
    :: session[x].out[i].token != 0 && owner[i] != 0 && owner[i] != x -> session[x].fate[i] = locked; SEEN(locked_outcome)
    :: else ->
      lock_row(x, i);
      if
#ifndef UNFENCED
      :: !(draft[i].status == executing && draft[i].token == session[x].out[i].token) ->
        session[x].fate[i] = stale; SEEN(stale_outcome)
#endif
      :: else -> write_outcome(x, i)
      fi
    fi
  }
}

inline release(x, i) {
  draft[i].status = runnable; draft[i].token = 0;
  session[x].took = 0;
  clear_execution(session[x].got)
}

#ifdef KEYED
#define KEY_IS_FREE(x, i) (STATUS(x, 1 - i) != executing)
#else
#define KEY_IS_FREE(x, i) true
#endif
#define MAY_PICK(x, i) (session[x].may_pick[i] && session[x].fate[i] != locked && (owner[i] == 0 || owner[i] == x) \
  && STATUS(x, i) == runnable && KEY_IS_FREE(x, i))

inline do_pick(x, i) {
  lock_row(x, i);
  draft[i].status = executing;
  draft[i].token = session[x].token;
  session[x].took = i + 1;
  session[x].got.token = session[x].token;
  session[x].got.step = draft[i].step;
  session[x].got.saw = draft[i].step == 0 && mail[i] == inbox;
  session[x].got.timed_out = draft[i].timed_out
}

/* A lost pick that nobody has committed, or ever will, need not be remembered. */
#define MAY_APPEAR(t) (row[0].token == t || row[1].token == t || session[1].token == t || session[2].token == t \
  || session[3].token == t || session[4].token == t)
inline forget_lost() {
  if
  :: node[0].lost != 0 && !MAY_APPEAR(node[0].lost) -> node[0].lost = 0
  :: else -> skip
  fi;
  if
  :: node[1].lost != 0 && !MAY_APPEAR(node[1].lost) -> node[1].lost = 0
  :: else -> skip
  fi
}

inline do_commit(x) {
  for (i : 0 .. ROWS - 1) {
    if
    :: session[x].fate[i] == applied ->
      /* Properties 2 and 5, on the row as everybody sees it until now. */
      assert(row[i].status == executing && row[i].token == session[x].out[i].token);
      assert(row[i].step == session[x].out[i].step);
      if
      :: IS_NEXT(session[x].out[i]) -> nexts[i]++; assert(nexts[i] == 1)
      :: IS_DONE(session[x].out[i]) -> assert(nexts[i] == 1)
      :: else -> assert(nexts[i] == 0)
      fi;
      if
      :: CONSUMES(session[x].out[i]) ->
        assert(mail[i] == inbox);
        taken[i]++;
        assert(taken[i] == 1);
#ifdef NO_TOMBSTONE
        mail[i] = unsent
#else
        mail[i] = consumed
#endif
      :: else -> skip
      fi
    :: else -> skip
    fi;
    if
    :: owner[i] == x -> copy_row(row[i], draft[i]); unlock_row(i)
    :: else -> skip
    fi
  }
  if
  :: key_transaction == x -> key_transaction = 0
  :: else -> skip
  fi;
  forget_lost();
  check_key()
}

inline end_session(x) {
  for (i : 0 .. ROWS - 1) {
    if
    :: owner[i] == x -> unlock_row(i)
    :: else -> skip
    fi
  }
  if
  :: key_session == x -> key_session = 0
  :: else -> skip
  fi;
  if
  :: key_transaction == x -> key_transaction = 0
  :: else -> skip
  fi;
  clear_unit(x);
  session[x].client = 0;
  session[x].at = closed;
  forget_lost()
}

#define AT(x, what) (session[x].at == what)

proctype server(byte x) {
end:
  do
  :: atomic { AT(x, unlock_keys) ->   /* takes effect at once, whatever becomes of the transaction */
      if
      :: key_session == x -> key_session = 0
      :: else -> skip
      fi;
      next_statement(x, release_lost) }
  :: atomic { AT(x, release_lost) ->
      for (i : 0 .. ROWS - 1) {
        if
        :: owner[i] == 0 && row[i].status == executing && row[i].token == session[x].lost ->
          lock_row(x, i);
          draft[i].status = runnable; draft[i].token = 0; SEEN(lost_released)
        :: else -> skip
        fi
      }
      next_statement(x, flush) }
  :: atomic { AT(x, flush) -> do_flush(x); next_statement(x, recheck) }
  :: atomic { AT(x, recheck) ->       /* with the rows' locks: a signal that came before is committed, and seen now */
      for (i : 0 .. ROWS - 1) {
        if
        :: PARKED(x, i) && mail[i] == inbox ->
          draft[i].status = runnable; draft[i].armed = 0; SEEN(rechecked)
        :: else -> skip
        fi
      }
      next_statement(x, pick) }
  :: atomic { AT(x, pick) ->
      if
      :: MAY_PICK(x, 0) -> do_pick(x, 0)
      :: MAY_PICK(x, 1) -> do_pick(x, 1)
      :: else -> skip
      fi;
      next_statement(x, lock_keys) }
  :: atomic { AT(x, lock_keys) ->     /* a session gets its own lock again */
      if
      :: (key_session == 0 || key_session == x) && key_transaction == 0 -> key_transaction = x; session[x].won = 1
      :: else -> skip
      fi;
      next_statement(x, check_keys) }
  :: atomic { AT(x, check_keys) ->    /* with the lock, and what was committed before it was ours */
      i = session[x].took - 1;
      if
      :: !session[x].won -> release(x, i); SEEN(key_locked)
#ifndef NO_KEY_CHECK
      :: session[x].won && STATUS(x, 1 - i) == executing -> release(x, i); SEEN(key_executing)
#endif
      :: else -> skip
      fi;
      next_statement(x, hold_keys) }
  :: atomic { AT(x, hold_keys) ->     /* a rollback would not undo it */
      key_session = x;
      session[x].got.holds = 1;
      next_statement(x, commit) }
  :: atomic { AT(x, commit) ->
      do_commit(x);
      if
      :: session[x].client == 0 -> SEEN(dead_commits)
      :: else -> skip
      fi;
      session[x].at = replied }
  :: atomic { !AT(x, closed) && session[x].client == 0 -> /* notices that its client is gone: rolls back, drops locks */
      end_session(x) }
  od
}

/* -- a node: submits units, reads answers, runs functions -------------------------------------------------------- */

#define IDLE(n, i) (node[n].job[i].token == 0)
#ifdef KEYED
#define MAY_TAKE(n, i) (IDLE(n, 0) && IDLE(n, 1))      /* the key table */
#define NOT_EXECUTING(i) (row[i].status != executing)
#else
#define MAY_TAKE(n, i) (IDLE(n, i) || node[n].job[i].returned)
#define NOT_EXECUTING(i) true
#endif
/* A poll that would find nothing has no effect, and is left out. */
#define FINDS(n, i) (row[i].status == runnable && owner[i] == 0 && MAY_TAKE(n, i) && NOT_EXECUTING(1 - i))
#define HAS_LOST(n) (node[n].lost != 0 && (row[0].token == node[n].lost || row[1].token == node[n].lost))
#define HAS_WORK(n) (node[n].job[0].returned || node[n].job[1].returned || node[n].unlocks || HAS_LOST(n) \
  || FINDS(n, 0) || FINDS(n, 1))

inline submit(n, x) {
  session[x].unlocks = node[n].unlocks;
  node[n].unlocks = 0;
  if
  :: HAS_LOST(n) -> session[x].lost = node[n].lost
  :: else -> skip
  fi;
  for (i : 0 .. ROWS - 1) {
    session[x].may_pick[i] = MAY_TAKE(n, i);
    if
    :: node[n].job[i].returned -> copy_execution(session[x].out[i], node[n].job[i])
    :: else -> skip
    fi
  }
  new_token(j, n);
  session[x].token = j;
  next_statement(x, unlock_keys)
}

inline read_reply(n, x) {
  for (i : 0 .. ROWS - 1) {
    if
    :: session[x].out[i].token != 0 && session[x].fate[i] != locked ->
      if
      :: node[n].job[i].holds -> node[n].unlocks = 1
      :: else -> skip
      fi;
      clear_execution(node[n].job[i])
    :: else -> skip                   /* locked: sent again with the next unit */
    fi
  }
  if
  :: session[x].took != 0 ->
    i = session[x].took - 1;
    assert(IDLE(n, i));
    copy_execution(node[n].job[i], session[x].got)
  :: else -> skip
  fi;
  clear_unit(x);
  session[x].at = idle;
  check_key()
}

/* The node sees its connection die: what was under way has an unknown fate, locks are lost, functions go on. */
inline cut(n) {
  i = node[n].session;
  if
  :: AT(i, replied) -> SEEN(lost_after_commit)
  :: else -> skip
  fi;
  session[i].client = 0;
  if
  :: session[i].token != 0 -> node[n].lost = session[i].token
  :: else -> skip
  fi;
  node[n].session = 0;
  node[n].unlocks = 0;
  node[n].job[0].holds = 0;
  node[n].job[1].holds = 0
}

inline crash(n) {
  if
  :: RUNNING(n, 0) || RUNNING(n, 1) -> SEEN(crash_in_step)
  :: else -> skip
  fi;
  if
  :: node[n].session != 0 -> session[node[n].session].client = 0
  :: else -> skip
  fi;
  node[n].session = 0;
  node[n].frozen = 0;
  clear_execution(node[n].job[0]);
  clear_execution(node[n].job[1]);
  node[n].lost = 0; node[n].unlocks = 0
}

#define LIVE(n) (!node[n].frozen)

proctype peer(byte n) {
end:
  do
  :: atomic { LIVE(n) && node[n].session == 0 && (AT(n + 1, closed) || AT(n + 3, closed)) ->
      node[n].session = (AT(n + 1, closed) -> n + 1 : n + 3);
      session[node[n].session].client = n + 1;
      session[node[n].session].at = idle }
  :: atomic { LIVE(n) && node[n].session != 0 && AT(node[n].session, idle) && HAS_WORK(n) ->
      submit(n, node[n].session) }
  :: atomic { LIVE(n) && node[n].session != 0 && AT(node[n].session, replied) -> read_reply(n, node[n].session) }
  :: atomic { RUNNING(n, 0) -> node[n].job[0].returned = 1 }
  :: atomic { RUNNING(n, 1) -> node[n].job[1].returned = 1 }
  :: atomic { LIVE(n) && node[n].lost != 0 -> node[n].lost = 0 } /* one lease after it was lost: the reaper's by now */
  od
}

/* -- the sweeps: of leases, of deadlines, and the end of sessions that keep a key -------------------------------- */

#define KEEPS(n, i) ((node[n].job[0].token == row[i].token || node[n].job[1].token == row[i].token \
  || (node[n].session != 0 && session[node[n].session].token == row[i].token)))
#define IS_KEPT(i) ((LIVE(0) && KEEPS(0, i)) || (LIVE(1) && KEEPS(1, i)))

/* Heartbeats extend what a living node keeps; that they come too late is a fault. What nobody keeps expires. */
inline reap(i) {
  if
  :: IS_KEPT(i) -> expiries--; zombies = 1; SEEN(living_reaped)
  :: else -> SEEN(dead_reaped)
  fi;
  row[i].status = runnable;
  row[i].token = 0;
  forget_lost()
}
#define MAY_REAP(i) (row[i].status == executing && owner[i] == 0 && (!IS_KEPT(i) || expiries > 0))
#define IS_DUE(i) (row[i].status == awaiting && row[i].armed && owner[i] == 0)

/* A node that lives says so; that one is taken for silent is no more than a cut. */
#define IS_SILENT(n) (!LIVE(n) && node[n].session != 0)
inline end_sessions(n) {
  SEEN(session_ended);
  k = node[n].session;
  cut(n);
  end_session(k)
}

active proctype sweeps() {
end:
  do
  :: atomic { MAY_REAP(0) -> reap(0) }
  :: atomic { MAY_REAP(1) -> reap(1) }
#ifdef DEADLINE
  :: atomic { IS_DUE(1) -> row[1].status = runnable; row[1].timed_out = 1; row[1].armed = 0;
      SEEN(deadline_passed) }
#endif
#if defined(KEYED) && !defined(NO_END_SESSIONS)
  :: atomic { IS_SILENT(0) -> end_sessions(0) }
#endif
  od
}

/* -- the sender of signals --------------------------------------------------------------------------------------- */

active proctype sender() {
  byte to;
  bit stores, wakes;
end:
  do
  :: to < SIGNALS ->
#ifndef NO_LOCK
    atomic { owner[to] == 0 -> owner[to] = SENDER; copy_row(draft[to], row[to]) }
#endif
    /* A new statement: what it reads of a locked row is what it is. A duplicate is answered as such. */
    atomic {
      stores = mail[to] == unsent && row[to].status != done;
      if
      :: stores && row[to].status == executing -> SEEN(signal_while_executing)
      :: mail[to] != unsent -> SEEN(duplicate_signal)
      :: mail[to] == unsent && row[to].status == done -> SEEN(refused_signal)
      :: else -> skip
      fi;
#ifndef NO_LOCK
      wakes = stores && row[to].status == awaiting;
#endif
    }
#ifdef NO_LOCK
    /* The original: "update .. where status = 'awaiting_signal'" waits for nobody's lock if it sees no such row. */
    atomic {
      if
      :: stores && row[to].status == awaiting && owner[to] == 0 ->
        wakes = 1; owner[to] = SENDER; copy_row(draft[to], row[to])
      :: !stores || row[to].status != awaiting -> skip
      fi
    }
#endif
    atomic {
      if
      :: stores -> assert(!accepted[to]); accepted[to] = 1; mail[to] = inbox
      :: else -> skip
      fi;
      if
      :: wakes -> row[to].status = runnable; row[to].armed = 0; row[to].timed_out = 0
      :: else -> skip
      fi;
      if
      :: owner[to] == SENDER -> unlock_row(to)
      :: else -> skip
      fi;
      stores = 0; wakes = 0;
      if
      :: to++
      :: cuts > 0 -> cuts--       /* the answer is lost: sent again */
      fi
    }
  :: else -> break
  od
}

/* -- faults ------------------------------------------------------------------------------------------------------ */

/* Property 4, on its quick side: when nothing more can happen, both are done. With "finally" below: it comes to that. */
#ifndef LIVENESS
active proctype monitor() {
  timeout -> assert(FINISHED);
  assert(taken[0] == 1)         /* instance 0 has no other way */
}
#endif

init {
  bit hit;
  /* How many faults happen is chosen here, so that what happens without them is not left out under fairness. */
  atomic {
    select(i : 0 .. CRASHES); crashes = i;
    select(i : 0 .. CUTS); cuts = i;
    select(i : 0 .. EXPIRIES); expiries = i;
    select(i : 0 .. FREEZES); freezes = i;
#if SIGNALS == 1 && !defined(DEADLINE)
    row[1].step = 1; nexts[1] = 1;  /* nothing to wait for: one step, done */
#endif
    /* Who connects first makes no difference. */
    for (i : 0 .. NODES - 1) {
      node[i].session = i + 1; session[i + 1].client = i + 1; session[i + 1].at = idle
    }
    run server(1); run server(2); run server(3); run server(4);
    run peer(0); run peer(1)
  }
end:
  do
  /* Nodes are alike: the one that something happens to first is called 0. */
  :: atomic { crashes > 0 -> crashes--; hit = 1; crash(0) }
  :: atomic { crashes > 0 && hit -> crashes--; crash(1) }
  :: atomic { cuts > 0 && node[0].session != 0 && LIVE(0) -> cuts--; hit = 1; cut(0) }
  :: atomic { cuts > 0 && hit && node[1].session != 0 && LIVE(1) -> cuts--; cut(1) }
  :: atomic { freezes > 0 -> freezes--; hit = 1; node[0].frozen = 1 }
  od
}

/* -- what must come to pass, under weak fairness ----------------------------------------------------------------- */

#define HEARD(i) (taken[i] == 1 || row[i].status == done)
#ifdef LIVENESS
ltl finally { <> FINISHED && [] (accepted[0] -> <> HEARD(0)) && [] (accepted[1] -> <> HEARD(1)) }
#endif
