-- Adds a rule about the limits of the lanes that match and are yet to be made. NULL matches everything. The last rule that
-- matches a lane holds.
CREATE OR REPLACE FUNCTION redrive.add_limit_rule(
  of_kind text, of_category text, of_key text, most int, rate float8, is_ordered boolean, is_blocking boolean
) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  -- A rule that is already there needs no lock: lanes created by transactions under way follow it.
  PERFORM FROM redrive.limit_rule
  WHERE id = (SELECT max(id) FROM redrive.limit_rule WHERE kind = of_kind)
    AND (category, key) IS NOT DISTINCT FROM (of_category, of_key)
    AND (concurrency, per_second, ordered, blocking) IS NOT DISTINCT FROM (most, rate, is_ordered, is_blocking);
  IF FOUND THEN
    RETURN;
  END IF;
  PERFORM redrive.lock_lane_rules(of_kind);
  -- The new rule overrules those that it covers.
  DELETE FROM redrive.limit_rule
  WHERE kind = of_kind AND (of_category IS NULL OR category = of_category) AND (of_key IS NULL OR key = of_key);
  INSERT INTO redrive.limit_rule (kind, category, key, concurrency, per_second, ordered, blocking)
  VALUES (of_kind, of_category, of_key, most, rate, is_ordered, is_blocking);
END
$$;

-- Limits the lanes that match. A lane with the same limits stays as it is.
CREATE OR REPLACE FUNCTION redrive.set_limits(
  of_kind text, of_category text, of_key text, most int, rate float8, is_ordered boolean, is_blocking boolean, at bigint
) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  UPDATE redrive.lane
  SET concurrency = most, per_second = rate, ordered = is_ordered, blocking = is_blocking,
    tokens = greatest(1, rate), refilled_at = redrive.now_ms(at)
  WHERE kind = of_kind AND (of_category IS NULL OR category = of_category) AND (of_key IS NULL OR key = of_key)
    AND (concurrency, per_second, ordered, blocking) IS DISTINCT FROM (most, rate, is_ordered, is_blocking);
END
$$;
