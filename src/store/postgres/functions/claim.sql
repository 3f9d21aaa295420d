-- Makes due tasks ready, a limited number of them, so that no claim takes long; of the retries under these budgets, as many
-- as they let through. Returns whether there may be more.
CREATE OR REPLACE FUNCTION redrive.make_due_ready(retry_budgets bigint[], now_ms bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  most constant int := 2000;
  made_ready int;
BEGIN
  UPDATE redrive.waiting SET state = redrive.waiting_state(true, alone)
  WHERE ctid = ANY (ARRAY(
    SELECT due.ctid FROM redrive.waiting AS due
    WHERE due.state = redrive.state_scheduled() AND due.next_at <= now_ms
    ORDER BY due.next_at LIMIT most FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS made_ready = ROW_COUNT;
  IF made_ready = most THEN
    RETURN true;
  ELSIF retry_budgets IS NULL THEN
    RETURN false;
  END IF;
  RETURN redrive.let_retries_through(retry_budgets, most, now_ms);
END
$$;

-- Whether a room names a lane: by its kind and, if it has categories, by its category.
CREATE OR REPLACE FUNCTION redrive.names(kinds text[], categories text[], lane redrive.lane) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT lane.kind = ANY (kinds) AND coalesce(lane.category = ANY (categories), true)
$$;

-- Whether no dead letter blocks a task that must run alone.
CREATE OR REPLACE FUNCTION redrive.may_start_alone(lone redrive.waiting, its redrive.lane) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN NOT its.blocking OR redrive.letter_before(its.id, lone.priority, lone.submitted_at, lone.task) IS NULL;
END
$$;

-- Whether a task of any room is ready that must run alone, in a lane that may give it.
CREATE OR REPLACE FUNCTION redrive.is_alone_waiting(rooms json, gates redrive.gate[], now_ms bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  -- There hardly ever is one, and planning what follows takes a new connection longer than a claim.
  IF NOT EXISTS (SELECT FROM redrive.waiting WHERE state = redrive.state_alone()) THEN
    RETURN false;
  END IF;
  RETURN EXISTS (
    SELECT FROM redrive.waiting JOIN redrive.lane AS its ON its.id = ANY (ARRAY[waiting.lane])
    WHERE waiting.state = redrive.state_alone()
      AND EXISTS (
        SELECT FROM json_populate_recordset(NULL::redrive.room, rooms) WHERE redrive.names(kinds, categories, its)
      )
      AND (gates IS NULL OR coalesce(redrive.gates_allow(gates, its.kind, its.category) > 0, true))
      AND redrive.allowance(its, now_ms) > 0 AND redrive.may_start_alone(waiting, its)
      AND redrive.shared_allows(
        its.shared, (SELECT task.cost FROM redrive.task WHERE task.id = waiting.task), now_ms)
  );
END
$$;

-- The first task that must run alone, from the first room that has one and is not full.
CREATE OR REPLACE FUNCTION redrive.first_lone_task(rooms json, gates redrive.gate[], up_to int, now_ms bigint) RETURNS text
LANGUAGE plpgsql
SET enable_sort = off AS $$
DECLARE
  room redrive.room;
  earlier redrive.room[];
  lone text;
BEGIN
  FOR room IN SELECT * FROM json_populate_recordset(NULL::redrive.room, rooms) LOOP
    lone := (
      SELECT waiting.task FROM redrive.waiting JOIN redrive.lane AS its ON its.id = ANY (ARRAY[waiting.lane])
      WHERE waiting.state = redrive.state_alone() AND redrive.names(room.kinds, room.categories, its)
        AND NOT EXISTS (SELECT FROM unnest(earlier) AS other WHERE redrive.names(other.kinds, other.categories, its))
        AND (gates IS NULL OR coalesce(redrive.gates_allow(gates, its.kind, its.category) > 0, true))
        AND redrive.allowance(its, now_ms) > 0 AND redrive.may_start_alone(waiting, its)
        AND redrive.shared_allows(
          its.shared, (SELECT task.cost FROM redrive.task WHERE task.id = waiting.task), now_ms)
      ORDER BY waiting.priority DESC, waiting.submitted_at, waiting.task
      LIMIT least(up_to, room.up_to, 1)
    );
    EXIT WHEN lone IS NOT NULL;
    earlier := earlier || room;
  END LOOP;
  RETURN lone;
END
$$;

-- Locks a task that must run alone, and its lane. Returns NULL if somebody else has locked either, or if the lane may
-- not give it.
CREATE OR REPLACE FUNCTION redrive.lock_alone(lone text, now_ms bigint) RETURNS tid[] LANGUAGE plpgsql AS $$
DECLARE
  place tid;
BEGIN
  SELECT waiting.ctid INTO place FROM redrive.waiting JOIN redrive.lane AS its ON its.id = waiting.lane
  WHERE waiting.task = lone AND waiting.state = redrive.state_alone()
  FOR UPDATE SKIP LOCKED;
  -- Check the allowance under the lock: until then another task may have started.
  RETURN (
    SELECT ARRAY[place] FROM redrive.waiting JOIN redrive.lane AS its ON its.id = waiting.lane
    WHERE waiting.ctid = place AND redrive.allowance(its, now_ms) > 0 AND redrive.may_start_alone(waiting, its)
  );
END
$$;

-- The earliest time at which there may be more to claim: a task is due, a hold ends, or a rate allows another start.
CREATE OR REPLACE FUNCTION redrive.next_time(now_ms bigint) RETURNS bigint LANGUAGE plpgsql
SET enable_sort = off AS $$
BEGIN
  RETURN (
    SELECT CASE WHEN first.time IS NOT NULL THEN greatest(first.time, now_ms) END FROM (SELECT least(
      (SELECT next_at FROM redrive.waiting WHERE state = redrive.state_scheduled() ORDER BY next_at LIMIT 1),
      (
        SELECT min(held_until) FROM redrive.lane
        WHERE held_until > 0 AND held_until > now_ms AND redrive.has_ready(id)
      ),
      (
        SELECT ceil(refilled_at + (1 - tokens) * 1000 / per_second)::bigint FROM redrive.lane
        WHERE per_second IS NOT NULL AND refilled_at + (1 - tokens) * 1000 / per_second > now_ms
          AND redrive.has_ready(id)
        ORDER BY refilled_at + (1 - tokens) * 1000 / per_second LIMIT 1
      ),
      redrive.next_shared_time(now_ms)
    ) AS time) AS first
  );
END
$$;

-- Starts ready tasks room by room. A task belongs to the first room that names it. Tasks behind open gates are taken out of
-- their room before any lane is looked at: they are rooms of their own, as large as their gates allow.
CREATE OR REPLACE FUNCTION redrive.take_rooms(
  rooms json, up_to int, by_worker text, now_ms bigint, INOUT gates redrive.gate[],
  OUT tasks json[], OUT last_turns bigint[], OUT is_contended boolean
) LANGUAGE plpgsql AS $$
DECLARE
  room redrive.room;
  gate redrive.gate;
  part redrive.room;
  allowed int;
  earlier redrive.room[];
  taken record;
  places int;
  closed bigint[] := '{}';
BEGIN
  tasks := '{}';
  last_turns := '{}';
  is_contended := false;
  FOR room IN SELECT * FROM json_populate_recordset(NULL::redrive.room, rooms) LOOP
    places := least(up_to, room.up_to);
    FOR n IN 1 .. coalesce(cardinality(gates), 0) LOOP
      gate := gates[n];
      CONTINUE WHEN NOT gate.kind = ANY (room.kinds) OR NOT coalesce(gate.category = ANY (room.categories), true);
      part := room;
      part.kinds := ARRAY[gate.kind];
      part.categories := CASE WHEN gate.category IS NULL THEN room.categories ELSE ARRAY[gate.category] END;
      allowed := least(places, redrive.gates_allow(gates, gate.kind, gate.category), gate.allowed);
      IF allowed > 0 THEN
        taken := redrive.take_ready(part, earlier, allowed, by_worker, now_ms, closed);
        closed := taken.closed;
        tasks := tasks || taken.tasks;
        is_contended := is_contended OR taken.is_contended;
        places := places - taken.count;
        up_to := up_to - taken.count;
        gates := redrive.gates_after(gates, gate.kind, gate.category, taken.count);
      END IF;
      earlier := earlier || part;
      room.kinds := CASE WHEN gate.category IS NULL THEN array_remove(room.kinds, gate.kind) ELSE room.kinds END;
    END LOOP;
    taken := redrive.take_ready(
      room, earlier, CASE WHEN room.kinds = '{}' THEN 0 ELSE places END, by_worker, now_ms, closed);
    closed := taken.closed;
    tasks := tasks || taken.tasks;
    last_turns := last_turns || taken.last_turn;
    is_contended := is_contended OR taken.is_contended;
    up_to := up_to - taken.count;
    IF json_array_length(rooms) > 1 THEN
      earlier := earlier || room;
    END IF;
  END LOOP;
END
$$;

-- Starts a task that must run alone, unless somebody else has locked it or its lane may not give it any more. Returns the
-- same as `take_rooms`.
CREATE OR REPLACE FUNCTION redrive.take_alone(
  lone text, by_worker text, now_ms bigint, INOUT gates redrive.gate[],
  OUT tasks json[], OUT last_turns bigint[], OUT is_contended boolean
) LANGUAGE plpgsql AS $$
DECLARE
  place tid[];
  paid record;
BEGIN
  place := redrive.lock_alone(lone, now_ms);
  paid := redrive.afford(place, now_ms);
  tasks := ARRAY[redrive.start(paid.affordable, by_worker, now_ms)];
  last_turns := '{}';
  is_contended := tasks[1] IS NULL;
  IF gates IS NOT NULL AND NOT is_contended THEN
    gates := (
      SELECT redrive.gates_after(gates, its.kind, its.category, 1)
      FROM redrive.task JOIN redrive.lane AS its ON its.id = task.lane WHERE task.id = lone);
  END IF;
END
$$;

-- When to claim again: when a task is due, a lane may give one, a budget lets a retry through, or a gate lets a task through.
CREATE OR REPLACE FUNCTION redrive.next_claim_time(
  is_contended boolean, gates redrive.gate[], retry_budgets bigint[], now_ms bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
  RETURN CASE
    -- A task that another claim has locked is taken or free again in a moment.
    WHEN is_contended THEN least(now_ms + 5, redrive.next_time(now_ms))
    ELSE least(redrive.next_time(now_ms), redrive.next_retry(retry_budgets, now_ms), (
      SELECT min(greatest(now_ms, gate.next_look)) FROM unnest(gates) AS gate WHERE gate.allowed <= 0)) END;
END
$$;

-- Makes due tasks ready, then starts ready ones, room by room. A task belongs to the first room that names it. A task that
-- must run alone goes before all others, but only to an idle worker.
--
-- `rooms` is a JSON array of {kinds, categories, up_to, last_turn}. Returns JSON: {now, next_at, is_alone_waiting,
-- last_turns, as_of, tasks}, where `last_turns` has an element per room that was served, `as_of` is the last claim that
-- anybody made, and `tasks` is an array of what `start` returns.
CREATE OR REPLACE FUNCTION redrive.claim(
  by_worker text, lease_ms bigint, rooms json, up_to int, is_idle boolean, at bigint
) RETURNS text LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  budgets record;
  has_more_due boolean;
  is_alone_waiting boolean;
  lone text;
  taken record;
BEGIN
  -- Renew the lease first, so that nobody rescues this worker's tasks meanwhile.
  INSERT INTO redrive.worker AS known (id, until) VALUES (by_worker, now_ms + lease_ms)
  ON CONFLICT (id) DO UPDATE SET until = greatest(known.until, excluded.until);
  budgets := redrive.active_budgets(rooms, now_ms);
  has_more_due := redrive.make_due_ready(budgets.of_retries, now_ms);

  is_alone_waiting := redrive.is_alone_waiting(rooms, budgets.gates, now_ms);
  IF is_alone_waiting AND is_idle THEN
    lone := redrive.first_lone_task(rooms, budgets.gates, up_to, now_ms);
  END IF;
  IF lone IS NOT NULL THEN
    taken := redrive.take_alone(lone, by_worker, now_ms, budgets.gates);
  ELSE
    taken := redrive.take_rooms(rooms, up_to, by_worker, now_ms, budgets.gates);
  END IF;
  IF taken.gates IS NOT NULL THEN
    PERFORM redrive.charge_gates(taken.gates, now_ms);
  END IF;
  IF is_alone_waiting THEN
    -- The task was taken, or its lane may be full by now.
    is_alone_waiting := redrive.is_alone_waiting(rooms, taken.gates, now_ms);
  END IF;

  RETURN json_build_object(
    'now', now_ms,
    'next_at', CASE WHEN has_more_due THEN now_ms
      ELSE redrive.next_claim_time(taken.is_contended, taken.gates, budgets.of_retries, now_ms) END,
    'is_alone_waiting', is_alone_waiting,
    'last_turns', taken.last_turns,
    -- A sequence that was never used shows the value that it will give first.
    'as_of', (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM redrive.claim_id_seq),
    'tasks', array_to_json(taken.tasks)
  )::text;
END
$$;

-- Calls the functions that claims need, without data, so that this connection plans them before its first claim. Planning
-- takes several times as long as a claim, and tasks start late, and then too fast for their rate, if it takes place after
-- the claim has read the clock. It waits for no lock, since a claim waits for it.
CREATE OR REPLACE FUNCTION redrive.plan_claims() RETURNS void LANGUAGE plpgsql /* verb */ SET lock_timeout = 100 AS $$
DECLARE
  room constant redrive.room := ROW('{}', NULL, 0, NULL);
  share constant redrive.share := ROW(0, 0);
BEGIN
  PERFORM redrive.active_budgets('[]', 0);
  PERFORM redrive.make_due_ready(NULL, 0);
  PERFORM redrive.is_alone_waiting('[]', NULL, 0);
  PERFORM redrive.take_rooms(json_build_array(room), 0, '', 0, NULL);
  PERFORM redrive.take_ready(room, NULL, 1, '', 0, '{}');
  PERFORM redrive.allowance(NULL, 0);
  PERFORM redrive.lock_limits(ARRAY[share], 0);
  PERFORM redrive.pick_from_lane(share, 0);
  PERFORM redrive.pick(ARRAY[share], 0, 0);
  PERFORM redrive.afford('{}', 0);
  PERFORM redrive.start('{}', '', 0);
  PERFORM redrive.next_claim_time(false, NULL, NULL, 0);
END
$$;
