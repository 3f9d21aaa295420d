import type pg from 'pg'

const OPERATORS = ['=', '<>', '<', '<=', '>', '>=', '+', '-', '*', '/', '%', '||', '->', '->>']
const OPERANDS = ['int2', 'int4', 'int8', 'float8', 'numeric', 'text', 'jsonb']
const FUNCTIONS = [
  'array_agg',
  'ceil',
  'count',
  'floor',
  'json_agg',
  'left',
  'max',
  'min',
  'pg_notify',
  'round',
  'sum',
  'to_json',
  'to_jsonb',
  'to_timestamp',
  'unnest',
]
const ARGUMENTS = ['int4', 'int8', 'float8', 'numeric', 'text', 'json', 'jsonb', 'int4[]', 'int8[]', 'text[]']

/**
 * Fills `public` with a stranger's functions and operators. Each takes exactly what PostgreSQL's own of that name would have
 * to be given a cast for, and so is chosen by whoever looks for it on the usual search path.
 */
export async function fillWithStrangers(client: pg.Client): Promise<void> {
  await client.query(/* sql */ `
    DO $do$
    DECLARE
      name text; l text; r text;
    BEGIN
      FOREACH l IN ARRAY '{${OPERANDS}}'::text[] LOOP
        FOREACH r IN ARRAY '{${OPERANDS}}'::text[] LOOP
          EXECUTE format($$ CREATE FUNCTION public.stranger(%s, %s) RETURNS boolean LANGUAGE plpgsql
            AS $x$ BEGIN RAISE 'a stranger was called'; END $x$ $$, l, r);
          FOREACH name IN ARRAY '{${OPERATORS.map(name => `"${name}"`)}}'::text[] LOOP
            CONTINUE WHEN EXISTS (SELECT FROM pg_operator
              WHERE oprname = name AND oprleft = l::regtype AND oprright = r::regtype);
            EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.stranger)', name, l, r);
          END LOOP;
        END LOOP;
      END LOOP;
      FOREACH l IN ARRAY '{${ARGUMENTS}}'::text[] LOOP
        FOREACH name IN ARRAY '{${FUNCTIONS}}'::text[] LOOP
          CONTINUE WHEN EXISTS (SELECT FROM pg_proc
            WHERE proname = name AND pronargs = 1 AND proargtypes[0] = l::regtype AND pronamespace = 'pg_catalog'::regnamespace);
          EXECUTE format($$ CREATE FUNCTION public.%I(%s) RETURNS boolean LANGUAGE plpgsql
            AS $x$ BEGIN RAISE 'a stranger was called'; END $x$ $$, name, l);
        END LOOP;
      END LOOP;
    END $do$`)
}
