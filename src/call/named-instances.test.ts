import { describe, expect, it, vi } from 'vitest'
import { OptionError } from '../policy/index.js'
import { namedInstances } from './named-instances.js'

interface Options {
  readonly size?: number
  readonly colour?: string
}

function setUp() {
  const make = vi.fn((name: string, options?: Options) => ({ name, options }))
  return { make, thing: namedInstances('thing', make) }
}

describe('a named instance', () => {
  it('is made once, and is the same for all who name it', () => {
    const { make, thing } = setUp()
    const first = thing('a', { size: 1 })
    expect(thing('a')).toBe(first)
    expect(thing('a', { size: 1 })).toBe(first)
    expect(make).toHaveBeenCalledTimes(1)
    expect(make).toHaveBeenCalledWith('a', { size: 1 })
  })

  it('is another one under another name, whatever the name', () => {
    const { thing } = setUp()
    const names = ['a', 'A', '', '__proto__', 'constructor']
    expect(new Set(names.map(name => thing(name))).size).toBe(names.length)
  })

  it('with the same options in another order, or spelt out as undefined, is the same', () => {
    const { thing } = setUp()
    const first = thing('a', { size: 1, colour: 'red' })
    expect(thing('a', { colour: 'red', size: 1 })).toBe(first)
    const second = thing('b', { size: 1 })
    expect(thing('b', { size: 1, colour: undefined })).toBe(second)
  })

  it('with other options is an error that names it and says what it has', () => {
    const { make, thing } = setUp()
    thing('a', { size: 1 })
    expect(() => thing('a', { size: 2 })).toThrow(OptionError)
    expect(() => thing('a', { size: 2 })).toThrow(/thing 'a' exists already.*\{"size":1\}/)
    expect(() => thing('a', {})).toThrow(OptionError)
    expect(make).toHaveBeenCalledTimes(1)
  })

  it('that was first named without options cannot be given some later', () => {
    const { thing } = setUp()
    const first = thing('a')
    expect(thing('a', {})).toBe(first)
    expect(() => thing('a', { size: 1 })).toThrow(OptionError)
  })

  it('that could not be made can be made later', () => {
    const make = vi.fn(() => ({}))
    make.mockImplementationOnce(() => {
      throw new OptionError('size', 'too large')
    })
    const thing = namedInstances('thing', make)
    expect(() => thing('a')).toThrow('too large')
    expect(thing('a')).toBe(thing('a'))
  })

  it('does not notice if the options that it was given change later', () => {
    const { thing } = setUp()
    const options = { size: 1 }
    const first = thing('a', options)
    options.size = 2
    expect(thing('a', { size: 1 })).toBe(first)
  })

  it('of one kind is not one of another', () => {
    const { thing } = setUp()
    const { thing: other } = setUp()
    expect(thing('a')).not.toBe(other('a'))
  })
})
