-- Takes an idempotency key where it is free, or says what is there: JSON of {state, …} as the contract has it.
CREATE FUNCTION redrive.claim_key(of_key text, of_fingerprint text, of_token text, lease_ms float8, at bigint)
RETURNS text LANGUAGE plpgsql
SET enable_seqscan = off AS $$
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

-- Appends audit records, given as a JSON array of texts. One call after another, so that ids are committed in their order
-- and who reads on after the last one misses none.
CREATE FUNCTION redrive.append_audit(records json, at bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock('redrive.audit'::regclass::bigint);
  INSERT INTO redrive.audit (at, record)
  SELECT redrive.now_ms(append_audit.at), record FROM json_array_elements_text(records) WITH ORDINALITY AS new (record, n)
  ORDER BY n;
END
$$;
