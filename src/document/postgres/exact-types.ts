import type { CustomTypesConfig, PoolClient } from 'pg'
import { exactValue } from '../../policy/internal.js'

const JSON_TYPES = new Set([114, 3802])
const JSON_ARRAYS = new Set([199, 3807])
const TEXT_ARRAY = 1009

/**
 * The types of a client, with JSON columns read so that events and exports can write them as they are stored: JavaScript
 * rounds integers beyond 2^53.
 */
export function exactTypes(client: PoolClient): CustomTypesConfig {
  const types = (oid: number, format?: 'text' | 'binary') => client.getTypeParser(oid, format)
  const readTexts = types(TEXT_ARRAY) as (text: string) => readonly (string | null)[]
  return {
    getTypeParser(oid: number, format?: 'text' | 'binary') {
      if (JSON_TYPES.has(oid)) return plainOrExact
      if (JSON_ARRAYS.has(oid)) return (text: string) => readTexts(text).map(json => json && plainOrExact(json))
      return types(oid, format)
    },
  }
}

/** A number is a plain one, or text where a number cannot hold it, as in a column of integers. */
function plainOrExact(json: string): unknown {
  const value = exactValue(json)
  if (!(value instanceof Number)) return value
  return Number.isInteger(value.valueOf()) && !Number.isSafeInteger(value.valueOf()) ? json : value.valueOf()
}
