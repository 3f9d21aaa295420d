-- `redrive.enqueue` for triggers, psql and other languages: docs/how-to/enqueue-from-sql.md. It is a contract, unlike all other
-- functions here: its name, its parameters and the columns of its answer do not change. New parameters come at the end.
--
-- It runs with the rights of the store's owner, so that a role may be let do this and nothing else. The caller chooses the
-- settings of the session, and may have made types of its own, and functions that casts and checks of those call. So:
--
-- - `pg_temp` comes last in every search path. Unless it is named, types are looked up there first.
-- - A function with variables that it calls sets its search path, if only by the mark `path`. The types of variables are
--   looked up once per session, and without a path of its own, the caller might have called the function before.
-- - No text has a backslash, whose meaning is a setting of the session.

-- The digits of a number in base 32, as ids have them.
CREATE OR REPLACE FUNCTION redrive.id_digits(value bigint, many int) RETURNS text LANGUAGE plpgsql IMMUTABLE /* path */ AS $$
DECLARE
  digits text := '';
BEGIN
  FOR n IN REVERSE many - 1 .. 0 LOOP
    digits := digits || substr('0123456789abcdefghijklmnopqrstuv', ((value >> 5 * n) & 31)::int + 1, 1);
  END LOOP;
  RETURN digits;
END
$$;

-- An id like those of src/store/rules/task-id.ts: 9 digits for the millisecond, 5 that count within it, and 8 random ones. No
-- session counts here: the microsecond keeps its tasks in the order enqueued.
CREATE OR REPLACE FUNCTION redrive.new_task_id() RETURNS text LANGUAGE plpgsql /* path */ AS $$
DECLARE
  micros constant bigint := extract(epoch FROM clock_timestamp()) * 1000000;
  bytes constant bytea := uuid_send(gen_random_uuid());
  random bigint := 0;
BEGIN
  -- Not the bytes of the version and the variant.
  FOR n IN 0 .. 4 LOOP
    random := (random << 8) | get_byte(bytes, n);
  END LOOP;
  RETURN redrive.id_digits(micros / 1000, 9) || redrive.id_digits(micros % 1000 * 33554, 5) || redrive.id_digits(random, 8);
END
$$;

-- Fails because of an argument.
CREATE OR REPLACE FUNCTION redrive.refuse(problem text, advice text) RETURNS void LANGUAGE plpgsql /* path */ AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'redrive.enqueue: ' || problem, HINT = advice;
END
$$;

-- Checks a name: its index entry must fit.
CREATE OR REPLACE FUNCTION redrive.check_name(parameter text, name text) RETURNS void LANGUAGE plpgsql /* path */ AS $$
BEGIN
  IF octet_length(name) > 512 THEN
    PERFORM redrive.refuse(format('%s has %s bytes, and 512 are allowed.', parameter, octet_length(name)), 'Shorten it.');
  END IF;
END
$$;

-- Checks who is to run a task: by the names that `declareTask` takes.
CREATE OR REPLACE FUNCTION redrive.check_kind(kind text) RETURNS void LANGUAGE plpgsql /* path */ AS $$
BEGIN
  IF kind IS NULL OR kind COLLATE "C" !~ '^[A-Za-z0-9_.:-]{1,100}$' THEN
    PERFORM redrive.refuse(
      format('kind must be 1 to 100 letters, digits and _.:- but it is %s.', quote_nullable(left(kind, 64))),
      'Pass the name that the task has in defineTask().');
  ELSIF starts_with(kind, 'pipeline:') OR starts_with(kind, 'event:') THEN
    PERFORM redrive.refuse(
      format('kind %s is that of %s.', quote_literal(kind),
        CASE WHEN starts_with(kind, 'event:') THEN 'an event' ELSE 'an item of a pipeline' END),
      CASE WHEN starts_with(kind, 'event:') THEN 'Publish the event to its bus.' ELSE 'Run the pipeline on a source.' END);
  END IF;
END
$$;

-- Checks a payload, as src/task/task-queue.ts does.
CREATE OR REPLACE FUNCTION redrive.check_payload(payload text) RETURNS void LANGUAGE plpgsql /* path */ AS $$
DECLARE
  problem text;
BEGIN
  IF payload IS NULL THEN
    PERFORM redrive.refuse('payload is NULL.', 'Pass ''null'' for the JSON value.');
  ELSIF length(payload) > 1048576 THEN
    PERFORM redrive.refuse(
      format('payload has %s characters, and 1048576 are allowed.', length(payload)),
      'Keep the data in a table, and pass its id.');
  END IF;
  PERFORM payload::json;
EXCEPTION WHEN invalid_text_representation THEN
  GET STACKED DIAGNOSTICS problem = PG_EXCEPTION_DETAIL;
  RAISE EXCEPTION USING ERRCODE = 'invalid_text_representation', MESSAGE = 'redrive.enqueue: payload is not JSON.',
    DETAIL = problem, HINT = 'Build it with json_build_object() or to_json(), which need no quoting.';
END
$$;

-- Checks what a task takes from each shared limit.
CREATE OR REPLACE FUNCTION redrive.check_cost(cost jsonb) RETURNS void LANGUAGE plpgsql /* path */ AS $$
DECLARE
  its record;
BEGIN
  IF jsonb_typeof(cost) <> 'object' THEN
    PERFORM redrive.refuse(format('cost must be an object, but it is %s.', jsonb_typeof(cost)), 'Pass {"bucket": 2}.');
  END IF;
  FOR its IN SELECT * FROM jsonb_each(coalesce(cost, '{}')) AS given (bucket, amount) LOOP
    PERFORM redrive.check_name('a bucket of cost', its.bucket);
    IF jsonb_typeof(its.amount) <> 'number' OR its.amount < '0' OR its.amount > '1.7976931348623157e308' THEN
      PERFORM redrive.refuse(
        format('cost of %s must be a number, 0 or more, but it is %s.', quote_literal(left(its.bucket, 64)),
          left(its.amount::text, 64)),
        'Leave the bucket out for a cost of 1.');
    END IF;
  END LOOP;
END
$$;

-- Checks the order and the trace of a task.
CREATE OR REPLACE FUNCTION redrive.check_place(
  id text, priority float8, run_at timestamptz, submitted_at timestamptz, traceparent text
) RETURNS void LANGUAGE plpgsql /* path */ AS $$
BEGIN
  IF id = '' THEN
    PERFORM redrive.refuse('id is empty.', 'Leave it out to have one generated.');
  ELSIF NOT abs(priority) < 'Infinity' THEN
    PERFORM redrive.refuse(format('priority must be a finite number, but it is %s.', priority), 'Higher goes first.');
  -- JavaScript has no later dates.
  ELSIF NOT (run_at BETWEEN '0001-01-01Z' AND '275760-01-01Z' AND submitted_at BETWEEN '0001-01-01Z' AND '275760-01-01Z') THEN
    PERFORM redrive.refuse('run_at and submitted_at must be dates before the year 275760.', 'Leave them out for now.');
  ELSIF traceparent !~ '^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' THEN
    PERFORM redrive.refuse(
      format('traceparent has another form: %s.', quote_literal(left(traceparent, 64))),
      'It is 00-<32 hexadecimal digits>-<16>-<2>.');
  END IF;
END
$$;

-- Checks the quota of a task, as src/store/rules/check.ts does.
CREATE OR REPLACE FUNCTION redrive.check_quota(quota text, key text) RETURNS void LANGUAGE plpgsql /* path */ AS $$
BEGIN
  PERFORM redrive.check_name('quota', quota);
  IF quota = '' THEN
    PERFORM redrive.refuse('quota is empty.', 'Leave it out if there is none.');
  ELSIF quota IS NOT NULL AND coalesce(key, '') = '' THEN
    PERFORM redrive.refuse('quota needs a key, the lane whose tasks count towards it.', 'Pass the key of its lane.');
  END IF;
END
$$;

-- Checks a unique key, as src/store/rules/check-unique.ts does.
CREATE OR REPLACE FUNCTION redrive.check_unique(
  unique_key text, scope text, within interval, conflict text, max_wait interval, run_at timestamptz
) RETURNS void LANGUAGE plpgsql /* path */ AS $$
DECLARE
  problem constant text := CASE
    WHEN unique_key IS NULL AND num_nonnulls(scope, within, conflict, max_wait) > 0 THEN
      'unique_while, unique_within, unique_conflict and unique_max_wait need a unique_key.'
    WHEN unique_key IS NULL THEN NULL
    WHEN unique_key = '' THEN 'unique_key is empty.'
    WHEN scope IS NULL OR scope NOT IN ('waiting', 'unfinished', 'within') THEN
      format('unique_while must be waiting, unfinished or within, but it is %s.', quote_nullable(left(scope, 64)))
    WHEN conflict IS NULL OR conflict NOT IN ('keep', 'replace', 'postpone', 'after') THEN
      format('unique_conflict must be keep, replace, postpone or after, but it is %s.', quote_nullable(left(conflict, 64)))
    WHEN conflict = 'postpone' AND scope <> 'waiting' OR conflict = 'after' AND scope <> 'unfinished'
      OR conflict = 'replace' AND scope = 'within' THEN
      format('unique_while => %L cannot have unique_conflict => %L.', scope, conflict)
    WHEN (scope = 'within') <> (within IS NOT NULL) THEN 'unique_within goes with unique_while => ''within'', and only with it.'
    WHEN (conflict = 'postpone') <> (max_wait IS NOT NULL) THEN
      'unique_max_wait goes with unique_conflict => ''postpone'', and only with it.'
    WHEN conflict = 'postpone' AND run_at IS NULL THEN
      'unique_conflict => ''postpone'' needs a run_at: the time to postpone to.'
    WHEN NOT (coalesce(within, max_wait, '1s') > '0s' AND coalesce(within, max_wait, '1s') < '300 years') THEN
      'unique_within and unique_max_wait must be longer than 0, and shorter than 300 years.'
    END;
BEGIN
  PERFORM redrive.check_name('unique_key', unique_key);
  IF problem IS NOT NULL THEN
    PERFORM redrive.refuse(problem, 'docs/tasks.md has a table of what goes together: deduplicate, throttle, debounce, ….');
  END IF;
END
$$;

-- The milliseconds of a time or a duration, rounded up; NULL if there is none.
CREATE OR REPLACE FUNCTION redrive.ms_of(seconds numeric) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT ceil(seconds * 1000)::bigint
$$;

-- What became of a task, from the answer of `enqueue_one` and `enqueue_unique`: NULL if `of_id` was created.
CREATE OR REPLACE FUNCTION redrive.enqueue_answer(
  answer text, of_id text, OUT id text, OUT is_new boolean, OUT outcome text, OUT status text, OUT since timestamptz
) LANGUAGE plpgsql /* path */ AS $$
DECLARE
  note constant json := coalesce(answer::json -> 0, json_build_object('id', of_id, 'outcome', 'created'));
  state constant int := note ->> 'state';
BEGIN
  id := note ->> 'id';
  outcome := note ->> 'outcome';
  is_new := outcome IN ('created', 'replaced', 'queued_after');
  status := CASE WHEN state = redrive.state_running() THEN 'running' WHEN state = redrive.state_succeeded() THEN 'succeeded'
    WHEN state = redrive.state_skipped() THEN 'skipped' WHEN state = redrive.state_dead() THEN 'dead'
    WHEN state = redrive.state_cancelled() THEN 'cancelled' WHEN state IS NOT NULL THEN 'waiting' END;
  since := to_timestamp((note ->> 'since')::numeric / 1000);
END
$$;

-- Adds a task, with a payload of JSON text, and tells the workers when the transaction commits. Answers with the id of the task
-- that stands, and what happened: if the id or the unique key is taken, `status` and `since` are of the task that was there.
CREATE OR REPLACE FUNCTION redrive.enqueue(
  kind text, payload text, INOUT id text DEFAULT NULL, category text DEFAULT NULL, key text DEFAULT NULL,
  priority float8 DEFAULT NULL, run_at timestamptz DEFAULT NULL, submitted_at timestamptz DEFAULT NULL,
  cost jsonb DEFAULT NULL, traceparent text DEFAULT NULL, quota text DEFAULT NULL, unique_key text DEFAULT NULL,
  unique_while text DEFAULT NULL, unique_within interval DEFAULT NULL, unique_conflict text DEFAULT NULL,
  unique_max_wait interval DEFAULT NULL, OUT is_new boolean, OUT outcome text, OUT status text, OUT since timestamptz
) LANGUAGE plpgsql SECURITY DEFINER /* verb */ SET lock_timeout = '10s' AS $$
DECLARE
  its_category constant text := coalesce(category, '');
  its_key constant text := coalesce(key, '');
  submitted bigint;
  due bigint;
  answer text;
BEGIN
  PERFORM redrive.check_kind(kind);
  PERFORM redrive.check_payload(payload);
  PERFORM redrive.check_place(id, priority, run_at, submitted_at, traceparent);
  PERFORM redrive.check_name('id', id);
  PERFORM redrive.check_name('category', category);
  PERFORM redrive.check_name('key', key);
  PERFORM redrive.check_cost(cost);
  PERFORM redrive.check_quota(quota, key);
  PERFORM redrive.check_unique(unique_key, unique_while, unique_within, unique_conflict, unique_max_wait, run_at);
  submitted := floor(extract(epoch FROM submitted_at)::numeric * 1000);
  due := redrive.ms_of(extract(epoch FROM run_at)::numeric);
  id := coalesce(id, redrive.new_task_id());
  IF quota IS NOT NULL THEN
    PERFORM redrive.make_lanes(json_build_array(json_build_object(
      'kind', kind, 'category', its_category, 'key', its_key, 'quota', quota)));
  END IF;
  IF unique_key IS NULL THEN
    answer := redrive.enqueue_one(kind, its_category, its_key, id, priority, submitted, due, payload, cost::text, traceparent,
      NULL);
  ELSE
    answer := redrive.enqueue_unique(kind, its_category, its_key, id, priority, submitted, due, payload, cost::text,
      traceparent, unique_key, unique_while, redrive.ms_of(extract(epoch FROM unique_within)::numeric), unique_conflict,
      redrive.ms_of(extract(epoch FROM unique_max_wait)::numeric), NULL);
  END IF;
  SELECT its.id, its.is_new, its.outcome, its.status, its.since INTO id, is_new, outcome, status, since
  FROM redrive.enqueue_answer(answer, id) AS its;
  IF outcome <> 'kept' THEN
    PERFORM pg_notify('redrive_' || split_part('redrive.task', '.', 1), '');
  END IF;
END
$$;

-- The same for a payload of any other type: json, jsonb, a row, a number. With the rights of its caller, since the type may
-- have a cast to json that the caller has written.
CREATE OR REPLACE FUNCTION redrive.enqueue(
  kind text, payload anyelement, INOUT id text DEFAULT NULL, category text DEFAULT NULL, key text DEFAULT NULL,
  priority float8 DEFAULT NULL, run_at timestamptz DEFAULT NULL, submitted_at timestamptz DEFAULT NULL,
  cost jsonb DEFAULT NULL, traceparent text DEFAULT NULL, quota text DEFAULT NULL, unique_key text DEFAULT NULL,
  unique_while text DEFAULT NULL, unique_within interval DEFAULT NULL, unique_conflict text DEFAULT NULL,
  unique_max_wait interval DEFAULT NULL, OUT is_new boolean, OUT outcome text, OUT status text, OUT since timestamptz
) LANGUAGE plpgsql /* verb */ SET lock_timeout = '10s' AS $$
DECLARE
  answer record;
BEGIN
  SELECT * INTO answer FROM redrive.enqueue(
    kind, to_json(payload)::text, id, category, key, priority, run_at, submitted_at, cost, traceparent, quota, unique_key,
    unique_while, unique_within, unique_conflict, unique_max_wait);
  id := answer.id;
  is_new := answer.is_new;
  outcome := answer.outcome;
  status := answer.status;
  since := answer.since;
END
$$;

-- Not for everybody who may use the schema: `redrive migrate --grant-enqueue`.
REVOKE ALL ON FUNCTION redrive.enqueue(text, text, text, text, text, float8, timestamptz, timestamptz, jsonb, text, text, text,
  text, interval, text, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION redrive.enqueue(text, anyelement, text, text, text, float8, timestamptz, timestamptz, jsonb, text, text,
  text, text, interval, text, interval) FROM PUBLIC;
