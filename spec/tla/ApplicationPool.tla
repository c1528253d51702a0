---------------------------- MODULE ApplicationPool ----------------------------
(***************************************************************************)
(* The ApplicationPool algorithm, as ruled, for readers of TLA+.           *)
(*                                                                         *)
(* This module is the machine of ../src/application_pool, in the same      *)
(* order and with the same names. Each action is one critical section of   *)
(* the pseudocode. A pool is one record. A critical section is a chain of  *)
(* operators from pool to pool, because the order within it decides which  *)
(* get is served. Names such as E12 and INV-COUNT are those of the errata  *)
(* and invariants in rules.rs and invariants.rs there. Each link of a      *)
(* chain has a name, because the checker takes exponentially long over     *)
(* nested calls. The head of a line is named only once the line is known   *)
(* not to be empty, because the checker evaluates every LET.               *)
(*                                                                         *)
(* The differences from the machine in Rust add or remove no state:        *)
(*  - This module defines the numbers that the machine counts twice: size, *)
(*    idle, count, active, waiting, reserved, replacing. The invariants    *)
(*    that compare the two counts (INV-GROUP-SIZE, INV-SIZE-WITHIN-COUNT,  *)
(*    INV-COUNT, INV-ACTIVE, INV-RESERVED, INV-SPAWNING, INV-OUTDATED,     *)
(*    INV-EVICTABLE) hold here by definition.                              *)
(*  - No value grows for ever. A time is the time left or passed; a        *)
(*    generation is whether a process is outdated; identifiers are         *)
(*    renumbered at the end of each step, by group and age (Canonical).    *)
(*    normal.rs does the same in Rust.                                     *)
(*  - There are no totals (INV-TOTALS). Cancelled spawns have a number in  *)
(*    place of tickets. The machine has a step for each of them, this      *)
(*    module one for all; so the states are equal in number, and the steps *)
(*    need not be.                                                         *)
(*                                                                         *)
(* Left out are: connecting as a separate step, with its attempts and the  *)
(* place of a get that retries (E16, E31, E38); threads that cannot be     *)
(* started (E11: as a failed spawn); a restart file that two groups share  *)
(* or that is deleted (E22, E23), and always_restart; growth without room  *)
(* only (E35: each group has the option eager_growth); changes of          *)
(* MAX_IDLE_TIME; a punctual cleaner (E30); options that differ between    *)
(* groups, except the minimum, or that change; processes that fail early;  *)
(* restarts by name; a minimum that is asked for without a get; processes  *)
(* that are disabled (INV-DISABLED); and every erratum as written.         *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Groups,        \* 1..n
    Clients,       \* 1..n
    Max,           \* the initial max
    MaxPerApp,     \* the initial max_per_app; 0 is no limit
    Minimum,       \* min_processes of the first group; the others have none
    Concurrency,   \* sessions at once per process; 1 is the global queue; 0 is no limit
    MaxRequests,   \* sessions in total per process; 0 is no limit (E14)
    MaxQueue,      \* gets that may wait for one group; 0 is no limit (E19)
    MaxDraining,   \* processes beyond max that may live (E25)
    Rolling,       \* whether a restart replaces one by one (E34)
    MaxIdleTime,   \* the pseudocode's MAX_IDLE_TIME; 0 is no limit
    DrainTimeout,  \* the time a detached process has to finish its sessions (E13)
    BackOffFirst,  \* the back-off after the first failure (E26)
    BackOffCap,    \* the longest back-off

    \* Events that may happen at any time and any number of times:
    SpawnsFail,    \* a spawn fails
    Restarts,      \* a restart file is touched
    Detaches,      \* a process is detached by its identifier
    DetachesGroup, \* a group is detached and forgotten
    SessionsFail,  \* a process breaks a session
    GivesUp,       \* a get that waits gives up
    TryGets,       \* a client asks without waiting
    TimePasses,    \* time passes, and the cleaner runs
    Closes,        \* the pool is closed
    SetMax,        \* the values of max
    SetMaxPerApp   \* the values of max_per_app

ASSUME Groups = 1..Cardinality(Groups) /\ Clients = 1..Cardinality(Clients)

VARIABLE pool

MinOf(g) == IF g = 1 THEN Minimum ELSE 0

(***************************************************************************)
(* Types.                                                                  *)
(***************************************************************************)

\* A group. It outlives its processes: it holds the queue, the back-off, and what it saw of its restart
\* file.
GroupType == [
    known     : BOOLEAN,            \* whether it is found in groups
    list      : Seq(Nat),           \* attached processes, the least busy first; see Rank
    queue     : Seq(Clients),       \* waiting gets, in the order of arrival (E17)
    spawning  : {"no", "one more", "replacement"},  \* the spawn in flight that the group waits for
    unwanted  : [more : Nat, replacements : Nat],   \* cancelled spawns in flight (E2, E12)
    reload    : BOOLEAN,            \* reload_pending: restarted, and no new process attached yet (E22)
    seen      : {"never", "current", "older"},      \* the restart file that the group last saw (E22)
    failures  : Nat,                \* failed spawns in a row, up to the longest back-off
    backOff   : Int,                \* the back-off left; None: the group may spawn (E26)
    lastError : BOOLEAN,            \* the latest spawn failed
    surplus   : Int,                \* the rank in bySurplus; None: the group is not there
    roomDue   : Nat,                \* in the lines First and More: the time left until a process gives its place (E37)
    forgotten : BOOLEAN ]           \* detached by name: removed once unused

\* A process.
ProcessType == [
    group     : Groups,
    sessions  : Nat,                \* open sessions
    processed : Nat,                \* closed sessions, if MaxRequests counts them
    idleFor   : Nat,                \* the idle time, up to MaxIdleTime (E5)
    outdated  : BOOLEAN,            \* of an older generation (E34)
    marked    : BOOLEAN,            \* marked for eviction (E18)
    detached  : BOOLEAN,            \* not in its group (E8): the process drains (E13)
    left      : Nat ]               \* the time left to drain

\* A client is in no get, waits in a group's queue, has a session, or has a session whose process is gone:
\* closing that one has no effect.
ClientType == [at : {"out", "waits", "has", "lost"}, process : Nat]

None == -1      \* no time, no rank
NoProcess == 0     \* no process

\* The lines of groups that may not spawn, named after what they want.
Lines == {"First", "More", "Minimum", "Replacement", "Capped"}

TypeOK ==
    /\ pool.groups \in [Groups -> GroupType]
    /\ \A x \in DOMAIN pool.procs : pool.procs[x] \in ProcessType
    /\ pool.clients \in [Clients -> ClientType]
    /\ pool.lines \in [Lines -> Seq(Groups)]
    /\ pool.max \in Nat /\ pool.maxPerApp \in Nat /\ pool.closed \in BOOLEAN

EmptyGroup == [
    known |-> FALSE, list |-> <<>>, queue |-> <<>>, spawning |-> "no",
    unwanted |-> [more |-> 0, replacements |-> 0], reload |-> FALSE, seen |-> "never",
    failures |-> 0, backOff |-> None, lastError |-> FALSE, surplus |-> None, roomDue |-> 0,
    forgotten |-> FALSE ]

EmptyPool == [
    groups      |-> [g \in Groups |-> EmptyGroup],
    procs       |-> <<>>,           \* by identifier
    clients     |-> [c \in Clients |-> [at |-> "out", process |-> NoProcess]],
    max         |-> Max,
    maxPerApp   |-> MaxPerApp,
    inactive    |-> <<>>,           \* inactive_apps: attached and idle, longest idle first
    draining    |-> <<>>,           \* detached with sessions, by deadline (E13)
    marked      |-> <<>>,           \* the process marked for eviction (E18), if any
    lines       |-> [line \in Lines |-> <<>>],
    bySurplus   |-> <<>>,           \* groups with a process
    backingOff  |-> <<>>,           \* groups that back off
    closed      |-> FALSE,
    ceiling     |-> Max,            \* the bound of count + reserved after max was lowered
    liveCeiling |-> Max + MaxDraining ]

(***************************************************************************)
(* Counters.                                                               *)
(***************************************************************************)

Without(s, x) == SelectSeq(s, LAMBDA y : y # x)
Elements(s) == {s[i] : i \in DOMAIN s}
AtLeast(a, b) == IF a < b THEN b ELSE a
AtMost(a, b) == IF a < b THEN a ELSE b
Lowest(S) == CHOOSE x \in S : \A y \in S : x <= y
Highest(S) == CHOOSE x \in S : \A y \in S : y <= x

Size(p, g) == Len(p.groups[g].list)
Count(p) == Cardinality({x \in DOMAIN p.procs : ~p.procs[x].detached})
Active(p) == Cardinality({x \in DOMAIN p.procs : ~p.procs[x].detached /\ p.procs[x].sessions > 0})
Outdated(p, g) == {x \in Elements(p.groups[g].list) : p.procs[x].outdated}

RECURSIVE Unwanted(_, _)
\* The number of cancelled spawns of the groups 1..n: of one more process, and of replacements.
Unwanted(p, n) ==
    IF n = 0 THEN <<0, 0>> ELSE
    LET others == Unwanted(p, n - 1)
        these == p.groups[n].unwanted
    IN  <<others[1] + these.more, others[2] + these.replacements>>

\* Spawns in flight that will raise count (E3), and those of replacements.
Reserved(p) ==
    Cardinality({g \in Groups : p.groups[g].spawning = "one more"}) + Unwanted(p, Cardinality(Groups))[1]
Replacing(p) ==
    Cardinality({g \in Groups : p.groups[g].spawning = "replacement"}) + Unwanted(p, Cardinality(Groups))[2]

\* Live processes, draining ones and spawns included (E25).
Live(p) == Cardinality(DOMAIN p.procs) + Reserved(p) + Replacing(p)
LiveLimit(p) == p.max + MaxDraining

(***************************************************************************)
(* A group's list, and the rank of a process in it.                        *)
(***************************************************************************)

Many == 2 * Cardinality(Clients)

\* The process takes no more sessions: it was given its last (E14).
Retires(p, x) == MaxRequests > 0 /\ p.procs[x].processed + p.procs[x].sessions >= MaxRequests
IsFull(p, x) == Concurrency > 0 /\ p.procs[x].sessions >= Concurrency

\* Processes with room by sessions, the marked one last among them (E37); then full ones; then retiring ones.
Rank(p, x) ==
    IF Retires(p, x) THEN 2 * Many
    ELSE IF IsFull(p, x) THEN Many + p.procs[x].sessions
    ELSE IF p.procs[x].marked THEN Many - 1
    ELSE p.procs[x].sessions

\* Inserts a process before ("front") or behind ("back") those of equal rank (E33).
Insert(p, x, end) ==
    LET g == p.procs[x].group
        \* One more than the highest rank before the process.
        bound == IF end = "back" THEN Rank(p, x) + 1 ELSE Rank(p, x)
        list == p.groups[g].list
        ahead == SelectSeq(list, LAMBDA y : Rank(p, y) < bound)
        behind == SelectSeq(list, LAMBDA y : Rank(p, y) >= bound)
    IN  [p EXCEPT !.groups[g].list = ahead \o <<x>> \o behind]
Remove(p, x) == [p EXCEPT !.groups[p.procs[x].group].list = Without(@, x)]

\* select_process: the least busy process with room, an idle one if there is one.
Select(p, g) ==
    LET list == p.groups[g].list IN
    IF list = <<>> THEN NoProcess
    ELSE IF Rank(p, Head(list)) < Many THEN Head(list) ELSE NoProcess

\* Recounts the surplus: the processes above the minimum that may be marked for eviction.
Refresh(p, g) ==
    LET staying == Len(SelectSeq(p.groups[g].list, LAMBDA x : ~Retires(p, x)))
        surplus == IF staying = 0 THEN None ELSE AtLeast(staying - MinOf(g), 0)
        others == Without(p.bySurplus, g)
    IN  IF surplus = p.groups[g].surplus THEN p
        ELSE [p EXCEPT !.groups[g].surplus = surplus,
                       !.bySurplus = IF surplus = None THEN others ELSE Append(others, g)]

(***************************************************************************)
(* Sessions and gets.                                                      *)
(***************************************************************************)

\* Opens a session of the process. The pseudocode's move_to_back.
OpenSession(p, x) ==
    LET removed == Remove(p, x)
        busy == [removed EXCEPT !.procs[x].sessions = @ + 1, !.procs[x].idleFor = 0,
                                !.inactive = Without(@, x)]
    IN  Insert(busy, x, "back")

LeaveQueue(p, c) == [p EXCEPT !.groups = [g \in Groups |-> [p.groups[g] EXCEPT !.queue = Without(@, c)]]]
\* Serves a get with a session of the process.
Serve(p, c, x) == [LeaveQueue(p, c) EXCEPT !.clients[c] = [at |-> "has", process |-> x]]
\* Ends a get with an error, or a session.
Out(p, c) == [LeaveQueue(p, c) EXCEPT !.clients[c] = [at |-> "out", process |-> NoProcess]]

RECURSIVE ResolveAll(_, _)
\* Fails all gets that wait for the group.
ResolveAll(p, g) ==
    IF p.groups[g].queue = <<>> THEN p ELSE ResolveAll(Out(p, Head(p.groups[g].queue)), g)

\* Removes an attached process from its group. An idle process is gone; a busy one drains (E9, E13).
DetachProcess(p, x) ==
    LET g == p.procs[x].group
        removed == [Remove(p, x) EXCEPT !.marked = Without(@, x), !.inactive = Without(@, x)]
        done ==
            IF p.procs[x].sessions > 0
            THEN [removed EXCEPT
                !.procs[x] = [@ EXCEPT !.detached = TRUE, !.marked = FALSE, !.outdated = FALSE,
                                       !.processed = 0, !.left = DrainTimeout],
                !.draining = Append(@, x)]
            ELSE [removed EXCEPT !.procs = [y \in DOMAIN @ \ {x} |-> @[y]]]
    IN  Refresh(done, g)

\* Detaches the process if it was given its last session: it drains, and its place is free (E36).
LeavesWithLastSession(p, x) == IF Retires(p, x) THEN DetachProcess(p, x) ELSE p

\* The time until a process must give its place to a group in this line (E37).
RoomDue(line) == IF TimePasses /\ line \in {"First", "More"} /\ Cardinality(Groups) > 1 THEN DrainTimeout ELSE 0
\* Moves the group behind those whose gets have waited longer for one more process (E37).
WasServed(p, g) ==
    IF g \notin Elements(p.lines["More"]) THEN p
    ELSE [p EXCEPT !.lines["More"] = Append(Without(@, g), g), !.groups[g].roomDue = RoomDue("More")]

RECURSIVE GrantSessions(_, _)
\* global_queue_position_became_available: grants sessions to the gets that wait for this group, oldest
\* first, while a process has room (E17).
GrantSessions(p, g) ==
    LET x == Select(p, g) IN
    IF p.groups[g].queue = <<>> \/ x = NoProcess THEN p
    ELSE LET turned == WasServed(p, g)
             opened == OpenSession(turned, x)
             served == Serve(opened, Head(opened.groups[g].queue), x)
             left == LeavesWithLastSession(served, x)
             refreshed == Refresh(left, g)
         IN  GrantSessions(refreshed, g)

(***************************************************************************)
(* Capacity: the order in which groups may spawn.                          *)
(***************************************************************************)

HasLiveRoom(p) == Live(p) < LiveLimit(p)
MayReserve(p) == Count(p) + Reserved(p) < p.max /\ HasLiveRoom(p)
IsCapped(p, g) == p.maxPerApp > 0 /\ Size(p, g) >= p.maxPerApp
BacksOff(p, g) == p.groups[g].backOff # None

\* The want that the group's state asks for.
Wants(p, g) ==
    LET group == p.groups[g]
        waits == group.queue # <<>>
        tooFew == Size(p, g) < MinOf(g) /\ group.known /\ ~group.forgotten
    IN  IF p.closed \/ group.spawning # "no" \/ BacksOff(p, g) THEN "Nothing"
        ELSE IF Outdated(p, g) # {} THEN "Replacement"
        ELSE IF waits /\ Size(p, g) = 0 THEN "First"
        ELSE IF (waits \/ tooFew) /\ IsCapped(p, g) THEN "Capped"
        ELSE IF waits THEN "More"
        ELSE IF tooFew THEN "Minimum"
        ELSE "Nothing"

StandsIn(p, g) ==
    IF \E line \in Lines : g \in Elements(p.lines[line])
    THEN CHOOSE line \in Lines : g \in Elements(p.lines[line])
    ELSE "Nothing"
LeaveLine(p, g) == [p EXCEPT !.lines = [line \in Lines |-> Without(p.lines[line], g)],
                             !.groups[g].roomDue = 0]

\* Moves the group to the line of its present want. The gets of a group that backs off without a process
\* fail (E27).
Reconsider(p, g) ==
    LET failed == IF Size(p, g) = 0 /\ BacksOff(p, g) THEN ResolveAll(p, g) ELSE p
        want == Wants(failed, g)
        left == LeaveLine(failed, g)
    IN  IF want = StandsIn(failed, g) THEN failed
        ELSE IF want = "Nothing" THEN left
        ELSE [left EXCEPT !.lines[want] = Append(@, g), !.groups[g].roomDue = RoomDue(want)]

\* spawn_in_background: reserves capacity and orders the spawn (E3). Precondition: the group is not spawning.
Spawn(p, g, what) == [LeaveLine(p, g) EXCEPT !.groups[g].spawning = what]
SpawnIfAllowed(p, g) ==
    IF p.groups[g].spawning = "no" /\ ~BacksOff(p, g) /\ Outdated(p, g) = {}
            /\ MayReserve(p) /\ ~IsCapped(p, g)
    THEN Spawn(p, g, "one more") ELSE p

\* The idle process to evict: the longest idle of a group above its minimum, or else the longest idle
\* (E29).
Unprotected(p) ==
    SelectSeq(p.inactive, LAMBDA x : Size(p, p.procs[x].group) > MinOf(p.procs[x].group))
Victim(p) ==
    IF Unprotected(p) # <<>> THEN Head(Unprotected(p))
    ELSE IF p.inactive # <<>> THEN Head(p.inactive) ELSE NoProcess
Evict(p) ==
    LET x == Victim(p)
        detached == DetachProcess(p, x)
    IN  Reconsider(detached, p.procs[x].group)

\* Marks one busy process: the least busy of the group that is furthest above its minimum (E18).
MarkForEviction(p) ==
    IF p.marked # <<>> \/ p.bySurplus = <<>> THEN p
    ELSE LET most == Highest({p.groups[g].surplus : g \in Elements(p.bySurplus)})
             g == Head(SelectSeq(p.bySurplus, LAMBDA h : p.groups[h].surplus = most))
             x == Head(SelectSeq(p.groups[g].list, LAMBDA y : ~Retires(p, y)))
             removed == Remove(p, x)
             withMark == [removed EXCEPT !.procs[x].marked = TRUE, !.marked = Append(@, x)]
         IN  Insert(withMark, x, "back")

\* Unmarks the process, unless a group needs its place.
Unmark(p) ==
    IF p.marked = <<>> \/ p.lines["First"] # <<>> THEN p
    ELSE LET x == Head(p.marked)
             removed == Remove(p, x)
             free == [removed EXCEPT !.procs[x].marked = FALSE, !.marked = <<>>]
         IN  Insert(free, x, "back")

\* The groups whose gets wait for one more process, and were not served for as long as a drain may take (E37).
Starving(p) ==
    IF TimePasses THEN SelectSeq(p.lines["More"], LAMBDA g : p.groups[g].roomDue = 0) ELSE <<>>

\* The groups for which a process of another group is evicted: those that starve come before those that have waited
\* less long for their first process (E37).
Urgent(p) ==
    LET first == p.lines["First"]
        hasWaited == IF TimePasses /\ first # <<>> THEN p.groups[Head(first)].roomDue = 0 ELSE FALSE
    IN  IF hasWaited THEN first ELSE Starving(p) \o first

\* Whether a process of this group gives its place as soon as it is idle: a group wants its first process, or
\* another group starves. A group at its minimum does so only if no third one is above its own (E29, E37).
MakesRoom(p, g) ==
    IF Urgent(p) = <<>> THEN FALSE
    ELSE LET urgent == Head(Urgent(p))
             most == Highest({p.groups[h].surplus : h \in Elements(p.bySurplus)})
             third == Head(SelectSeq(p.bySurplus, LAMBDA h : p.groups[h].surplus = most))
         IN  /\ urgent # g \/ StandsIn(p, g) # "More"
             /\ p.groups[g].surplus > 0 \/ third = urgent \/ p.groups[third].surplus <= 0

RECURSIVE FirstLine(_), MoreLine(_), ReplacementLine(_)
\* Groups without a process come first, and groups that starve before those that have waited less long: idle
\* processes of other groups are evicted for them, or else a busy one is marked.
FirstLine(p) ==
    LET first == p.lines["First"]
        line == Urgent(p)
    IN  IF line = <<>> THEN p
        ELSE IF IsCapped(p, Head(line)) THEN LET moved == Reconsider(p, Head(line)) IN FirstLine(moved)
        ELSE IF MayReserve(p) THEN LET spawning == Spawn(p, Head(line), "one more") IN FirstLine(spawning)
        ELSE IF Victim(p) # NoProcess THEN LET evicted == Evict(p) IN FirstLine(evicted)
        ELSE IF first # <<>> /\ Count(p) + Reserved(p) >= p.max THEN MarkForEviction(p)
        ELSE p
MoreLine(p) ==
    LET line == p.lines["More"] \o p.lines["Minimum"]
    IN  IF line = <<>> \/ p.lines["First"] # <<>> THEN p
        \* max_per_app was lowered: move the group to the line of capped groups.
        ELSE IF IsCapped(p, Head(line)) THEN LET moved == Reconsider(p, Head(line)) IN MoreLine(moved)
        ELSE IF MayReserve(p) THEN LET spawning == Spawn(p, Head(line), "one more") IN MoreLine(spawning)
        ELSE p
ReplacementLine(p) ==
    IF p.lines["Replacement"] = <<>> \/ ~HasLiveRoom(p) THEN p
    ELSE LET spawning == Spawn(p, Head(p.lines["Replacement"]), "replacement")
         IN  ReplacementLine(spawning)

\* new_app_group_creatable: grants capacity to the groups in the lines.
GrantCapacity(p) ==
    IF p.closed THEN p
    ELSE LET first == FirstLine(p)
             unmarked == Unmark(first)
             more == MoreLine(unmarked)
         IN  ReplacementLine(more)

(***************************************************************************)
(* Settle: grants sessions and capacity in order of arrival (E17).         *)
(***************************************************************************)

EndBackOff(p, g) == [p EXCEPT !.groups[g].backOff = None, !.backingOff = Without(@, g)]

\* Removes a group that was detached by name and is unused.
ForgetIfUnused(p, g) ==
    LET group == p.groups[g]
        drains == \E x \in Elements(p.draining) : p.procs[x].group = g
        spawns == group.spawning # "no" \/ group.unwanted # [more |-> 0, replacements |-> 0]
    IN  IF ~group.forgotten \/ group.list # <<>> \/ drains \/ spawns \/ group.queue # <<>> THEN p
        ELSE LET left == LeaveLine(p, g)
                 quiet == EndBackOff(left, g)
             IN  [quiet EXCEPT !.groups[g] = EmptyGroup]

Settle(p, g) ==
    LET refreshed == Refresh(p, g)
        granted == GrantSessions(refreshed, g)
        reconsidered == Reconsider(granted, g)
        given == GrantCapacity(reconsidered)
    IN  ForgetIfUnused(given, g)

\* Ends a drain: the process has no session left, or its deadline has passed. A client that still has a
\* session loses its reference.
EndDrain(p, x) ==
    LET g == p.procs[x].group
        gone == [p EXCEPT
            !.procs = [y \in DOMAIN @ \ {x} |-> @[y]],
            !.draining = Without(@, x),
            !.clients = [c \in Clients |->
                IF p.clients[c].process = x THEN [at |-> "lost", process |-> NoProcess] ELSE p.clients[c]]]
    IN  Settle(gone, g)

(***************************************************************************)
(* Detach and restart.                                                     *)
(***************************************************************************)

\* Cancels the group's spawn without a join (E2). Its reservation stays until the spawn ends, because a
\* process may already live (E12).
GiveUpSpawn(p, g) ==
    CASE p.groups[g].spawning = "no" -> p
      [] p.groups[g].spawning = "one more" ->
            [p EXCEPT !.groups[g].spawning = "no", !.groups[g].unwanted.more = @ + 1]
      [] p.groups[g].spawning = "replacement" ->
            [p EXCEPT !.groups[g].spawning = "no", !.groups[g].unwanted.replacements = @ + 1]

RECURSIVE DetachAll(_, _)
DetachAll(p, g) ==
    IF p.groups[g].list = <<>> THEN p
    ELSE LET oldest == Lowest(Elements(p.groups[g].list))
             detached == DetachProcess(p, oldest)
         IN  DetachAll(detached, g)

\* detach_group_without_lock: oldest first. Waiting gets keep waiting for a new process.
DetachGroup(p, g) == LET detached == DetachAll(p, g) IN GiveUpSpawn(detached, g)

\* Clears the group's failures, back-off and restart file.
ClearHistory(p, g) ==
    [EndBackOff(p, g) EXCEPT !.groups[g].failures = 0, !.groups[g].lastError = FALSE,
                             !.groups[g].reload = FALSE, !.groups[g].seen = "never"]

\* Detaches the group under its own name (E6) and forgets it. The next processes serve the waiting gets.
DetachedByName(p, g) ==
    LET detached == DetachGroup(p, g)
        cleared == ClearHistory(detached, g)
        forgotten == [cleared EXCEPT !.groups[g].forgotten = (p.groups[g].queue = <<>>)]
    IN  Settle(forgotten, g)

\* Replaces the group's processes by processes with the new code: all at once, or one by one (E34).
Restart(p, g) ==
    LET quiet == EndBackOff(p, g)
        old == [quiet EXCEPT
            !.groups[g].failures = 0,
            !.groups[g].reload = TRUE,
            !.procs = [x \in DOMAIN @ |->
                IF x \in Elements(p.groups[g].list) THEN [@[x] EXCEPT !.outdated = TRUE] ELSE @[x]]]
        replaced == IF Rolling THEN GiveUpSpawn(old, g) ELSE DetachGroup(old, g)
    IN  Settle(replaced, g)

(***************************************************************************)
(* Checkout.                                                               *)
(***************************************************************************)

\* No process has room: the get waits, and Settle orders the spawn that the group needs.
Wait(p, c, g, waits) ==
    IF Size(p, g) = 0 /\ BacksOff(p, g) THEN p                                  \* fails (E27)
    ELSE IF ~waits THEN LET asked == SpawnIfAllowed(p, g) IN Settle(asked, g)   \* would block
    ELSE IF MaxQueue > 0 /\ Len(p.groups[g].queue) >= MaxQueue THEN p           \* queue full (E19)
    ELSE LET queued == [p EXCEPT !.groups[g].queue = Append(@, c), !.clients[c].at = "waits"]
         IN  Settle(queued, g)

\* Takes the least busy process with room, or joins the queue. This overtakes no waiting get (E17): while
\* one waits, no process of its group has room (InvExactWakeUp). If all processes are active, one is used,
\* and another is spawned if allowed: each group has the option eager_growth (E35).
Choose(p, c, g, waits) ==
    LET x == Select(p, g) IN
    IF x = NoProcess THEN Wait(p, c, g, waits)
    ELSE LET extra == IF p.procs[x].sessions > 0 THEN SpawnIfAllowed(p, g) ELSE p
             opened == OpenSession(extra, x)
             refreshed == Refresh(opened, g)
             served == Serve(refreshed, c, x)
         IN  IF Retires(served, x)
             THEN LET left == LeavesWithLastSession(served, x) IN Settle(left, g)
             ELSE served

\* checkout_without_lock. The group's first look at its restart file is the baseline (E23); a get looks
\* once (E24).
Checkout(p, c, g, waits) ==
    LET restarts == p.groups[g].seen = "older"
        here == [p EXCEPT !.groups[g].known = TRUE, !.groups[g].forgotten = FALSE,
                          !.groups[g].seen = "current"]
        looked == IF restarts THEN Restart(here, g) ELSE here
        quiet == EndBackOff(looked, g)
        ready == IF looked.groups[g].backOff = 0 THEN Settle(quiet, g) ELSE looked
    IN  Choose(ready, c, g, waits)

(***************************************************************************)
(* The end of a spawn: spawner_thread_callback.                            *)
(***************************************************************************)

\* Identifiers are 1..n when a step begins, and the new process is the youngest.
Attach(p, g) ==
    LET x == Len(p.procs) + 1
        new == [group |-> g, sessions |-> 0, processed |-> 0, idleFor |-> 0, outdated |-> FALSE,
                marked |-> FALSE, detached |-> FALSE, left |-> 0]
        here == [p EXCEPT !.groups[g].known = TRUE, !.procs = Append(@, new), !.inactive = Append(@, x)]
        first == Insert(here, x, "front")
    IN  Refresh(first, g)

\* Attaches the process if there is still room: max or max_per_app may have been lowered.
AttachIfRoom(p, g, what) ==
    LET well == [p EXCEPT !.groups[g].failures = 0, !.groups[g].reload = FALSE,
                          !.groups[g].lastError = FALSE]
    IN  IF what = "replacement" /\ Outdated(p, g) # {}
        THEN LET attached == Attach(well, g)    \* attach first: the group is never without a process
             IN  DetachProcess(attached, Lowest(Elements(p.groups[g].list)))
        ELSE IF Count(p) + Reserved(p) < p.max /\ ~IsCapped(p, g) THEN Attach(well, g)
        ELSE well

RECURSIVE Doubled(_, _)
Doubled(time, times) == IF times = 0 THEN time ELSE Doubled(2 * time, times - 1)
\* The back-off after this number of failures in a row: it doubles each time, up to the cap.
BackOff(n) == AtMost(Doubled(BackOffFirst, n - 1), BackOffCap)
\* Failures are counted up to the longest back-off.
Enough == Lowest({n \in 1..16 : BackOff(n) = BackOff(n + 1)})

\* Lets the group back off; its healthy processes stay (E26).
SpawnFailed(p, g) ==
    LET failures == AtMost(p.groups[g].failures + 1, Enough) IN
    [p EXCEPT !.groups[g].failures = failures, !.groups[g].lastError = TRUE,
              !.groups[g].backOff = BackOff(failures), !.backingOff = Append(Without(@, g), g)]

SpawnHasEnded(p, g, well) ==
    LET what == p.groups[g].spawning
        returned == [p EXCEPT !.groups[g].spawning = "no"]
        ended == IF well THEN AttachIfRoom(returned, g, what) ELSE SpawnFailed(returned, g)
    IN  Settle(ended, g)

(***************************************************************************)
(* The end of a session: session_has_been_closed.                          *)
(***************************************************************************)

\* Whether a get or a group can use a process that has become less busy.
IsOfUse(p, g) == p.groups[g].queue # <<>> \/ p.lines["First"] # <<>> \/ p.lines["More"] # <<>>

EndsDraining(p, x) ==
    LET fewer == [p EXCEPT !.procs[x].sessions = @ - 1]
    IN  IF fewer.procs[x].sessions = 0 THEN EndDrain(fewer, x) ELSE fewer

EndsAttached(p, x, fails) ==
    LET g == p.procs[x].group
        removed == Remove(p, x)
        fewer == [removed EXCEPT
            !.procs[x].sessions = @ - 1,
            !.procs[x].processed = IF MaxRequests > 0 /\ ~fails THEN @ + 1 ELSE @]
        idle == fewer.procs[x].sessions = 0
        \* The pseudocode's move_to_front for an idle process; a busy one goes behind its equals.
        placed == Insert(fewer, x, IF idle THEN "front" ELSE "back")
        back == IF idle THEN [placed EXCEPT !.inactive = Append(@, x)] ELSE placed
    IN  IF fails \/ (idle /\ MakesRoom(back, g))
        THEN LET detached == DetachProcess(back, x) IN Settle(detached, g)
        ELSE IF IsOfUse(back, g) THEN Settle(back, g)
        ELSE Refresh(back, g)

SessionEnds(p, c, fails) ==
    LET x == p.clients[c].process
        out == Out(p, c)
    IN  IF x = NoProcess THEN out
        ELSE IF p.procs[x].detached THEN EndsDraining(out, x)
        ELSE EndsAttached(out, x, fails)

(***************************************************************************)
(* The cleaner, and time.                                                  *)
(***************************************************************************)

IdleTooLong(p) ==
    IF MaxIdleTime > 0 /\ Unprotected(p) # <<>> THEN p.procs[Head(Unprotected(p))].idleFor >= MaxIdleTime
    ELSE FALSE
DrainsTooLong(p) == IF p.draining # <<>> THEN p.procs[Head(p.draining)].left = 0 ELSE FALSE
\* Back-offs end in the order of their deadlines, then beginnings.
BackedOff(p) == SelectSeq(p.backingOff, LAMBDA g : p.groups[g].backOff = 0)
NextBackedOff(p) == Head(BackedOff(p))
\* The group that waits longest must be given a place: the marked process's, or an idle one's (E37).
NeedsRoom(p) ==
    IF p.lines["First"] # <<>> THEN
        /\ p.marked # <<>> /\ Count(p) + Reserved(p) >= p.max
        /\ p.groups[Head(p.lines["First"])].roomDue = 0
    ELSE Starving(p) # <<>> /\ Victim(p) # NoProcess
IsDue(p) == IdleTooLong(p) \/ DrainsTooLong(p) \/ BackedOff(p) # <<>> \/ NeedsRoom(p)

RECURSIVE CleanIdle(_), CleanDrains(_), CleanBackOffs(_), CleanMarked(_)
CleanIdle(p) ==
    IF ~IdleTooLong(p) THEN p
    ELSE LET x == Head(Unprotected(p))
             detached == DetachProcess(p, x)
             settled == Settle(detached, p.procs[x].group)
         IN  CleanIdle(settled)
CleanDrains(p) ==
    IF ~DrainsTooLong(p) THEN p
    ELSE LET ended == EndDrain(p, Head(p.draining)) IN CleanDrains(ended)
CleanBackOffs(p) ==
    IF BackedOff(p) = <<>> THEN p
    ELSE LET g == NextBackedOff(p)
             quiet == EndBackOff(p, g)
             settled == Settle(quiet, g)
         IN  CleanBackOffs(settled)
\* The marked process drains, and its sessions hold no place (E37). Without one, an idle process leaves.
CleanMarked(p) ==
    IF ~NeedsRoom(p) THEN p
    ELSE IF p.marked = <<>> THEN LET evicted == GrantCapacity(p) IN CleanMarked(evicted)
    ELSE LET x == Head(p.marked)
             detached == DetachProcess(p, x)
             settled == Settle(detached, p.procs[x].group)
         IN  CleanMarked(settled)
\* One pass does all work that is due.
Cleaned(p) ==
    LET idle == CleanIdle(p)
        drained == CleanDrains(idle)
        backedOff == CleanBackOffs(drained)
    IN  CleanMarked(backedOff)

Later(p) == [p EXCEPT
    !.procs = [x \in DOMAIN @ |->
        [@[x] EXCEPT !.left = AtLeast(@ - 1, 0),
                     !.idleFor = IF x \in Elements(p.inactive) THEN AtMost(@ + 1, MaxIdleTime) ELSE 0]],
    !.groups = [g \in Groups |->
        [@[g] EXCEPT !.backOff = IF @ = None THEN None ELSE AtLeast(@ - 1, 0),
                     !.roomDue = AtLeast(@ - 1, 0)]]]

(***************************************************************************)
(* The limits, and closing the pool.                                       *)
(***************************************************************************)

RECURSIVE Uncap(_, _), CloseGroups(_, _), SettleGroups(_, _)
\* A group that is still capped goes back to this line; any other leaves it (E20).
Uncap(p, n) ==
    IF n = 0 \/ p.lines["Capped"] = <<>> THEN p
    ELSE LET g == Head(p.lines["Capped"])
             left == LeaveLine(p, g)
             reconsidered == Reconsider(left, g)
         IN  Uncap(reconsidered, n - 1)

\* Closes the pool: fails waiting and later gets, and detaches every group (E32).
CloseGroups(p, n) ==
    IF n > Cardinality(Groups) THEN p
    ELSE IF ~p.groups[n].known THEN CloseGroups(p, n + 1)
    ELSE LET failed == ResolveAll(p, n)
             detached == DetachGroup(failed, n)
             cleared == ClearHistory(detached, n)
         IN  CloseGroups(cleared, n + 1)
SettleGroups(p, known) ==
    IF known = {} THEN p
    ELSE LET settled == Settle(p, Lowest(known)) IN SettleGroups(settled, known \ {Lowest(known)})

(***************************************************************************)
(* The end of each step drops what no longer matters.                      *)
(***************************************************************************)

RECURSIVE SortedFrom(_, _, _)
SortedFrom(s, key, rest) ==
    IF rest = {} THEN <<>>
    ELSE LET least == Lowest(rest)
         IN  SelectSeq(s, LAMBDA x : key[x] = least) \o SortedFrom(s, key, rest \ {least})
\* Sorts by key; the sort is stable.
Sorted(s, key) == SortedFrom(s, key, {key[x] : x \in Elements(s)})

RECURSIVE InOrder(_, _)
\* Renumbers by group: attached processes by age, then draining ones by deadline.
InOrder(p, g) ==
    LET ids == {x \in DOMAIN p.procs : p.procs[x].group = g /\ ~p.procs[x].detached}
        seq == IF ids = {} THEN <<>> ELSE SelectSeq([i \in 1..Highest(ids) |-> i], LAMBDA x : x \in ids)
        drain == SelectSeq(p.draining, LAMBDA x : p.procs[x].group = g)
    IN  IF g > Cardinality(Groups) THEN <<>> ELSE seq \o drain \o InOrder(p, g + 1)

Canonical(p) ==
    LET \* Unless time passes, the order of the drains has no effect.
        first == [x \in Elements(p.draining) |-> Lowest({c \in Clients : p.clients[c].process = x})]
        surplus == [g \in Groups |-> p.groups[g].surplus]
        backOff == [g \in Groups |-> p.groups[g].backOff]
        draining == IF TimePasses THEN p.draining ELSE Sorted(p.draining, first)
        order == InOrder([p EXCEPT !.draining = draining], 1)
        name == [x \in DOMAIN p.procs |-> CHOOSE i \in DOMAIN order : order[i] = x]
        Renamed(s) == [i \in 1..Len(s) |-> name[s[i]]]
    IN  [p EXCEPT
            !.procs = [i \in 1..Len(order) |-> p.procs[order[i]]],
            !.groups = [g \in Groups |-> [p.groups[g] EXCEPT !.list = Renamed(@)]],
            !.inactive = Renamed(@),
            !.draining = Renamed(draining),
            !.marked = Renamed(@),
            !.clients = [c \in Clients |->
                IF p.clients[c].process = NoProcess THEN p.clients[c]
                ELSE [p.clients[c] EXCEPT !.process = name[@]]],
            !.bySurplus = Sorted(@, surplus),
            !.backingOff = Sorted(@, backOff),
            \* A number above a lowered max may only fall, until it is within max again.
            !.ceiling = AtLeast(p.max, AtMost(@, Count(p) + Reserved(p))),
            !.liveCeiling = AtLeast(LiveLimit(p), AtMost(@, Live(p)))]

Becomes(p) == pool' = Canonical(p)

(***************************************************************************)
(* Actions: each is one critical section.                                  *)
(***************************************************************************)

Get(c, g) ==
    /\ pool.clients[c].at = "out" /\ ~pool.closed
    /\ Becomes(Checkout(pool, c, g, TRUE))
TryGet(c, g) ==
    /\ TryGets /\ pool.clients[c].at = "out" /\ ~pool.closed
    /\ Becomes(Checkout(pool, c, g, FALSE))
GiveUp(c) ==    \* the group may have stood in a line only for this get (E16, E19)
    /\ GivesUp /\ pool.clients[c].at = "waits"
    /\ LET g == CHOOSE g \in Groups : c \in Elements(pool.groups[g].queue)
       IN  Becomes(Settle(Out(pool, c), g))
CloseSession(c) ==
    /\ pool.clients[c].at \in {"has", "lost"}
    /\ Becomes(SessionEnds(pool, c, FALSE))
SessionFails(c) ==
    /\ SessionsFail /\ pool.clients[c].at = "has"
    /\ Becomes(SessionEnds(pool, c, TRUE))

\* A spawn that its group waits for succeeds or fails.
SpawnEnds(g) ==
    /\ pool.groups[g].spawning # "no"
    /\ \E well \in (IF SpawnsFail THEN BOOLEAN ELSE {TRUE}) : Becomes(SpawnHasEnded(pool, g, well))
\* A cancelled spawn ends: its process, if any, is shut down (E12).
UnwantedEnds(g) ==
    \/ /\ pool.groups[g].unwanted.more > 0
       /\ Becomes(Settle([pool EXCEPT !.groups[g].unwanted.more = @ - 1], g))
    \/ /\ pool.groups[g].unwanted.replacements > 0
       /\ Becomes(Settle([pool EXCEPT !.groups[g].unwanted.replacements = @ - 1], g))

Touch(g) ==
    /\ Restarts
    /\ Becomes([pool EXCEPT !.groups[g].seen = IF @ = "current" THEN "older" ELSE @])
Detach(x) ==
    /\ Detaches /\ ~pool.procs[x].detached
    /\ Becomes(Settle(DetachProcess(pool, x), pool.procs[x].group))
DetachByName(g) ==
    /\ DetachesGroup /\ pool.groups[g].known
    /\ Becomes(DetachedByName(pool, g))
MaxIsSet(n) ==
    /\ n # pool.max
    /\ Becomes(GrantCapacity([pool EXCEPT !.max = n]))
MaxPerAppIsSet(n) ==
    /\ n # pool.maxPerApp
    /\ Becomes(GrantCapacity(Uncap([pool EXCEPT !.maxPerApp = n], Len(pool.lines["Capped"]))))
Close ==
    /\ Closes /\ ~pool.closed
    /\ Becomes(SettleGroups(CloseGroups([pool EXCEPT !.closed = TRUE], 1),
                            {g \in Groups : pool.groups[g].known}))
Tick == TimePasses /\ Becomes(Later(pool))
Clean == TimePasses /\ IsDue(pool) /\ Becomes(Cleaned(pool))

Init == pool = Canonical(EmptyPool)
Next ==
    \/ \E c \in Clients, g \in Groups : Get(c, g)
    \/ \E c \in Clients, g \in Groups : TryGet(c, g)
    \/ \E c \in Clients : GiveUp(c)
    \/ \E c \in Clients : CloseSession(c)
    \/ \E c \in Clients : SessionFails(c)
    \/ \E g \in Groups : SpawnEnds(g)
    \/ \E g \in Groups : UnwantedEnds(g)
    \/ \E g \in Groups : Touch(g)
    \/ \E x \in DOMAIN pool.procs : Detach(x)
    \/ \E g \in Groups : DetachByName(g)
    \/ \E n \in SetMax : MaxIsSet(n)
    \/ \E n \in SetMaxPerApp : MaxPerAppIsSet(n)
    \/ Close
    \/ Tick
    \/ Clean

(***************************************************************************)
(* Fairness. Sessions close, spawns end with success or failure, time      *)
(* passes, the cleaner runs. Gets, failures, restarts, detaches, giving up *)
(* and changes of limits need never happen.                                *)
(***************************************************************************)

FairSpawns == \A g \in Groups : WF_pool(SpawnEnds(g)) /\ WF_pool(UnwantedEnds(g))
FairTime == WF_pool(Tick) /\ WF_pool(Clean)
FairSessions == \A c \in Clients : WF_pool(CloseSession(c))

Spec == Init /\ [][Next]_pool /\ FairSpawns /\ FairTime /\ FairSessions
\* The same, but a client may keep its session for ever.
SpecKept == Init /\ [][Next]_pool /\ FairSpawns /\ FairTime

(***************************************************************************)
(* Invariants, in the order of invariants.rs, which has their sentences.   *)
(***************************************************************************)

All == DOMAIN pool.procs
ListOf(g) == pool.groups[g].list
IsSorted(s, Key(_)) == \A i \in 1..(Len(s) - 1) : Key(s[i]) <= Key(s[i + 1])

\* INV-GROUP-NAME
InvGroupName == \A g \in Groups : \A x \in Elements(ListOf(g)) : pool.procs[x].group = g
\* INV-GROUP-ORDER
InvGroupOrder == \A g \in Groups : IsSorted(ListOf(g), LAMBDA x : AtMost(pool.procs[x].sessions, 1))
\* INV-GROUP-SORTED
InvGroupSorted == \A g \in Groups : IsSorted(ListOf(g), LAMBDA x : Rank(pool, x))
\* INV-GROUP-ACCESSIBLE
InvGroupAccessible == \A g \in Groups : pool.groups[g].known \/ ListOf(g) = <<>>
\* INV-PROCESS-IDLE
InvProcessIdle == \A x \in All :
    (pool.procs[x].sessions = 0 /\ ~pool.procs[x].detached) <=> x \in Elements(pool.inactive)
\* INV-PROCESS-ACCESSIBLE
InvProcessAccessible == \A x \in All :
    ~pool.procs[x].detached <=> \E g \in Groups : x \in Elements(ListOf(g))
\* INV-PROCESS-HERE
InvProcessHere ==
    /\ \A g \in Groups : Elements(ListOf(g)) \subseteq All
    /\ Elements(pool.inactive) \cup Elements(pool.draining) \cup Elements(pool.marked) \subseteq All
    /\ \A c \in Clients : pool.clients[c].at = "has" <=> pool.clients[c].process \in All
\* INV-INACTIVE-SIZE
InvInactiveSize == Len(pool.inactive) = Count(pool) - Active(pool)
\* INV-INACTIVE-IDLE
InvInactiveIdle == \A x \in Elements(pool.inactive) :
    /\ pool.procs[x].sessions = 0 /\ ~pool.procs[x].detached
    /\ x \in Elements(ListOf(pool.procs[x].group))
\* INV-INACTIVE-ORDER
InvInactiveOrder == IsSorted(pool.inactive, LAMBDA x : -pool.procs[x].idleFor)
\* INV-CAPACITY
InvCapacity == Count(pool) + Reserved(pool) <= AtLeast(pool.max, pool.ceiling)
\* INV-LIVE
InvLive == Live(pool) <= AtLeast(LiveLimit(pool), pool.liveCeiling)
\* INV-DRAINING
InvDraining ==
    /\ \A x \in Elements(pool.draining) :
        /\ pool.procs[x].detached /\ pool.procs[x].sessions > 0
        /\ pool.groups[pool.procs[x].group].known
    /\ Cardinality({x \in All : pool.procs[x].detached}) = Len(pool.draining)
\* INV-CONCURRENCY
InvConcurrency == \A x \in All : Concurrency = 0 \/ pool.procs[x].sessions <= Concurrency
\* INV-MAX-REQUESTS
InvMaxRequests == \A x \in All :
    MaxRequests = 0 \/ pool.procs[x].processed + pool.procs[x].sessions <= MaxRequests
\* INV-IDENTIFIER
InvIdentifier ==
    /\ All = 1..Cardinality(All)
    /\ \A g \in Groups : Cardinality(Elements(ListOf(g))) = Len(ListOf(g))
\* INV-WAITING
InvWaiting == \A c \in Clients :
    pool.clients[c].at = "waits" <=>
        Cardinality({g \in Groups : c \in Elements(pool.groups[g].queue)}) = 1
\* INV-EXACT-WAKE-UP
InvExactWakeUp == \A g \in Groups : pool.groups[g].queue = <<>> \/ Select(pool, g) = NoProcess
\* INV-WAIT-HAS-CAUSE
InvWaitHasCause == \A g \in Groups :
    \/ pool.groups[g].queue = <<>> \/ ListOf(g) # <<>>
    \/ pool.groups[g].spawning # "no" \/ StandsIn(pool, g) = "First"
\* INV-MARKED
InvMarked ==
    /\ \A x \in Elements(pool.marked) :
        pool.procs[x].marked /\ ~pool.procs[x].detached /\ pool.procs[x].sessions > 0
    /\ Cardinality({x \in All : pool.procs[x].marked}) = Len(pool.marked)
    /\ Len(pool.marked) <= 1 /\ (pool.marked # <<>> => pool.lines["First"] # <<>>)
    /\ (pool.lines["First"] # <<>> /\ Count(pool) > 0 /\ Count(pool) + Reserved(pool) >= pool.max)
        => pool.marked # <<>>
\* INV-BACK-OFF
InvBackOff == \A g \in Groups :
    /\ BacksOff(pool, g) <=> g \in Elements(pool.backingOff)
    /\ BacksOff(pool, g) =>
        pool.groups[g].lastError /\ (ListOf(g) # <<>> \/ pool.groups[g].queue = <<>>)
\* INV-WANT
InvWant == \A g \in Groups :
    /\ \/ StandsIn(pool, g) = Wants(pool, g)
       \* A lowered max_per_app is noticed when the group's turn comes.
       \/ StandsIn(pool, g) \in {"More", "Minimum"} /\ Wants(pool, g) = "Capped"
    /\ Cardinality({line \in Lines : g \in Elements(pool.lines[line])}) <= 1
\* INV-LAST-SERVED
InvLastServed == LET line == pool.lines["More"] IN \A i \in 1..Len(line), j \in 1..Len(line) :
    i < j => pool.groups[line[i]].roomDue <= pool.groups[line[j]].roomDue
\* INV-CLOSED
InvClosed == pool.closed =>
    /\ Count(pool) = 0 /\ \A g \in Groups : pool.groups[g].queue = <<>>
    /\ \A line \in Lines : pool.lines[line] = <<>>

\* PROP-SESSIONS, a step property there
InvSessions == \A x \in All :
    pool.procs[x].sessions = Cardinality({c \in Clients : pool.clients[c].process = x})
\* No deadlock: while a get waits, the system itself can take an action.
InvNoDeadlock ==
    (\E c \in Clients : pool.clients[c].at = "waits") =>
        \/ \E c \in Clients : pool.clients[c].at \in {"has", "lost"}
        \/ Reserved(pool) + Replacing(pool) > 0
        \/ TimePasses /\ (pool.backingOff # <<>> \/ pool.draining # <<>> \/ Unprotected(pool) # <<>>)

(***************************************************************************)
(* Liveness, and what each property assumes; properties.rs has the rest.   *)
(***************************************************************************)

\* PROP-EVERY-GET-ENDS. Spawns may fail for ever; restarts, detaches and changes of limits do not happen.
EveryGetEnds == \A c \in Clients : pool.clients[c].at = "waits" ~> pool.clients[c].at # "waits"

\* PROP-NO-GROUP-STARVES. The same.
Starves(g) ==
    pool.groups[g].queue # <<>> /\ \A x \in DOMAIN pool.procs : pool.procs[x].group # g
NoGroupStarves == \A g \in Groups : Starves(g) ~> ~Starves(g)

\* PROP-MINIMUM-REFILLED. Spawns do not fail, and there is no max_requests.
BelowMinimum(g) ==
    /\ pool.groups[g].known /\ ~pool.groups[g].forgotten /\ ~pool.closed
    /\ ~IsCapped(pool, g) /\ (pool.groups[g].spawning # "no" \/ MayReserve(pool))
    /\ Size(pool, g) < MinOf(g)
MinimumRefilled == \A g \in Groups : BelowMinimum(g) ~> ~BelowMinimum(g)

\* PROP-RESTART-ENDS. From some time on restart files are not touched; spawns do not fail, and there is
\* room for a successor.
RestartEnds ==
    <>[](\A g \in Groups : pool.groups[g].seen # "older") =>
        \A g \in Groups : []<>(Outdated(pool, g) = {})

\* PROP-DRAIN-ENDS. Time passes; sessions need not close (SpecKept).
Drains(c) == pool.clients[c].at = "has" /\ pool.procs[pool.clients[c].process].detached
DrainEnds == \A c \in Clients : Drains(c) ~> ~Drains(c)
================================================================================
