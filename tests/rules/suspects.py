#!/usr/bin/env python3
"""How rows that kill their process are found, simulated.

A lease that ends does not tell who was to blame: a step, a deploy, the power. So a row
counts the ends of its process (crashes), and of rows with two or more, suspects, a
process runs few at once: one that runs alone when its process ends (a trial) is guilty
in the end. Processes of the library do that in gd/work/isolation.hpp; here are the
same rules for hours, killers among innocents, and powers that fail. What is known to
have been another's doing is charged to nobody else (sql/parts/crash_charges.sql,
sql/sweep/exonerate.sql): the end of a process in which a trial was under way, and, when
a row is convicted, all ends that it is charged with. Exits with an error if an innocent
row is failed, if a killer is not, or if either takes too long.
"""

import heapq
import random
import sys

PLAIN, KILLER = "plain", "killer"


class Row:
    def __init__(self, kind, takes):
        self.kind = kind
        self.takes = takes  # seconds; of a killer, until it kills
        self.ends = []  # lives of processes that it is charged with
        self.trials = 0

    @property
    def crashes(self):
        return len(self.ends)


class Process:
    def __init__(self):
        self.up = True
        self.life = 0  # events of an earlier one count for nothing
        self.begin_anew()

    def begin_anew(self):
        self.running = {}  # id -> when it began
        self.ahead = []  # ids, under a lease and not begun
        self.trial = None
        self.growth = 1


class World:
    def __init__(self, nodes=2, slots=8, ahead=200, lease=60.0, heartbeat=20.0,
                 restart=2.0, max_crashes=5, until=7200.0, seed=1):
        self.slots, self.most_ahead = slots, ahead
        self.lease, self.heartbeat, self.restart = lease, heartbeat, restart
        self.max_crashes, self.until = max_crashes, until
        self.random = random.Random(seed)
        self.order = random.Random(seed)  # of rows that are reaped together
        self.rows = {}
        self.runnable, self.suspects = [], []
        self.processes = [Process() for _ in range(nodes)]
        self.events, self.count, self.now = [], 0, 0.0
        self.deaths = 0
        self.failed = {PLAIN: 0, KILLER: 0}
        self.done = 0
        self.last_done = 0.0
        self.most_trials = 0  # of an innocent
        self.killed = {}  # how many processes each killer has ended
        self.causes = {}  # who has ended a life of a process, where that is known
        self.convicted_at = 0.0  # the last one

    # -- the script --------------------------------------------------------------

    def at(self, time, what, *args):
        self.count += 1
        heapq.heappush(self.events, (time, self.count, what, args))

    def insert(self, kind, takes):
        id = len(self.rows)
        self.rows[id] = Row(kind, takes)
        self.put(id)

    def stream(self, rate, make):
        """Rows come in, `rate` each second on average."""
        def come():
            self.insert(*make(self.random))
            self.at(self.now + self.random.expovariate(rate), come)
            self.drive(self.random.choice(self.processes))
        self.at(0.0, come)

    def kill_each(self, period):
        """Rolling: one process after the other, each every `period` seconds."""
        def kill(process):
            if process.up:
                self.die(process)
            self.at(self.now + period, kill, process)
        for i, process in enumerate(self.processes):
            self.at(period * (i + 1) / len(self.processes), kill, process)

    def power_failures(self, *times):
        for time in times:
            for process in self.processes:
                self.at(time, lambda p: self.die(p) if p.up else None, process)

    def run(self):
        for process in self.processes:
            self.at(0.0, self.drive, process)
        while self.events:
            time, _, what, args = heapq.heappop(self.events)
            if time > self.until:
                break
            self.now = time
            what(*args)
        return self

    # -- rows --------------------------------------------------------------------

    def put(self, id):
        queue = self.suspects if self.rows[id].crashes >= 2 else self.runnable
        heapq.heappush(queue, id)

    def is_anothers(self, end, id):
        return self.causes.get(end, id) != id

    def reap(self, ids, end):
        """In any order: who is reaped before the row on trial is not charged, either."""
        self.order.shuffle(ids)
        convicted = []
        for id in ids:
            row = self.rows[id]
            if row.trials == 0:
                row.ends = [x for x in row.ends if not self.is_anothers(x, id)]
            if not self.is_anothers(end, id):
                row.ends.append(end)
            if self.max_crashes and row.trials >= self.max_crashes and row.crashes >= 2:
                convicted.append(id)
        for id in convicted:
            self.convict(id)
        for id in ids:
            self.put(id)
        for process in self.processes:
            self.drive(process)

    def convict(self, guilty):
        self.convicted_at = self.now
        for end in self.rows[guilty].ends:
            self.causes.setdefault(end, guilty)
        were, self.suspects = self.suspects, []
        for id in were:
            row = self.rows[id]
            if row.trials == 0:
                row.ends = [x for x in row.ends if not self.is_anothers(x, id)]
            self.put(id)

    # -- processes ---------------------------------------------------------------

    def die(self, process):
        self.deaths += 1
        had = list(process.running) + process.ahead
        end = (self.processes.index(process), process.life)
        if process.trial is not None:
            self.causes[end] = process.trial
        if had:
            self.at(self.now + self.lease, self.reap, had, end)
        process.begin_anew()
        process.up = False
        process.life += 1
        self.at(self.now + self.restart, self.start, process)

    def start(self, process):
        process.up = True
        self.drive(process)

    def bound(self, process, crashes):
        """So many suspects run at once beside one with so many crashes."""
        most = self.slots * process.growth // 8 ** (crashes - 1)
        return min(self.slots, max(1, most))

    def drive(self, process):
        while process.up and process.trial is None and len(process.running) < self.slots:
            if self.suspects:
                looked = self.look_at_suspect(process)
                if looked == "waits":
                    return
                if looked == "went on":
                    continue
            if not process.ahead:
                while self.runnable and len(process.ahead) < self.most_ahead:
                    process.ahead.append(heapq.heappop(self.runnable))
            if not process.ahead:
                return
            self.begin(process, process.ahead.pop(0))

    def look_at_suspect(self, process):
        id = self.suspects[0]
        row = self.rows[id]
        if self.max_crashes and row.trials >= self.max_crashes:
            heapq.heappop(self.suspects)
            self.failed[row.kind] += 1
            return "went on"
        bound = self.bound(process, row.crashes)
        if bound > 1:
            young = [x for x, began in process.running.items()
                     if self.rows[x].crashes >= 2 and self.now - began < self.heartbeat]
            if len(young) >= bound:
                return "not now"
            heapq.heappop(self.suspects)
            self.begin(process, id)
            return "went on"
        # A trial: nothing that began within a heartbeat runs beside it.
        if process.running:
            calm = max(process.running.values()) + self.heartbeat
            if calm > self.now:
                for x in process.ahead:
                    self.put(x)
                process.ahead = []
                self.at(calm, self.drive, process)
                return "waits"
        heapq.heappop(self.suspects)
        for x in process.ahead:
            self.put(x)
        process.ahead = []
        row.trials += 1
        if row.kind == PLAIN:
            self.most_trials = max(self.most_trials, row.trials)
        process.trial = id
        self.at(self.now + self.heartbeat, self.survive, process, process.life, id)
        self.begin(process, id)
        return "waits"

    def begin(self, process, id):
        row = self.rows[id]
        process.running[id] = self.now
        if row.crashes >= 2 and process.trial != id:
            self.at(self.now + self.heartbeat, self.survive, process, process.life, id)
        what = self.end if row.kind == PLAIN else self.kill
        self.at(self.now + row.takes, what, process, process.life, id)

    def kill(self, process, life, id):
        if process.life == life and id in process.running:
            self.killed[id] = self.killed.get(id, 0) + 1
            self.die(process)

    def end(self, process, life, id):
        if process.life != life:
            return
        row = self.rows[id]
        began = process.running.pop(id)
        if row.crashes >= 2 and self.now - began < self.heartbeat:
            process.growth = min(2 * process.growth, self.slots)
        row.ends, row.trials = [], 0
        if process.trial == id:
            process.trial = None
        self.done += 1
        self.last_done = self.now
        self.drive(process)

    def survive(self, process, life, id):
        if process.life != life or id not in process.running:
            return
        process.growth = min(2 * process.growth, self.slots)
        if process.trial == id:
            self.rows[id].trials -= 1
            process.trial = None
        self.drive(process)

    # -- what became of it -------------------------------------------------------

    def left(self):
        return (len(self.runnable) + len(self.suspects)
                + sum(len(p.running) + len(p.ahead) for p in self.processes))


# -- scenarios -------------------------------------------------------------------

broken = 0


def check(title, world, **expected):
    """`expected`: the most that a number may be; `killers`: how many are failed."""
    global broken
    numbers = {
        "innocents failed": world.failed[PLAIN],
        "killers left": expected.get("killers", 0) - world.failed[KILLER],
        "trials of an innocent": world.most_trials,
        "ends for one killer": max(world.killed.values(), default=0),
        "rows left": world.left(),
        "seconds behind the last verdict": max(round(world.last_done - world.convicted_at), 0)
        if "behind" in expected else 0,
        "seconds": round(world.last_done),
    }
    bounds = {"innocents failed": 0, "killers left": 0,
              "trials of an innocent": expected.get("trials", 1),
              "ends for one killer": expected.get("ends", 0),
              "rows left": expected.get("left", 0),
              "seconds behind the last verdict": expected.get("behind", 0),
              "seconds": expected.get("seconds", world.until)}
    wrong = [k for k, v in numbers.items() if v > bounds[k]]
    if expected.get("killers", 0) < world.failed[KILLER]:
        wrong.append("killers failed")
    broken += bool(wrong)
    print(("FAILED " if wrong else "ok     ") + title + ": "
          + ", ".join(f"{v} {k}" for k, v in numbers.items() if v)
          + f", {world.deaths} ends" + (" <- " + ", ".join(wrong) if wrong else ""))


SHORT = {"lease": 10.0, "heartbeat": 3.0}


def killers_among_rows():
    for slots in (1, 8, 64, 256):
        for nodes in (1, 2):
            for killers in (1, 3):
                for first in (0, 1500, 2999):
                    world = World(nodes, slots, ahead=3000, until=3600.0, **SHORT)
                    which = {(first + 400 * i) % 3000 for i in range(killers)}
                    for i in range(3000):
                        world.insert(*(KILLER, 0.0) if i in which else (PLAIN, 0.02))
                    check(f"{killers} among 3,000 from {first}, {slots} slots, {nodes} nodes",
                          world.run(), killers=killers, ends=12, seconds=150,
                          behind=15 if slots > 1 else 60)  # which one slot works for


def a_killer_among_rows_of_default_times():
    for slots in (8, 64, 256):
        world = World(1, slots, ahead=3000, until=3600.0)
        for i in range(3000):
            world.insert(*(KILLER, 0.0) if i == 1500 else (PLAIN, 0.02))
        check(f"1 among 3,000, {slots} slots, the default times", world.run(), killers=1,
              ends=12, behind=15)


def killers_in_a_stream():
    for slots, nodes, how in ((8, 2, SHORT), (8, 1, SHORT), (256, 2, SHORT), (8, 2, {})):
        world = World(nodes, slots, **how)

        def make(random):
            u = random.random()
            if u < 1 / 2000:
                return KILLER, 0.0
            return (PLAIN, 60.0) if u < 1 / 2000 + 1 / 1000 else (PLAIN, 0.02)
        world.stream(20.0, make)
        world.run()
        world.left = lambda: 0  # it goes on
        check(f"one killer each 100 s, {slots} slots, {nodes} nodes", world,
              killers=world.failed[KILLER], ends=12)


def killers_among_nodes_that_are_killed():
    """Also in the middle of trials, of which the wrong ones are accused then."""
    for slots, nodes in ((8, 1), (8, 2), (256, 2)):
        world = World(nodes, slots, until=7200.0, **SHORT)

        def make(random):
            u = random.random()
            if u < 1 / 2000:
                return KILLER, random.choice((0.0, 1.0))
            return (PLAIN, 10.0) if u < 1 / 2000 + 1 / 200 else (PLAIN, 0.02)
        world.stream(20.0, make)
        world.kill_each(30.0)
        world.run()
        world.left = lambda: 0
        check(f"one killer each 100 s and SIGKILL each 30 s, {slots} slots, {nodes} nodes",
              world, killers=world.failed[KILLER], ends=12, trials=5)


def healthy_nodes_are_killed():
    for period in (90.0, 150.0):
        world = World(until=7200.0, **SHORT)
        for _ in range(8):
            world.insert(PLAIN, 120.0)
        world.stream(20.0, lambda random: (PLAIN, 0.02))
        world.kill_each(period)
        world.run()
        check(f"SIGKILL each {period:.0f} s, steps of 120 s", world, left=200)


def powers_fail():
    for slots in (8, 256):
        for takes in (1.0, 20.0, 100.0):
            for nodes in (1, 2):
                def run(*times):
                    world = World(nodes, slots, ahead=3000, until=1e6, **SHORT)
                    for _ in range(3000):
                        world.insert(PLAIN, takes)
                    world.power_failures(*times)
                    return world.run()
                # What the second failure has ended, and then seconds.
                lost = 25.0 + 10.0 + min(takes, 25.0)
                check(f"power fails twice, 3,000 rows of {takes:.0f} s, {slots} slots, {nodes} nodes",
                      run(5.0, 25.0), seconds=run().last_done + lost + 60.0)


if __name__ == "__main__":
    killers_among_rows()
    a_killer_among_rows_of_default_times()
    killers_in_a_stream()
    killers_among_nodes_that_are_killed()
    healthy_nodes_are_killed()
    powers_fail()
    sys.exit(broken > 0)
