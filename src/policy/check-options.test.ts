import { describe, expect, it } from 'vitest'
import { checkOptions } from './check-options.js'
import { OptionError } from './errors.js'

const KNOWN = { signal: 'object', deadline: '', sink: 'function', tenantId: '', id: '' } as const
const check = (options: object) => () => checkOptions('work()', options, KNOWN)

describe('checkOptions', () => {
  it('accepts what is known, and what is left out', () => {
    expect(check({})).not.toThrow()
    expect(check({ deadline: '5s', sink: () => {}, signal: AbortSignal.abort(), id: 7 })).not.toThrow()
  })

  it('takes an option that is undefined for one that is left out', () => {
    expect(check({ signal: undefined, nothing: undefined })).not.toThrow()
  })

  it.each([
    ['sgnal', 'signal'],
    ['singal', 'signal'],
    ['siganl', 'signal'],
    ['signals', 'signal'],
    ['deadlin', 'deadline'],
    ['dedaline', 'deadline'],
    ['tenantID', 'tenantId'],
    ['tennantid', 'tenantId'],
    ['SINK', 'sink'],
    ['d', 'id'],
  ])('says for %s that %s was probably meant', (given, meant) => {
    expect(check({ [given]: 1 })).toThrow(`work() takes no '${given}'. Did you mean '${meant}'?`)
  })

  it.each(['retries', 'toString', 'constructor', 'hasOwnProperty', ''])('lists the options for %s', name => {
    expect(check({ [name]: 1 })).toThrow(`work() takes no '${name}', only signal, deadline, sink, tenantId, id.`)
  })

  it.each([
    ['sink', {}, /'sink' must be of type function; got an object/],
    ['signal', 'stop', /'signal' must be of type object; got 'stop'/],
  ])('refuses a %s of another type', (option, value, message) => {
    expect(check({ [option]: value })).toThrow(message)
    expect(check({ [option]: value })).toThrow(OptionError)
    expect(check({ [option]: value })).toThrow(expect.objectContaining({ option }))
  })
})
