-- Pauses or resumes the lanes that match, including those that come later. NULL matches everything. Keeps who asked for it,
-- and why.
CREATE OR REPLACE FUNCTION redrive.pause(
  of_kind text, of_category text, of_key text, is_paused boolean, who text, why text, at bigint
) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog SET lock_timeout = '2s' SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  PERFORM redrive.lock_lane_rules(of_kind);
  -- The new rule overrules those that it covers.
  DELETE FROM redrive.pause_rule
  WHERE kind = of_kind AND (of_category IS NULL OR category = of_category) AND (of_key IS NULL OR key = of_key);
  INSERT INTO redrive.pause_rule (kind, category, key, paused, at, who, why)
  VALUES (of_kind, of_category, of_key, is_paused, redrive.now_ms(at), who, why);
  UPDATE redrive.lane SET paused = is_paused
  WHERE kind = of_kind AND (of_category IS NULL OR category = of_category) AND (of_key IS NULL OR key = of_key);
END
$$;
