-- Records of any type: src/store/port/record-port.ts tells what they are. They are passed as a JSON array of
-- {id, place, isOpen, state}.

CREATE OR REPLACE FUNCTION redrive.record_json(this redrive.record) RETURNS json LANGUAGE sql STABLE AS $$
  SELECT json_build_object('id', this.id, 'place', this.place, 'isOpen', this.open, 'state', this.state)
$$;

-- NULL if there is none.
CREATE OR REPLACE FUNCTION redrive.get_record(of_type text, of_id text) RETURNS json LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (SELECT redrive.record_json(its) FROM redrive.record AS its WHERE its.type = of_type AND its.id = of_id);
END
$$;

-- Records behind an id, in the order of their ids.
CREATE OR REPLACE FUNCTION redrive.list_records(of_type text, after text, up_to int) RETURNS json
LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(redrive.record_json(page)), '[]')
    FROM (
      SELECT * FROM redrive.record WHERE type = of_type AND id > after ORDER BY id LIMIT up_to
    ) AS page
  );
END
$$;

-- Records of all types behind one, in the order of types and ids.
CREATE OR REPLACE FUNCTION redrive.all_records(after_type text, after_id text, up_to int) RETURNS json
LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(json_build_object(
      'type', page.type, 'id', page.id, 'place', page.place, 'isOpen', page.open, 'state', page.state)), '[]')
    FROM (
      SELECT * FROM redrive.record AS its
      WHERE (its.type, its.id) > (after_type, after_id) ORDER BY its.type, its.id LIMIT up_to
    ) AS page
  );
END
$$;

-- Records before an id, the last one first.
CREATE OR REPLACE FUNCTION redrive.list_records_back(of_type text, before text, up_to int) RETURNS json
LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(redrive.record_json(page) ORDER BY page.id DESC), '[]')
    FROM (
      SELECT * FROM redrive.record WHERE type = of_type AND id < before ORDER BY id DESC LIMIT up_to
    ) AS page
  );
END
$$;

-- In the order of their ids, so that nobody waits in a circle. An id that is free has no row to be locked.
CREATE OR REPLACE FUNCTION redrive.lock_records(of_type text, ids text[]) RETURNS json LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(of_type || ':' || free.id, 0)) FROM (
    SELECT given.id FROM unnest(ids) AS given (id)
    WHERE NOT EXISTS (SELECT FROM redrive.record AS known WHERE known.type = of_type AND known.id = given.id)
    ORDER BY 1
  ) AS free;
  RETURN (
    SELECT coalesce(json_agg(redrive.record_json(locked)), '[]')
    FROM (
      SELECT its.* FROM (SELECT DISTINCT id FROM unnest(ids) AS id) AS named
      JOIN redrive.record AS its ON its.type = of_type AND its.id = ANY (ARRAY[named.id])
      ORDER BY its.id FOR UPDATE OF its
    ) AS locked
  );
END
$$;

-- Open records up to a place, the first ones first, without those that another transaction has locked.
CREATE OR REPLACE FUNCTION redrive.lock_due_records(of_type text, up_to_place bigint, up_to int) RETURNS json
LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(redrive.record_json(locked)), '[]')
    FROM (
      SELECT * FROM redrive.record WHERE type = of_type AND open AND place <= up_to_place
      ORDER BY place, id LIMIT up_to FOR UPDATE SKIP LOCKED
    ) AS locked
  );
END
$$;

-- The place of the first open record; NULL if there is none.
CREATE OR REPLACE FUNCTION redrive.next_record_place(of_type text) RETURNS bigint LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (SELECT place FROM redrive.record WHERE type = of_type AND open ORDER BY place, id LIMIT 1);
END
$$;

-- Records up to a place that are not open, the first ones first, without those that another transaction has locked.
CREATE OR REPLACE FUNCTION redrive.lock_closed_records(of_type text, up_to_place bigint, up_to int) RETURNS json
LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(redrive.record_json(locked)), '[]')
    FROM (
      SELECT * FROM redrive.record WHERE type = of_type AND NOT open AND place <= up_to_place
      ORDER BY place, id LIMIT up_to FOR UPDATE SKIP LOCKED
    ) AS locked
  );
END
$$;

-- Records from before a place, newest first. Those that are open have an index of their own: workers ask for them often.
CREATE OR REPLACE FUNCTION redrive.newest_records(
  of_type text, is_open_only boolean, before bigint, before_id text, up_to int
) RETURNS json LANGUAGE plpgsql STABLE /* verb */ AS $$
BEGIN
  RETURN (
    SELECT coalesce(json_agg(redrive.record_json(page) ORDER BY page.place DESC, page.id DESC), '[]')
    FROM (
      (SELECT * FROM redrive.record WHERE is_open_only AND type = of_type AND open AND (place, id) < (before, before_id)
        ORDER BY place DESC, id DESC LIMIT up_to)
      UNION ALL
      (SELECT * FROM redrive.record WHERE NOT is_open_only AND type = of_type AND (place, id) < (before, before_id)
        ORDER BY place DESC, id DESC LIMIT up_to)
    ) AS page
  );
END
$$;

-- Adds records, or replaces them.
CREATE OR REPLACE FUNCTION redrive.save_records(of_type text, records json) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  INSERT INTO redrive.record (type, id, place, open, state)
  SELECT of_type, id, place, "isOpen", state
  FROM json_to_recordset(records) AS given (id text, place bigint, "isOpen" boolean, state text)
  ORDER BY id COLLATE "C"
  ON CONFLICT (type, id) DO UPDATE SET place = excluded.place, open = excluded.open, state = excluded.state;
END
$$;

CREATE OR REPLACE FUNCTION redrive.drop_records(of_type text, ids text[]) RETURNS void LANGUAGE plpgsql /* verb */ AS $$
BEGIN
  DELETE FROM redrive.record AS its USING unnest(ids) AS named (id)
  WHERE its.type = of_type AND its.id = ANY (ARRAY[named.id]);
END
$$;

-- Drops records up to a place that are not open, the first ones first. Returns how many.
CREATE OR REPLACE FUNCTION redrive.drop_closed_records(of_type text, up_to_place bigint, up_to int) RETURNS int
LANGUAGE plpgsql /* verb */ AS $$
DECLARE
  count int;
BEGIN
  DELETE FROM redrive.record WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM redrive.record WHERE type = of_type AND NOT open AND place <= up_to_place
    ORDER BY place, id LIMIT up_to FOR UPDATE SKIP LOCKED
  ));
  GET DIAGNOSTICS count = ROW_COUNT;
  RETURN count;
END
$$;
