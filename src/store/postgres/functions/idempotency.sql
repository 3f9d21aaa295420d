-- Takes an idempotency key where it is free, or tells its state. Returns JSON: {state, …} as the contract defines it.
CREATE OR REPLACE FUNCTION redrive.claim_key(
  of_key text, of_fingerprint text, of_token text, lease_ms float8, at bigint
) RETURNS text LANGUAGE plpgsql /* patient verb */ AS $$
DECLARE
  now_ms bigint := redrive.now_ms(at);
  found_key redrive.idempotency;
BEGIN
  LOOP
    INSERT INTO redrive.idempotency AS known (key, fingerprint, token, until)
    VALUES (of_key, of_fingerprint, of_token, ceil(now_ms + lease_ms))
    ON CONFLICT (key) DO UPDATE SET token = excluded.token, until = excluded.until
      WHERE known.result IS NULL AND known.until <= now_ms AND known.fingerprint = excluded.fingerprint;
    IF FOUND THEN
      RETURN json_build_object('state', 'fresh', 'token', of_token)::text;
    END IF;
    SELECT * INTO found_key FROM redrive.idempotency WHERE key = of_key;
    -- It may have been released in between.
    CONTINUE WHEN NOT FOUND;
    RETURN CASE WHEN found_key.result IS NULL
      THEN json_build_object('state', 'in_progress', 'fingerprint', found_key.fingerprint,
        'leaseLeftMs', greatest(0, found_key.until - now_ms))
      ELSE json_build_object('state', 'done', 'fingerprint', found_key.fingerprint, 'result', found_key.result)
    END::text;
  END LOOP;
END
$$;

-- Renews the lease of a key that is in progress. Returns whether it is still this token's.
CREATE OR REPLACE FUNCTION redrive.renew_key(of_key text, of_token text, lease_ms float8, at bigint) RETURNS boolean
LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  UPDATE redrive.idempotency SET until = ceil(redrive.now_ms(at) + lease_ms)
  WHERE key = of_key AND token = of_token AND result IS NULL;
  RETURN FOUND;
END
$$;

-- Stores the result of a key. Returns whether it was still this token's. A key keeps its first result: the answer to the
-- first call may have been lost.
CREATE OR REPLACE FUNCTION redrive.complete_key(of_key text, of_token text, of_result text, at bigint) RETURNS boolean
LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  UPDATE redrive.idempotency
  SET result = coalesce(result, of_result), done_at = coalesce(done_at, redrive.now_ms(at))
  WHERE key = of_key AND token = of_token;
  RETURN FOUND;
END
$$;

-- Gives a key back, unless it has a result; without a token, it is forgotten whatever its state.
CREATE OR REPLACE FUNCTION redrive.release_key(of_key text, of_token text) RETURNS void LANGUAGE plpgsql
/* verb */ AS $$
BEGIN
  DELETE FROM redrive.idempotency
  WHERE key = of_key AND (of_token IS NULL OR token = of_token AND result IS NULL);
END
$$;

-- Locks a task until the transaction ends, so that nobody rescues it meanwhile. Returns whether it is still in its round.
CREATE OR REPLACE FUNCTION redrive.hold(of_id text, of_round int, of_advances int) RETURNS boolean LANGUAGE plpgsql
/* patient verb */ AS $$
BEGIN
  PERFORM FROM redrive.task
  WHERE id = of_id AND round = of_round AND advances = of_advances AND state = redrive.state_running() FOR UPDATE;
  RETURN FOUND;
END
$$;
