-- Lanes of a room, between two lanes, that have ready tasks and may give some, `most` of them at most. Steps from lane to
-- lane over the index of ready tasks, so that the number of tasks does not matter. Lanes whose shared limit is `closed`,
-- held or full are left out.
CREATE OR REPLACE FUNCTION redrive.ready_lanes(
  kinds text[], categories text[], earlier redrive.room[], closed bigint[], after_lane bigint, last_lane bigint, most int,
  now_ms bigint
) RETURNS SETOF redrive.share LANGUAGE plpgsql
SET enable_sort = off AS $$
DECLARE
  place bigint := after_lane;
  lane redrive.lane;
  allowed int;
BEGIN
  WHILE most > 0 LOOP
    place := (
      SELECT waiting.lane FROM redrive.waiting
      WHERE waiting.state = redrive.state_ready() AND waiting.lane > place AND waiting.lane <= last_lane
      ORDER BY waiting.lane LIMIT 1
    );
    EXIT WHEN place IS NULL;

    SELECT * INTO lane FROM redrive.lane AS named WHERE named.id = place;
    CONTINUE WHEN NOT FOUND;
    IF NOT lane.kind = ANY (kinds) THEN
      -- Skip to the next lane of a kind in this room.
      place := (
        SELECT min(next_lane.id) FILTER (WHERE next_lane.kind = asked.kind) - 1
        FROM unnest(kinds) AS asked (kind) CROSS JOIN LATERAL (
          SELECT named.kind, named.id FROM redrive.lane AS named WHERE (named.kind, named.id) > (asked.kind, place)
          ORDER BY named.kind, named.id LIMIT 1
        ) AS next_lane
      );
      CONTINUE WHEN place IS NOT NULL;
      EXIT;
    END IF;
    CONTINUE WHEN NOT redrive.names(kinds, categories, lane) OR earlier IS NOT NULL AND EXISTS (
      SELECT FROM unnest(earlier) AS room WHERE redrive.names(room.kinds, room.categories, lane));
    CONTINUE WHEN lane.shared IS NOT NULL
      AND (lane.shared = ANY (closed) OR NOT redrive.is_shared_open(lane.shared, now_ms));
    allowed := redrive.allowance(lane, now_ms);
    CONTINUE WHEN allowed = 0 OR lane.ordered AND redrive.is_blocked(place);
    RETURN NEXT ROW(place, allowed)::redrive.share;
    most := most - 1;
  END LOOP;
END
$$;

-- Locks those of a few lanes that have limits, so that no two claims take the same slot in one, and asks each again how many
-- of its tasks may start: until now others may have started. Lanes that may start none by now are left out. A claim never
-- waits for a lock, and so is never part of a deadlock. In one statement for all, since asking one by one would cost as much
-- as taking a task.
CREATE OR REPLACE FUNCTION redrive.lock_limits(shares redrive.share[], now_ms bigint) RETURNS redrive.share[]
LANGUAGE plpgsql AS $$
DECLARE
  limited constant bigint[] := ARRAY(SELECT lane FROM unnest(shares) WHERE allowance < redrive.unlimited());
  locked bigint[];
BEGIN
  IF limited = '{}' THEN
    RETURN shares;
  END IF;
  locked := ARRAY(
    SELECT its.id FROM unnest(limited) AS named (id) JOIN redrive.lane AS its ON its.id = ANY (ARRAY[named.id])
    FOR UPDATE OF its SKIP LOCKED);
  PERFORM redrive.fold_tally(its.lane, its.lane, 64) FROM unnest(locked) AS its (lane)
  WHERE (SELECT count(*) FROM redrive.tally WHERE tally.lane = its.lane) >= 64;
  RETURN ARRAY(
    SELECT ROW(share.lane, present.allowance)::redrive.share
    FROM unnest(shares) WITH ORDINALITY AS share (lane, allowance, seat) CROSS JOIN LATERAL (
      SELECT CASE WHEN share.lane <> ALL (limited) THEN share.allowance WHEN share.lane = ANY (locked) THEN (
        SELECT CASE WHEN its.ordered AND redrive.is_blocked(its.id) THEN 0 ELSE redrive.allowance_beside(
          (SELECT coalesce(sum(tally.running), 0)::bigint FROM redrive.tally WHERE tally.lane = its.id), its, now_ms) END
        FROM redrive.lane AS its WHERE its.id = share.lane
      ) END AS allowance OFFSET 0
    ) AS present
    WHERE present.allowance IS DISTINCT FROM 0 ORDER BY share.seat);
END
$$;

-- Picks and locks the first ready tasks of a single lane. Returns the same as `pick`.
CREATE OR REPLACE FUNCTION redrive.pick_from_lane(
  share redrive.share, up_to int, OUT places tid[], OUT last_turn bigint, OUT short bigint[], OUT has_more boolean
) LANGUAGE plpgsql AS $$
BEGIN
  places := ARRAY(
    SELECT waiting.ctid FROM redrive.waiting
    WHERE waiting.state = redrive.state_ready() AND waiting.lane = share.lane
    ORDER BY waiting.priority DESC, waiting.submitted_at, waiting.task
    LIMIT least(up_to, coalesce(share.allowance, 0))
    FOR UPDATE SKIP LOCKED
  );
  last_turn := greatest(share.lane, 0);
  has_more := cardinality(places) = up_to;
  short := CASE WHEN cardinality(places) < least(up_to, share.allowance) THEN ARRAY[share.lane] END;
  places := nullif(places, '{}');
END
$$;

-- Picks and locks the ready tasks that a claim starts next, in the order of their turns: one from each lane in turn,
-- where all lanes without a key are one. `chunk` is the number of tasks that a lane is likely to give. `has_more` tells
-- that a lane may have more than that. `short` are the lanes that gave less than they could: they are empty, or another
-- claim is taking from them.
CREATE OR REPLACE FUNCTION redrive.pick(
  shares redrive.share[], chunk int, up_to int, OUT places tid[], OUT last_turn bigint, OUT short bigint[],
  OUT has_more boolean
) LANGUAGE plpgsql AS $$
DECLARE
  unkeyed int := (SELECT count(*) FROM unnest(shares) AS share WHERE share.lane < 0);
BEGIN
  WITH open_lane AS MATERIALIZED (
    SELECT share.lane, share.seat, greatest(share.lane, 0) AS turn,
      CASE WHEN share.lane < 0 AND unkeyed > 1 THEN chunk / unkeyed + 8 ELSE chunk END AS chunk,
      coalesce(share.allowance, 0) AS allowance
    FROM unnest(shares) WITH ORDINALITY AS share (lane, allowance, seat)
  ), candidate AS MATERIALIZED (
    SELECT open_lane.lane, open_lane.turn, open_lane.seat, ready.*
    FROM open_lane CROSS JOIN LATERAL (
      SELECT waiting.ctid AS place, waiting.priority, waiting.submitted_at, waiting.task
      FROM redrive.waiting
      WHERE waiting.state = redrive.state_ready() AND waiting.lane = open_lane.lane
      ORDER BY waiting.priority DESC, waiting.submitted_at, waiting.task
      LIMIT least(open_lane.chunk, open_lane.allowance)
      FOR UPDATE SKIP LOCKED
    ) AS ready
  ), ranked_candidate AS MATERIALIZED (
    SELECT candidate.*,
      row_number() OVER (PARTITION BY turn ORDER BY priority DESC, submitted_at, task) AS rank,
      min(seat) OVER (PARTITION BY turn) AS first_seat
    FROM candidate
  ), lane_yield AS MATERIALIZED (
    SELECT open_lane.lane, open_lane.turn, open_lane.chunk, least(open_lane.chunk, open_lane.allowance) AS asked,
      count(ranked.lane) AS given, max(ranked.rank) AS last_rank
    FROM open_lane LEFT JOIN ranked_candidate AS ranked ON ranked.lane = open_lane.lane
    GROUP BY open_lane.lane, open_lane.turn, open_lane.chunk, open_lane.allowance
  ), chosen AS (
    SELECT ranked.*, row_number() OVER (ORDER BY rank, first_seat) AS number
    FROM ranked_candidate AS ranked
    -- Where a lane without a key has given its whole chunk, its next task may come before those that other lanes gave.
    WHERE turn > 0 OR rank <= coalesce((
      SELECT min(last_rank) FROM lane_yield WHERE turn = 0 AND given = lane_yield.chunk
    ), rank)
    ORDER BY rank, first_seat
    LIMIT up_to
  )
  SELECT array_agg(chosen.place ORDER BY chosen.number),
    (array_agg(chosen.turn ORDER BY chosen.number DESC))[1],
    (SELECT array_agg(lane) FROM lane_yield WHERE given < asked OR asked = 0),
    (SELECT coalesce(bool_or(given = lane_yield.chunk), false) FROM lane_yield)
  INTO places, last_turn, short, has_more
  FROM chosen;
END
$$;

-- Starts up to `up_to` ready tasks of a room that no earlier room names: one from each open lane in turn, beginning after
-- the lane that had the last turn. All lanes without a key share a turn (0), and the order over all of them is exact.
-- `closed` are shared limits that have refused a task of this claim.
CREATE OR REPLACE FUNCTION redrive.take_ready(
  room redrive.room, earlier redrive.room[], up_to int, by_worker text, now_ms bigint, INOUT closed bigint[],
  OUT tasks json[], OUT count int, OUT last_turn bigint, OUT is_contended boolean
) LANGUAGE plpgsql AS $$
DECLARE
  -- Of many lanes, a claim asks only some, for several tasks each: asking a lane costs more than taking a task from it.
  most_lanes constant int := least(up_to, greatest(8, ceil(up_to / 32.0)::int));
  after_turn redrive.share[];
  unkeyed redrive.share[];
  before_turn redrive.share[];
  shares redrive.share[];
  turns int;
  picked record;
  paid record;
BEGIN
  tasks := '{}';
  count := 0;
  last_turn := coalesce(room.last_turn, 0);
  is_contended := false;
  WHILE count < up_to LOOP
    after_turn := ARRAY(SELECT redrive.ready_lanes(
      room.kinds, room.categories, earlier, closed, greatest(last_turn, 0), 9223372036854775807, most_lanes, now_ms));
    unkeyed := CASE WHEN cardinality(after_turn) < most_lanes THEN ARRAY(SELECT redrive.ready_lanes(
      room.kinds, room.categories, earlier, closed, -9223372036854775807, -1, 1000000, now_ms)) ELSE '{}' END;
    turns := cardinality(after_turn) + least(cardinality(unkeyed), 1);
    before_turn := ARRAY(SELECT redrive.ready_lanes(
      room.kinds, room.categories, earlier, closed, 0, last_turn, most_lanes - turns, now_ms));
    turns := turns + cardinality(before_turn);
    EXIT WHEN turns = 0;

    shares := redrive.lock_limits(after_turn || unkeyed || before_turn, now_ms);
    is_contended := cardinality(shares) = 0;  -- Another claim has just started as much as these lanes may run.
    EXIT WHEN is_contended;
    IF cardinality(shares) = 1 THEN
      picked := redrive.pick_from_lane(shares[1], up_to - count);
    ELSE
      picked := redrive.pick(shares, ceil((up_to - count)::float8 / turns)::int, up_to - count);
    END IF;
    paid := redrive.afford(picked.places, now_ms);
    IF paid.affordable IS NOT NULL THEN
      -- Lanes whose tasks a shared limit has refused had no turn.
      last_turn := CASE WHEN cardinality(paid.affordable) = cardinality(picked.places) THEN picked.last_turn
        ELSE (SELECT greatest(lane, 0) FROM redrive.waiting WHERE ctid = paid.affordable[cardinality(paid.affordable)]) END;
      tasks := tasks || redrive.start(paid.affordable, by_worker, now_ms);
      count := count + cardinality(paid.affordable);
    END IF;
    closed := closed || paid.closed;
    is_contended := is_contended OR paid.is_contended OR EXISTS (
      SELECT FROM unnest(picked.short) AS short (lane)
      WHERE (
          SELECT true FROM redrive.waiting WHERE state = redrive.state_ready() AND waiting.lane = short.lane LIMIT 1
        )
        -- Tasks that a shared limit has refused are still there.
        AND NOT EXISTS (SELECT FROM redrive.lane AS its WHERE its.id = short.lane AND its.shared = ANY (closed)));
    CONTINUE WHEN cardinality(paid.closed) > 0;
    EXIT WHEN is_contended OR picked.places IS NULL OR NOT (picked.has_more OR turns >= most_lanes);
  END LOOP;
END
$$;
