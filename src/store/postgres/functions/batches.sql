-- The members of a batch are tasks whose ids are in a range: from the first up to the second, which is not part of it.

-- The first task from an id on, before another, that waits or runs; NULL if there is none.
CREATE OR REPLACE FUNCTION redrive.unfinished_member(first_id text, end_id text) RETURNS text
LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (SELECT id FROM redrive.task WHERE id >= first_id AND id < end_id AND state = redrive.state_running()
    ORDER BY id LIMIT 1);
END
$$;

-- The ids of up to `up_to` tasks behind an id, and before another, in their order; with a status, only those.
CREATE OR REPLACE FUNCTION redrive.batch_members(after_id text, end_id text, of_status text, up_to int) RETURNS text[]
LANGUAGE plpgsql STABLE /* verb */ AS $$
DECLARE
  is_open constant boolean := of_status IN ('waiting', 'running');
  of_state constant int := redrive.state_after(of_status);
BEGIN
  RETURN ARRAY(
    SELECT member.id FROM redrive.task AS member
    WHERE member.id > after_id AND member.id < end_id AND (of_status IS NULL OR member.state = of_state)
      AND (of_status IS NULL OR NOT is_open
        OR (of_status = 'waiting') = EXISTS (SELECT FROM redrive.waiting_of(member)))
    ORDER BY member.id LIMIT up_to);
END
$$;

-- Counts tasks whose ids are in a range, as a JSON array of {state, kind, error_code, count}.
CREATE OR REPLACE FUNCTION redrive.batch_tally(first_id text, end_id text) RETURNS json
LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(json_build_object(
      'state', own.state, 'kind', (SELECT its.kind FROM redrive.lane AS its WHERE its.id = own.lane),
      'error_code', own.error_code, 'count', own.count)), '[]')
    FROM (
      SELECT member.lane, member.error_code, count(*),
        CASE WHEN member.state = redrive.state_running() AND EXISTS (SELECT FROM redrive.waiting_of(member))
          THEN redrive.state_ready() ELSE member.state END AS state
      FROM redrive.task AS member WHERE member.id >= first_id AND member.id < end_id
      GROUP BY member.lane, member.error_code, 4
    ) AS own
  );
END
$$;
