-- Verbs in the form in which the last release calls them, for its workers that still run. Delete them with the next
-- release.

-- One room, without a limit of its own. Functions 0 (schema version 7).
CREATE OR REPLACE FUNCTION redrive.claim(
  by_worker text, lease_ms bigint, kinds text[], categories text[], up_to int, is_idle boolean, last_turn bigint,
  at bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  room json := json_build_object('kinds', kinds, 'categories', categories, 'last_turn', last_turn);
  answer json := redrive.claim(by_worker, lease_ms, json_build_array(room), up_to, is_idle, at)::json;
BEGIN
  RETURN json_build_object(
    'now', answer -> 'now', 'next_at', answer -> 'next_at', 'is_alone_waiting', answer -> 'is_alone_waiting',
    'last_turn', answer -> 'last_turns' -> 0, 'as_of', answer -> 'as_of', 'tasks', answer -> 'tasks'
  )::text;
END
$$;

-- Without costs and traces. Functions 0.
CREATE OR REPLACE FUNCTION redrive.enqueue(
  lanes json, ids text[], lane_numbers int[], priorities float8[], submitted bigint[], due bigint[], payloads text[],
  rounds int[], tried_for bigint[], tried json, at bigint
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN redrive.enqueue(
    lanes, ids, false, lane_numbers, priorities, submitted, due, payloads, NULL, NULL, rounds, tried_for,
    CASE WHEN tried IS NOT NULL THEN json_build_object('outcomes', tried, 'shared', json_build_object()) END, at);
END
$$;

-- Without advances. Functions 0.
CREATE OR REPLACE FUNCTION redrive.settle(
  ids text[], rounds int[], results text[], numbers int[], began bigint[], took bigint[], workers text[], others json,
  claims bigint[], counts int[], at bigint
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  answer json := redrive.settle(ids, rounds, NULL, NULL, results, numbers, began, took, workers, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, CASE WHEN others IS NOT NULL THEN json_build_object('outcomes', others) END, claims, counts,
    at)::json;
BEGIN
  RETURN json_build_object(
    'succeeded', answer -> 'settled', 'applied', answer -> 'applied', 'is_any_bounded', answer -> 'is_any_bounded'
  )::text;
END
$$;

-- Without advances. Functions 0.
CREATE OR REPLACE FUNCTION redrive.complete(of_id text, of_claim bigint, of_round int, of_result text, at bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN redrive.complete(of_id, of_claim, of_round, NULL, of_result, at);
END
$$;

-- Without a report. Functions 0.
CREATE OR REPLACE FUNCTION redrive.heartbeat(
  by_worker text, lease_ms bigint, known_claims bigint[], as_of bigint, at bigint
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN redrive.heartbeat(by_worker, lease_ms, known_claims, as_of, NULL, at);
END
$$;

-- Without operations. Functions 0.
CREATE OR REPLACE FUNCTION redrive.redrive(ids text[], who text, why text, at bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN redrive.redrive(ids, who, why, NULL, NULL, at);
END
$$;

-- Without a person. Functions 0.
CREATE OR REPLACE FUNCTION redrive.pause(of_kind text, of_category text, of_key text, is_paused boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM redrive.pause(of_kind, of_category, of_key, is_paused, NULL, NULL, NULL);
END
$$;

-- Without a person. Functions 0.
CREATE OR REPLACE FUNCTION redrive.cancel(ids text[], at bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN redrive.cancel(ids, NULL, NULL, at);
END
$$;
