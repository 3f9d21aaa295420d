-- How many tasks of a lane with a rate may start. A second's worth is saved up at most.
CREATE FUNCTION redrive.tokens(this redrive.lane, now_ms bigint) RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
  SELECT least(
    greatest(1, this.per_second),
    this.tokens + greatest(0, now_ms - this.refilled_at) * this.per_second / 1000
  )
$$;

-- Adds up the changes of the counts of some lanes, once there are many.
CREATE FUNCTION redrive.fold_tally(first_lane bigint, last_lane bigint, many bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT count(*) FROM redrive.tally WHERE lane BETWEEN first_lane AND last_lane) < many THEN
    RETURN;
  END IF;
  WITH folded AS (
    DELETE FROM redrive.tally WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM redrive.tally WHERE lane BETWEEN first_lane AND last_lane FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
  )
  INSERT INTO redrive.tally (lane, waiting, running, succeeded, skipped, dead, cancelled)
  SELECT lane, sum(waiting), sum(running), sum(succeeded), sum(skipped), sum(dead), sum(cancelled)
  FROM folded GROUP BY lane;
END
$$;

-- How many tasks of a lane may start now.
CREATE FUNCTION redrive.allowance(this redrive.lane, now_ms bigint) RETURNS int LANGUAGE plpgsql
SET enable_seqscan = off AS $$
DECLARE
  most int := least(this.concurrency, this.ramp);
BEGIN
  IF this.paused OR this.held_until > now_ms THEN
    RETURN 0;
  END IF;
  IF most IS NOT NULL THEN
    most := most - (SELECT coalesce(sum(tally.running), 0) FROM redrive.tally WHERE tally.lane = this.id);
  END IF;
  IF this.per_second IS NOT NULL THEN
    most := least(most, floor(redrive.tokens(this, now_ms) + 1e-9)::int);
  END IF;
  RETURN greatest(0, coalesce(most, 1000000));
END
$$;

-- What a lane may give to a claim. NULL: somebody else is taking from it right now.
CREATE TYPE redrive.share AS (lane bigint, allowance int);

-- Which lanes between two have ready tasks and may give some, up to so many. Steps from lane to lane over the index of
-- ready tasks, so that the number of tasks does not matter. A lane with limits is locked, so that two claims do not take
-- the same place in it; a claim waits for no lock, and so is never part of a deadlock.
CREATE FUNCTION redrive.open_lanes(
  after_lane bigint, last_lane bigint, most int, kinds text[], categories text[], now_ms bigint
) RETURNS SETOF redrive.share LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
DECLARE
  place bigint := after_lane;
  lane redrive.lane;
  allowed int;
BEGIN
  WHILE most > 0 LOOP
    place := (
      SELECT waiting.lane FROM redrive.waiting
      WHERE waiting.state = 1 AND waiting.lane > place AND waiting.lane <= last_lane
      ORDER BY waiting.lane LIMIT 1
    );
    EXIT WHEN place IS NULL;

    SELECT * INTO lane FROM redrive.lane AS named WHERE named.id = place;
    IF NOT lane.kind = ANY (kinds) THEN
      -- On to the next lane of a kind that is asked for, past all others.
      place := (
        SELECT min(next.id) - 1 FROM unnest(kinds) AS asked (kind) CROSS JOIN LATERAL (
          SELECT named.id FROM redrive.lane AS named WHERE named.kind = asked.kind AND named.id > place
          ORDER BY named.id LIMIT 1
        ) AS next
      );
      CONTINUE WHEN place IS NOT NULL;
      EXIT;
    END IF;
    CONTINUE WHEN NOT coalesce(lane.category = ANY (categories), true);
    allowed := redrive.allowance(lane, now_ms);
    CONTINUE WHEN allowed = 0;
    IF lane.concurrency IS NOT NULL OR lane.ramp IS NOT NULL OR lane.per_second IS NOT NULL THEN
      SELECT * INTO lane FROM redrive.lane AS named WHERE named.id = place FOR UPDATE SKIP LOCKED;
      IF FOUND THEN
        PERFORM redrive.fold_tally(place, place, 64);
        allowed := redrive.allowance(lane, now_ms);
      ELSE
        allowed := NULL;
      END IF;
      CONTINUE WHEN allowed = 0;
    END IF;
    -- In an ordered lane, one that must run alone goes before all others. Asked last: until now it may have been running.
    CONTINUE WHEN lane.ordered AND EXISTS (SELECT FROM redrive.waiting WHERE waiting.state = 2 AND waiting.lane = place);
    RETURN NEXT ROW(place, allowed)::redrive.share;
    most := most - 1;
  END LOOP;
END
$$;

-- The task that must run alone and comes first, if its lane may give it.
CREATE FUNCTION redrive.first_alone(kinds text[], categories text[], now_ms bigint) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off AS $$
BEGIN
  RETURN (
    SELECT waiting.task FROM redrive.waiting JOIN redrive.lane AS its ON its.id = waiting.lane
    WHERE waiting.state = 2 AND its.kind = ANY (kinds) AND coalesce(its.category = ANY (categories), true)
      AND redrive.allowance(its, now_ms) > 0
    ORDER BY waiting.priority DESC, waiting.submitted_at, waiting.task
    LIMIT 1
  );
END
$$;

-- Locks a task that must run alone, and its lane; NULL if somebody else is at either, or if the lane may not give it.
CREATE FUNCTION redrive.lock_alone(lone text, now_ms bigint) RETURNS tid[] LANGUAGE plpgsql
SET enable_seqscan = off AS $$
DECLARE
  place tid;
BEGIN
  SELECT waiting.ctid INTO place FROM redrive.waiting JOIN redrive.lane AS its ON its.id = waiting.lane
  WHERE waiting.task = lone AND waiting.state = 2
  FOR UPDATE SKIP LOCKED;
  -- Asked once it is locked: until then another may have started.
  RETURN (
    SELECT ARRAY[place] FROM redrive.waiting JOIN redrive.lane AS its ON its.id = waiting.lane
    WHERE waiting.ctid = place AND redrive.allowance(its, now_ms) > 0
  );
END
$$;

-- Whether a lane has tasks that could start at once.
CREATE FUNCTION redrive.has_ready(of_lane bigint) RETURNS boolean LANGUAGE sql AS $$
  SELECT EXISTS (SELECT FROM redrive.waiting WHERE state = 1 AND lane = of_lane)
      OR EXISTS (SELECT FROM redrive.waiting WHERE state = 2 AND lane = of_lane)
$$;

-- When there may be more to claim: the earliest task that will be due, the end of a hold, or a rate's next start.
CREATE FUNCTION redrive.next_time(now_ms bigint) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
BEGIN
  RETURN (
    SELECT CASE WHEN first.time IS NOT NULL THEN greatest(first.time, now_ms) END FROM (SELECT least(
      (SELECT next_at FROM redrive.waiting WHERE state = 0 ORDER BY next_at LIMIT 1),
      (
        SELECT min(held_until) FROM redrive.lane
        WHERE held_until > 0 AND held_until > now_ms AND redrive.has_ready(id)
      ),
      (
        SELECT ceil(refilled_at + (1 - tokens) * 1000 / per_second)::bigint FROM redrive.lane
        WHERE per_second IS NOT NULL AND refilled_at + (1 - tokens) * 1000 / per_second > now_ms
          AND redrive.has_ready(id)
        ORDER BY refilled_at + (1 - tokens) * 1000 / per_second LIMIT 1
      )
    ) AS time) AS first
  );
END
$$;

-- Which ready tasks a claim takes next, each locked, in the order of their turns: one from each lane in turn, all lanes
-- without a key as one. `chunk` is how much a lane is likely to give; `has_more` says that one may have more than that.
-- `short` are lanes that gave less than they could: they are empty, or somebody else is taking from them.
CREATE FUNCTION redrive.pick(
  shares redrive.share[], chunk int, up_to int, OUT places tid[], OUT last_turn bigint, OUT short bigint[],
  OUT has_more boolean
) LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  unkeyed int := (SELECT count(*) FROM unnest(shares) AS share WHERE share.lane < 0);
BEGIN
  IF cardinality(shares) = 1 THEN
    -- One lane takes no turns.
    places := ARRAY(
      SELECT waiting.ctid FROM redrive.waiting
      WHERE waiting.state = 1 AND waiting.lane = shares[1].lane
      ORDER BY waiting.priority DESC, waiting.submitted_at, waiting.task
      LIMIT least(chunk, coalesce(shares[1].allowance, 0))
      FOR UPDATE SKIP LOCKED
    );
    last_turn := greatest(shares[1].lane, 0);
    has_more := cardinality(places) = chunk;
    short := CASE WHEN cardinality(places) < chunk AND cardinality(places) < coalesce(shares[1].allowance, chunk)
      THEN ARRAY[shares[1].lane] END;
    places := nullif(places, '{}');
    RETURN;
  END IF;

  WITH party AS MATERIALIZED (
    SELECT share.lane, share.seat, greatest(share.lane, 0) AS turn,
      CASE WHEN share.lane < 0 AND unkeyed > 1 THEN chunk / unkeyed + 8 ELSE chunk END AS chunk,
      coalesce(share.allowance, 0) AS allowance
    FROM unnest(shares) WITH ORDINALITY AS share (lane, allowance, seat)
  ), candidate AS MATERIALIZED (
    SELECT party.lane, party.turn, party.seat, ready.*
    FROM party CROSS JOIN LATERAL (
      SELECT waiting.ctid AS place, waiting.priority, waiting.submitted_at, waiting.task
      FROM redrive.waiting
      WHERE waiting.state = 1 AND waiting.lane = party.lane
      ORDER BY waiting.priority DESC, waiting.submitted_at, waiting.task
      LIMIT least(party.chunk, party.allowance)
      FOR UPDATE SKIP LOCKED
    ) AS ready
  ), ranked AS MATERIALIZED (
    SELECT candidate.*,
      row_number() OVER (PARTITION BY turn ORDER BY priority DESC, submitted_at, task) AS rank,
      min(seat) OVER (PARTITION BY turn) AS first_seat
    FROM candidate
  ), gave AS MATERIALIZED (
    SELECT party.lane, party.turn, party.chunk, least(party.chunk, party.allowance) AS asked, count(ranked.lane) AS given,
      max(ranked.rank) AS last_rank
    FROM party LEFT JOIN ranked ON ranked.lane = party.lane
    GROUP BY party.lane, party.turn, party.chunk, party.allowance
  ), chosen AS (
    SELECT ranked.*, row_number() OVER (ORDER BY rank, first_seat) AS number
    FROM ranked
    -- Where one of the lanes without a key has given its chunk, what it has next may come before what others gave.
    WHERE turn > 0 OR rank <= coalesce((SELECT min(last_rank) FROM gave WHERE turn = 0 AND given = gave.chunk), rank)
    ORDER BY rank, first_seat
    LIMIT up_to
  )
  SELECT array_agg(chosen.place ORDER BY chosen.number),
    (array_agg(chosen.turn ORDER BY chosen.number DESC))[1],
    (SELECT array_agg(gave.lane) FROM gave WHERE gave.given < gave.asked OR gave.asked = 0),
    (SELECT coalesce(bool_or(gave.given = gave.chunk), false) FROM gave)
  INTO places, last_turn, short, has_more
  FROM chosen;
END
$$;

-- Starts tasks whose rows in `waiting` are locked. Returns them in this order, column by column, as a JSON object of arrays:
-- much cheaper to make than an array of objects. `history` is what a task has been through, if anything.
CREATE FUNCTION redrive.start(places tid[], by_worker text, now_ms bigint) RETURNS json LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  answer json;
BEGIN
  IF places IS NULL THEN
    RETURN NULL;
  END IF;
  WITH taken AS (
    DELETE FROM redrive.waiting USING unnest(places) WITH ORDINALITY AS place (ctid, number)
    WHERE waiting.ctid = place.ctid
    RETURNING place.number, waiting.task
  ), started AS MATERIALIZED (
    SELECT task.id, task.lane, task.round, task.priority, task.submitted_at, task.started_at, task.payload,
      CASE WHEN task.entries > 0 OR task.previous_delay IS NOT NULL THEN json_build_array(
        task.attempts, task.deferrals, task.losses, task.undecided, task.previous_delay, task.error_class,
        task.error_code, task.error_message) END AS history
    FROM taken JOIN redrive.task ON task.id = taken.task
    ORDER BY taken.number
  ), held AS (
    INSERT INTO redrive.claim (worker, at, tasks, rounds, unsettled)
    SELECT by_worker, now_ms, array_agg(id), array_agg(round), count(*) FROM started
    RETURNING id
  ), gave AS MATERIALIZED (
    SELECT lane, count(*) AS count, max(submitted_at) AS last_place FROM started GROUP BY lane
  ), counted AS (
    INSERT INTO redrive.tally (lane, waiting, running) SELECT lane, -count, count FROM gave
  ), charged AS (
    UPDATE redrive.lane AS its
    SET tokens = CASE WHEN its.per_second IS NULL THEN its.tokens ELSE redrive.tokens(its, now_ms) - gave.count END,
      refilled_at = now_ms, last_place = CASE WHEN its.ordered THEN gave.last_place END
    FROM gave WHERE its.id = gave.lane AND (its.per_second IS NOT NULL OR its.ordered)
  )
  SELECT json_build_object(
    'claim', (SELECT id FROM held),
    'lanes', (
      SELECT json_agg(json_build_array(its.id, its.kind, its.category, its.key))
      FROM gave JOIN redrive.lane AS its ON its.id = gave.lane
    ),
    'lane', array_agg(lane), 'id', array_agg(id), 'round', array_agg(round), 'priority', array_agg(priority),
    'submitted_at', array_agg(submitted_at), 'started_at', array_agg(started_at), 'payload', array_agg(payload),
    'history', array_agg(history)
  )
  INTO answer
  FROM started;
  RETURN answer;
END
$$;

-- Makes due tasks ready, then takes ready ones from lanes that are open: one task from each in turn, beginning after the
-- one that had the last turn. All lanes without a key are one in that (turn 0), and the order over all of them is exact.
-- Returns JSON: {now, next_at, is_alone_waiting, last_turn, as_of, tasks}, where `as_of` is the last claim that anybody made,
-- and `tasks` is an array of what `start` returns.
CREATE FUNCTION redrive.claim(
  by_worker text, lease_ms bigint, kinds text[], categories text[], up_to int, is_idle boolean, last_turn bigint,
  at bigint
) RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  -- So many due tasks are made ready at most, so that no claim takes long. The next ones go on with the rest.
  most_made_ready constant int := 2000;
  -- A claim asks few of very many lanes, for some tasks each: to ask a lane costs more than to take a task from it.
  most_lanes constant int := least(up_to, greatest(8, ceil(up_to / 32.0)::int));
  made_ready int;
  lone text;
  is_contended boolean := false;
  later redrive.share[];
  unkeyed redrive.share[];
  earlier redrive.share[];
  asked int;
  picked record;
  taken int := 0;
  tasks json[] := '{}';
BEGIN
  -- First, so that nobody rescues this worker's tasks meanwhile.
  INSERT INTO redrive.worker AS known (id, until) VALUES (by_worker, now_ms + lease_ms)
  ON CONFLICT (id) DO UPDATE SET until = greatest(known.until, excluded.until);

  UPDATE redrive.waiting SET state = CASE WHEN alone THEN 2 ELSE 1 END
  WHERE task IN (
    SELECT due.task FROM redrive.waiting AS due
    WHERE due.state = 0 AND due.next_at <= now_ms
    ORDER BY due.next_at LIMIT most_made_ready FOR UPDATE SKIP LOCKED
  );
  GET DIAGNOSTICS made_ready = ROW_COUNT;

  lone := redrive.first_alone(kinds, categories, now_ms);
  IF lone IS NOT NULL AND is_idle AND up_to > 0 THEN
    tasks := ARRAY[redrive.start(redrive.lock_alone(lone, now_ms), by_worker, now_ms)];
    is_contended := tasks[1] IS NULL;
  ELSE
    WHILE taken < up_to LOOP
      later := ARRAY(SELECT redrive.open_lanes(
        greatest(last_turn, 0), 9223372036854775807, most_lanes, kinds, categories, now_ms));
      unkeyed := CASE WHEN cardinality(later) < most_lanes THEN ARRAY(SELECT redrive.open_lanes(
        -9223372036854775807, -1, 1000000, kinds, categories, now_ms)) ELSE '{}' END;
      asked := cardinality(later) + least(cardinality(unkeyed), 1);
      earlier := ARRAY(SELECT redrive.open_lanes(0, last_turn, most_lanes - asked, kinds, categories, now_ms));
      asked := asked + cardinality(earlier);
      EXIT WHEN asked = 0;

      picked := redrive.pick(later || unkeyed || earlier, ceil((up_to - taken)::float8 / asked)::int, up_to - taken);
      IF picked.places IS NOT NULL THEN
        tasks := tasks || redrive.start(picked.places, by_worker, now_ms);
        taken := taken + cardinality(picked.places);
        last_turn := picked.last_turn;
      END IF;
      is_contended := EXISTS (SELECT FROM redrive.waiting WHERE state = 1 AND lane = ANY (picked.short));
      EXIT WHEN is_contended OR picked.places IS NULL OR NOT (picked.has_more OR asked >= most_lanes);
    END LOOP;
  END IF;

  IF lone IS NOT NULL THEN
    -- It was taken, or its lane may be full by now.
    lone := redrive.first_alone(kinds, categories, now_ms);
  END IF;
  RETURN json_build_object(
    'now', now_ms,
    'next_at', CASE
      WHEN made_ready = most_made_ready THEN now_ms
      -- What another claim has locked is taken or free again in a moment.
      WHEN is_contended THEN least(now_ms + 5, redrive.next_time(now_ms))
      ELSE redrive.next_time(now_ms) END,
    'is_alone_waiting', lone IS NOT NULL,
    'last_turn', last_turn,
    -- A sequence that was never asked shows what it will give first.
    'as_of', (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM redrive.claim_id_seq),
    'tasks', array_to_json(tasks)
  )::text;
END
$$;
