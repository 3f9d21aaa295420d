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
