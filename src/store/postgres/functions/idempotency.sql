-- Takes an idempotency key where it is free, or tells its state. Returns JSON: {state, …} as the contract defines it.
CREATE OR REPLACE FUNCTION redrive.claim_key(
  of_key text, of_fingerprint text, of_token text, lease_ms float8, at bigint
) RETURNS text LANGUAGE plpgsql
SET search_path = pg_catalog SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
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
