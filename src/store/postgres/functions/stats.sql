-- The figures of all lanes, as rows to be added up by kind and category. Tasks are ready only in lanes that are neither
-- paused nor held. About `most` ready tasks are looked at, in the order in which they run: evenly over the kinds, and over
-- the lanes of each. Tasks that are due stay scheduled until the next claim, which may be far away: nobody may be there to
-- claim.
CREATE OR REPLACE FUNCTION redrive.lane_stats(most bigint, now_ms bigint) RETURNS TABLE (
  kind text, category text, waiting numeric, paused numeric, held numeric, ready numeric, since bigint, running numeric,
  dead numeric, budgeted numeric
) LANGUAGE sql STABLE AS $$
  WITH figure AS (
    SELECT tally.lane AS id, tally.waiting, 0 AS due, NULL::bigint AS since, tally.running, tally.dead, 0 AS budgeted
    FROM redrive.tally
    UNION ALL
    SELECT retry.lane, 0, 0, NULL, 0, 0, 1 FROM redrive.budget AS its CROSS JOIN LATERAL (
      SELECT held.lane FROM redrive.waiting AS held
      WHERE held.state = redrive.state_budgeted() AND held.budget = its.id AND held.next_at <= now_ms
      ORDER BY held.next_at LIMIT most
    ) AS retry
    UNION ALL
    (SELECT due.lane, 0, 1, due.next_at, 0, 0, 0 FROM redrive.waiting AS due
    WHERE due.state = redrive.state_scheduled() AND due.next_at <= now_ms ORDER BY due.next_at LIMIT most)
    UNION ALL
    (SELECT alone.lane, 0, 1, alone.next_at, 0, 0, 0 FROM redrive.waiting AS alone
    WHERE alone.state = redrive.state_alone() ORDER BY alone.priority DESC, alone.submitted_at, alone.task LIMIT most)
  ), standing AS MATERIALIZED (
    SELECT one.*, lane.*, NOT lane.is_paused AND NOT lane.is_held AS is_open FROM (
      SELECT figure.id, sum(figure.waiting) AS waiting, sum(due) AS due, min(figure.since) AS since,
        sum(figure.running) AS running, sum(figure.dead) AS dead, sum(figure.budgeted) AS budgeted
      FROM figure GROUP BY figure.id
    ) AS one
    CROSS JOIN LATERAL (
      SELECT own.kind, own.category, own.paused AS is_paused, greatest(own.held_until, (
        SELECT (state::jsonb ->> 'heldUntil')::float8 FROM redrive.shared_limit WHERE shared_limit.id = own.shared
      )) > now_ms OR redrive.is_gated(own.kind, own.category) AS is_held
      FROM redrive.lane AS own WHERE own.id = one.id OFFSET 0
    ) AS lane
  ), part AS MATERIALIZED (
    SELECT one.id, one.kind, one.category,
      greatest(1, most / max(one.nth_kind) OVER () / count(*) OVER (PARTITION BY one.kind, one.category)) AS size
    FROM (
      SELECT *, dense_rank() OVER (ORDER BY standing.kind, standing.category) AS nth_kind
      FROM standing WHERE is_open AND standing.waiting > 0
    ) AS one
  )
  SELECT kind, category, waiting, CASE WHEN is_paused THEN waiting ELSE 0 END,
    CASE WHEN is_held AND NOT is_paused THEN waiting ELSE 0 END, CASE WHEN is_open THEN due ELSE 0 END,
    CASE WHEN is_open THEN since END, running, dead, CASE WHEN is_open THEN standing.budgeted ELSE 0 END
  FROM standing
  UNION ALL
  SELECT part.kind, part.category, 0, 0, 0, head.ready, head.since, 0, 0, 0
  FROM part CROSS JOIN LATERAL (
    SELECT count(*) AS ready, min(first.next_at) AS since FROM (
      SELECT task.next_at FROM redrive.waiting AS task
      WHERE task.state = redrive.state_ready() AND task.lane = part.id
      ORDER BY task.priority DESC, task.submitted_at, task.task
      LIMIT part.size
    ) AS first
  ) AS head
$$;

-- The figures of the store by kind and category. Returns JSON: {now, workers, kinds}, where `kinds` is an array of {kind,
-- category, waiting, paused, held, ready, readySince, running, dead, budgeted}.
CREATE OR REPLACE FUNCTION redrive.stats(most bigint, at bigint) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog SET lock_timeout = '2s' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
BEGIN
  RETURN json_build_object('now', now_ms, 'workers', (
    SELECT count(*) FROM redrive.worker WHERE until > now_ms
      AND (coalesce(kinds, '{}') = '{}' OR EXISTS (SELECT FROM unnest(kinds) AS its (kind) WHERE NOT starts_with(its.kind, 'notify:')))
  ), 'kinds', (
    SELECT coalesce(json_agg(json_build_object(
      'kind', kind, 'category', category, 'waiting', waiting, 'paused', paused, 'held', held, 'ready', ready,
      'readySince', since, 'running', running, 'dead', dead, 'budgeted', budgeted)), '[]')
    FROM (
      SELECT one.kind, one.category, sum(one.waiting) AS waiting, sum(one.paused) AS paused, sum(one.held) AS held,
        sum(one.ready) AS ready, min(one.since) AS since, sum(one.running) AS running, sum(one.dead) AS dead,
        sum(one.budgeted) AS budgeted
      FROM redrive.lane_stats(most, now_ms) AS one
      GROUP BY one.kind, one.category
    ) AS by_kind
  ))::text;
END
$$;
