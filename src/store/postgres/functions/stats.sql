-- The figures of each lane: how many of its tasks wait, run and are dead, and how many are due, since when. At most `most`
-- ready tasks are looked at, evenly over the lanes, in the order in which they run. Tasks that are due stay scheduled until
-- the next claim, which may be far away: nobody may be there to claim.
CREATE OR REPLACE FUNCTION redrive.lane_stats(most bigint, now_ms bigint)
RETURNS TABLE (id bigint, waiting numeric, running numeric, dead numeric, ready numeric, ready_since bigint)
LANGUAGE sql STABLE AS $$
  WITH counted AS MATERIALIZED (
    SELECT tally.lane, sum(tally.waiting) AS waiting, sum(tally.running) AS running, sum(tally.dead) AS dead
    FROM redrive.tally GROUP BY tally.lane
  ), part AS MATERIALIZED (
    SELECT greatest(1, most / greatest(1, count(*))) AS size FROM counted WHERE counted.waiting > 0
  ), figure AS (
    SELECT lane, waiting, running, dead, 0 AS ready, NULL::bigint AS since FROM counted
    UNION ALL
    SELECT counted.lane, 0, 0, 0, head.ready, head.since
    FROM counted CROSS JOIN LATERAL (
      SELECT count(*) AS ready, min(first.next_at) AS since FROM (
        SELECT task.next_at FROM redrive.waiting AS task
        WHERE task.state = redrive.state_ready() AND task.lane = counted.lane
        ORDER BY task.priority DESC, task.submitted_at, task.task
        LIMIT (SELECT size FROM part)
      ) AS first
    ) AS head
    WHERE counted.waiting > 0
    UNION ALL
    (SELECT due.lane, 0, 0, 0, 1, due.next_at FROM redrive.waiting AS due
    WHERE due.state = redrive.state_scheduled() AND due.next_at <= now_ms ORDER BY due.next_at LIMIT most)
    UNION ALL
    (SELECT alone.lane, 0, 0, 0, 1, alone.next_at FROM redrive.waiting AS alone
    WHERE alone.state = redrive.state_alone() ORDER BY alone.priority DESC, alone.submitted_at, alone.task LIMIT most)
  )
  SELECT lane, sum(waiting), sum(running), sum(dead), sum(ready), min(since) FROM figure GROUP BY lane
$$;

-- The figures of the store by kind and category. Tasks are ready only in lanes that are neither paused nor held. Returns
-- JSON: {now, workers, kinds}, where `kinds` is an array of {kind, category, waiting, paused, held, ready, readySince,
-- running, dead}.
CREATE OR REPLACE FUNCTION redrive.stats(most bigint, at bigint) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
BEGIN
  RETURN json_build_object('now', now_ms, 'workers', (SELECT count(*) FROM redrive.worker WHERE until > now_ms), 'kinds', (
    SELECT coalesce(json_agg(json_build_object(
      'kind', kind, 'category', category, 'waiting', waiting, 'paused', paused, 'held', held, 'ready', ready,
      'readySince', ready_since, 'running', running, 'dead', dead)), '[]')
    FROM (
      SELECT lane.kind, lane.category, sum(one.waiting) AS waiting,
        coalesce(sum(one.waiting) FILTER (WHERE lane.paused), 0) AS paused,
        coalesce(sum(one.waiting) FILTER (WHERE lane.is_held AND NOT lane.paused), 0) AS held,
        coalesce(sum(one.ready) FILTER (WHERE NOT lane.is_held AND NOT lane.paused), 0) AS ready,
        min(one.ready_since) FILTER (WHERE NOT lane.is_held AND NOT lane.paused) AS ready_since,
        sum(one.running) AS running, sum(one.dead) AS dead
      FROM redrive.lane_stats(most, now_ms) AS one
      CROSS JOIN LATERAL (
        SELECT kind, category, paused, greatest(held_until, (
          SELECT (state::jsonb ->> 'heldUntil')::float8 FROM redrive.shared_limit WHERE shared_limit.id = own.shared
        )) > now_ms AS is_held
        FROM redrive.lane AS own WHERE own.id = one.id OFFSET 0
      ) AS lane
      GROUP BY lane.kind, lane.category
    ) AS by_kind
  ))::text;
END
$$;
