// A value whose optional members are left out where there is nothing, and never null or undefined: so are the contract's answers, and so does the
// compiler want them (exactOptionalPropertyTypes).

/** Written out with null or undefined for what is not there, as a row of the database has it. A member to which null itself means something has no place here. */
type Written<T> = {
  readonly [Name in keyof T]: null extends T[Name]
    ? never
    : Pick<T, Name> extends Required<Pick<T, Name>>
      ? T[Name]
      : T[Name] | null | undefined
}

/** `given<Mailbox>({ id, name: row.name })`: without a name where the row has none. The compiler knows all members, those left out included. */
export function given<T extends object>(written: Written<T>): T {
  const value: Partial<Record<keyof T, unknown>> = {}
  for (const name of Object.keys(written) as (keyof T)[])
    if (written[name] !== null && written[name] !== undefined) value[name] = written[name]
  return value as T
}

/** What a row of the database is when it is shown: what may be null in it may be left out. */
export type Given<Row> = { readonly [Name in keyof Row as null extends Row[Name] ? never : Name]: Row[Name] } & {
  readonly [Name in keyof Row as null extends Row[Name] ? Name : never]?: NonNullable<Row[Name]>
}

/** A row without its nulls. All its columns are shown: what is nobody's business must not be in it; tests hold each answer against the document (http/documented.test-kit.ts). */
export const shown = <Row extends object>(row: Row): Given<Row> => given(row as never)
