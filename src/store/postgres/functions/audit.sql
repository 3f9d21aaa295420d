-- Appends audit records, given as a JSON array of texts. Calls take turns, so that ids become visible in their order
-- and nobody who reads on from the last id misses a record.
CREATE OR REPLACE FUNCTION redrive.append_audit(records json, at bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
  PERFORM pg_advisory_xact_lock('redrive.audit'::regclass::bigint);
  INSERT INTO redrive.audit (at, record)
  SELECT redrive.now_ms(append_audit.at), record
  FROM json_array_elements_text(records) WITH ORDINALITY AS new (record, n)
  ORDER BY n;
END
$$;
