-- The lanes with tasks: how many wait, run and are dead, how many may start now as far as the lane's own order, concurrency
-- and rate go (`allowance`), and those that are due without being ready yet: `due` of them, up to `most`, since when, and how
-- many that a retry budget holds. Tasks that are due stay scheduled until the next claim, which may be far away: nobody may
-- be there to claim.
CREATE OR REPLACE FUNCTION redrive.lane_figures(most bigint, now_ms bigint) RETURNS TABLE (
  id bigint, kind text, category text, is_paused boolean, is_held boolean, allowance int, waiting numeric, due numeric,
  since bigint, running numeric, dead numeric, budgeted numeric, shared bigint
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
  )
  SELECT one.id, lane.kind, lane.category, lane.is_paused, lane.is_held, lane.allowance, one.waiting, one.due, one.since,
    one.running, one.dead, one.budgeted, lane.shared
  FROM (
    SELECT figure.id, sum(figure.waiting) AS waiting, sum(figure.due) AS due, min(figure.since) AS since,
      sum(figure.running) AS running, sum(figure.dead) AS dead, sum(figure.budgeted) AS budgeted
    FROM figure GROUP BY figure.id
  ) AS one
  CROSS JOIN LATERAL (
    SELECT own.kind, own.category, own.paused AS is_paused, greatest(own.held_until, (
      SELECT (state::jsonb ->> 'heldUntil')::float8 FROM redrive.shared_limit WHERE shared_limit.id = own.shared
    )) > now_ms OR redrive.is_held_back(own.kind, own.category, now_ms)
      OR own.blocking AND redrive.is_stopped(own.id, now_ms) AS is_held,
    -- In an ordered lane, a retry that its budget holds goes before all others.
    CASE WHEN own.ordered AND EXISTS (
      SELECT FROM redrive.waiting AS held WHERE held.state = redrive.state_budgeted() AND held.lane = own.id
    ) THEN 0 ELSE redrive.allowance_beside(one.running::bigint, own, now_ms) END AS allowance, own.shared
    FROM redrive.lane AS own WHERE own.id = one.id OFFSET 0
  ) AS lane
$$;

-- The figures of lanes, as rows to be added up by kind and category. What is ready, and what is limited, is told by
-- src/store/rules/stats-book.ts. About `most` ready tasks are looked at, in the order in which they run: evenly over the kinds, and
-- over the lanes of each. `head` is the first of them.
CREATE OR REPLACE FUNCTION redrive.lane_stats(most bigint, now_ms bigint) RETURNS TABLE (
  kind text, category text, waiting numeric, paused numeric, held numeric, budgeted numeric, ready numeric, since bigint,
  limited numeric, running numeric, dead numeric, head text
) LANGUAGE sql STABLE AS $$
  WITH figure AS MATERIALIZED (
    SELECT one.*, NOT one.is_paused AND NOT one.is_held AS is_open,
      NOT one.is_paused AND NOT one.is_held AND one.waiting > 0 AS is_busy
    FROM redrive.lane_figures(most, now_ms) AS one
  ), share AS MATERIALIZED (
    SELECT figure.kind, figure.category, greatest(1, most / count(*) OVER () / count(*)) AS size
    FROM figure WHERE figure.is_busy GROUP BY figure.kind, figure.category
  ), counted AS MATERIALIZED (
    SELECT part.*, first.ready, first.since AS ready_since, first.head,
      CASE WHEN part.is_open THEN least(part.allowance, part.due + first.ready) ELSE 0 END AS allowed
    FROM figure AS part
    LEFT JOIN share ON part.is_busy AND share.kind = part.kind AND share.category = part.category
    CROSS JOIN LATERAL (
      SELECT count(*) AS ready, min(ready.next_at) FILTER (WHERE ready.nth <= part.allowance) AS since,
        min(ready.task) FILTER (WHERE ready.nth = 1) AS head
      FROM (
        SELECT task.task, task.next_at, row_number() OVER (ORDER BY task.priority DESC, task.submitted_at, task.task) AS nth
        FROM redrive.waiting AS task
        WHERE task.state = redrive.state_ready() AND task.lane = part.id
        ORDER BY task.priority DESC, task.submitted_at, task.task
        LIMIT coalesce(share.size, 0)
      ) AS ready
    ) AS first
  ), capped AS (
    -- The lanes of a quota leave to each other what it lets start.
    SELECT counted.*, greatest(0, coalesce(least(counted.allowed, its.room - (
      sum(counted.allowed) OVER (PARTITION BY counted.shared ORDER BY counted.id) - counted.allowed)), counted.allowed)
    )::numeric AS startable
    FROM counted LEFT JOIN LATERAL (
      SELECT redrive.quota_room(counted.shared, now_ms) AS room WHERE counted.shared IS NOT NULL AND counted.allowed > 0
    ) AS its ON true
  )
  SELECT capped.kind, capped.category, capped.waiting,
    CASE WHEN capped.is_paused THEN capped.waiting ELSE 0 END,
    CASE WHEN capped.is_held AND NOT capped.is_paused THEN capped.waiting ELSE 0 END,
    CASE WHEN capped.is_open THEN capped.budgeted ELSE 0 END,
    capped.startable,
    CASE WHEN capped.startable > 0 THEN least(
      CASE WHEN capped.allowance > capped.ready THEN capped.since END, capped.ready_since) END,
    CASE WHEN capped.is_open THEN capped.due + capped.ready - capped.startable ELSE 0 END,
    capped.running, capped.dead, capped.head
  FROM capped
$$;

-- The figures of the store by kind and category, and the limits that lanes share, which lower what is ready. Returns JSON:
-- {now, workers, kinds, shared}, where `kinds` is an array of {kind, category, waiting, paused, held, budgeted, ready,
-- readySince, limited, running, dead, cost}, and `shared` one of {kind, category, limits, state}. Lanes find the
-- share of their kind with a hash join, since there are thousands of them.
CREATE OR REPLACE FUNCTION redrive.stats(most bigint, at bigint) RETURNS text
LANGUAGE plpgsql STABLE /* verb */ SET enable_hashjoin = on AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
BEGIN
  RETURN json_build_object('now', now_ms, 'workers', (
    SELECT count(*) FROM redrive.worker WHERE until > now_ms
      AND (coalesce(kinds, '{}') = '{}' OR EXISTS (SELECT FROM unnest(kinds) AS its (kind) WHERE NOT starts_with(its.kind, 'notify:')))
  ), 'kinds', (
    SELECT coalesce(json_agg(json_build_object(
      'kind', kind, 'category', category, 'waiting', waiting, 'paused', paused, 'held', held, 'budgeted', budgeted,
      'ready', ready, 'readySince', since, 'limited', limited, 'running', running, 'dead', dead,
      'cost', (SELECT task.cost::json FROM redrive.task WHERE task.id = by_kind.head))), '[]')
    FROM (
      SELECT one.kind, one.category, sum(one.waiting) AS waiting, sum(one.paused) AS paused, sum(one.held) AS held,
        sum(one.budgeted) AS budgeted, sum(one.ready) AS ready, min(one.since) AS since, sum(one.limited) AS limited,
        sum(one.running) AS running, sum(one.dead) AS dead, min(one.head) AS head
      FROM redrive.lane_stats(most, now_ms) AS one
      GROUP BY one.kind, one.category
    ) AS by_kind
  ), 'shared', (
    SELECT coalesce(json_agg(json_build_object(
      'kind', its.kind, 'category', its.category, 'limits', its.limits::json, 'state', its.state::json)), '[]')
    FROM redrive.shared_limit AS its WHERE its.quota IS NULL
  ))::text;
END
$$;
