-- Pauses or resumes the lanes that match, including those that come later. NULL matches everything. Keeps who asked for it,
-- and why. The pauses of runs stay, unless their key is given: what stops a run is for the run to end.
CREATE OR REPLACE FUNCTION redrive.pause(
  of_kind text, of_category text, of_key text, is_paused boolean, who text, why text, at bigint
) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  keeps_runs constant boolean := of_key IS NULL AND starts_with(of_kind, 'pipeline:');
BEGIN
  PERFORM redrive.lock_lane_rules(of_kind);
  -- The new rule overrules those that it covers.
  DELETE FROM redrive.pause_rule
  WHERE kind = of_kind AND (of_category IS NULL OR category = of_category) AND (of_key IS NULL OR key = of_key)
    AND NOT (keeps_runs AND key IS NOT NULL);
  INSERT INTO redrive.pause_rule (kind, category, key, paused, at, who, why)
  VALUES (of_kind, of_category, of_key, is_paused, redrive.now_ms(at), who, why);
  -- The last rule that matches a lane holds, so those of runs come last.
  UPDATE redrive.pause_rule SET id = DEFAULT WHERE kind = of_kind AND keeps_runs AND key IS NOT NULL;
  UPDATE redrive.lane SET paused = is_paused
  WHERE kind = of_kind AND (of_category IS NULL OR category = of_category) AND (of_key IS NULL OR key = of_key)
    AND NOT (keeps_runs AND EXISTS (
      SELECT FROM redrive.pause_rule AS its WHERE its.kind = lane.kind AND its.key = lane.key AND its.paused));
END
$$;
