-- The database's clock, unless a test brings its own time.
CREATE OR REPLACE FUNCTION redrive.now_ms(at bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(at, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;
