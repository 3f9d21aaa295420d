-- The database's clock, unless a test brings its own time. It is called with any search path, and inlined, so it has no
-- settings: all that it names is qualified.
CREATE OR REPLACE FUNCTION redrive.now_ms(at bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(at, pg_catalog.floor(
    extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000::numeric)::bigint)
$$;
