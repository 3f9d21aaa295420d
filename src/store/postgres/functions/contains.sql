-- Whether a payload contains a part, which is a JSON object. NULL if this database cannot tell: `jsonb` has no NUL, no halves of
-- surrogate pairs, and no number of any length, and its parser has a limit for levels. Then `containing` of
-- src/store/rules/json-contains.ts, whose rule this repeats, decides.
CREATE OR REPLACE FUNCTION redrive.payload_contains(payload text, part text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF payload !~ '^\s*\{' THEN
    RETURN false;
  END IF;
  RETURN payload::jsonb @> part::jsonb;
EXCEPTION
  WHEN data_exception OR statement_too_complex THEN
    RETURN NULL;
END
$$;
