// Things to fill in: a label, the control, a hint, and what is wrong with it, tied together for those who listen.
import {
  useId,
  type FormHTMLAttributes,
  type InputHTMLAttributes,
  type ReactNode,
  type Ref,
  type SelectHTMLAttributes,
} from 'react'
import { ApiError } from '../api.ts'
import { Button } from './button.tsx'
import { Sentence } from './sentence.tsx'

const control =
  'w-full rounded-lg border border-strong-line/60 bg-card px-3 text-base text-ink placeholder:text-soft hover:border-strong-line disabled:opacity-60 aria-invalid:border-bad'

interface Frame {
  readonly label: string
  readonly hint?: ReactNode
  readonly mistake?: string | undefined
}

function Framed({ label, hint, mistake, id, children }: Frame & { readonly id: string; readonly children: ReactNode }) {
  return (
    <div className="grid gap-1">
      <label htmlFor={id} className="text-sm font-medium">
        {label}
      </label>
      {children}
      {mistake !== undefined ? (
        <p id={`${id}-mistake`} role="alert" className="text-sm text-bad">
          <Sentence of={mistake} />
        </p>
      ) : (
        hint !== undefined && (
          <p id={`${id}-hint`} className="text-sm text-soft">
            {hint}
          </p>
        )
      )}
    </div>
  )
}

function described({ hint, mistake }: Frame, id: string) {
  const by = mistake !== undefined ? `${id}-mistake` : hint !== undefined ? `${id}-hint` : undefined
  return { 'aria-describedby': by, 'aria-invalid': mistake !== undefined }
}

export function TextField({
  label,
  hint,
  mistake,
  className = '',
  ...rest
}: Frame & InputHTMLAttributes<HTMLInputElement> & { readonly ref?: Ref<HTMLInputElement> }) {
  const id = useId()
  return (
    <Framed {...{ label, hint, mistake, id }}>
      <input
        dir="auto"
        {...rest}
        id={id}
        {...described({ label, hint, mistake }, id)}
        className={`${control} h-9 ${className}`}
      />
    </Framed>
  )
}

type OneLine = Omit<Frame, 'hint'> & InputHTMLAttributes<HTMLInputElement>

/** Browsers know no addresses beyond ASCII, and none in quotes; the service does. */
export function AddressField({ label = 'Address', ...rest }: Omit<OneLine, 'label'> & { readonly label?: string }) {
  return <TextField {...rest} label={label} inputMode="email" autoCapitalize="none" spellCheck={false} required />
}

/** The password that somebody has. */
export function PresentPassword({ label = 'Password', ...rest }: Omit<OneLine, 'label'> & { readonly label?: string }) {
  return <TextField {...rest} label={label} name="password" type="password" required autoComplete="current-password" />
}

/** A password to be chosen, as the service wants it. */
export function NewPassword(rest: OneLine) {
  return (
    <TextField
      {...rest}
      type="password"
      required
      minLength={10}
      autoComplete="new-password"
      hint="At least 10 characters."
    />
  )
}

export function Choice({
  label,
  hint,
  mistake,
  options,
  className = '',
  ...rest
}: Frame &
  SelectHTMLAttributes<HTMLSelectElement> & {
    readonly options: readonly (readonly [value: string, words: string])[]
  }) {
  const id = useId()
  return (
    <Framed {...{ label, hint, mistake, id }}>
      <select {...rest} id={id} {...described({ label, hint, mistake }, id)} className={`${control} h-9 ${className}`}>
        {options.map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
    </Framed>
  )
}

/** Whose password a form is about: without it password managers keep a new one under no name, beside the old one. */
export function LoginName({ email }: { readonly email: string }) {
  return <input type="text" name="username" autoComplete="username" value={email} readOnly hidden />
}

export function Check({ label, hint, ...rest }: Omit<Frame, 'mistake'> & InputHTMLAttributes<HTMLInputElement>) {
  const id = useId()
  return (
    <div className="flex items-start gap-2.5">
      <input {...rest} id={id} type="checkbox" className="mt-0.5 size-4 shrink-0 accent-accent" />
      <label htmlFor={id} className="text-sm">
        {label}
        {hint !== undefined && <span className="block text-soft">{hint}</span>}
      </label>
    </div>
  )
}

/** Several to check, of which the service may want one. */
export function Checks({
  legend,
  chosen,
  mistake,
  children,
}: {
  readonly legend: string
  /** Those that were sent. */
  readonly chosen: readonly unknown[] | null | undefined
  readonly mistake: string | undefined
  readonly children: ReactNode
}) {
  const id = useId()
  return (
    <fieldset className="grid gap-2" aria-describedby={mistake && id}>
      <legend className="pb-1 text-sm font-medium">{legend}</legend>
      {children}
      {mistake !== undefined && (
        <p id={id} role="alert" className="text-sm text-bad">
          {/* The service speaks of a list and its items. */}
          {chosen?.length === 0 ? 'Choose at least one.' : mistake}
        </p>
      )}
    </fieldset>
  )
}

/** What the service said about one member of a form. */
export function mistakeIn(error: Error | null, field: string): string | undefined {
  return error instanceof ApiError && error.field === field ? error.message : undefined
}

/** What is wrong with the whole, or with a member that is not on the form. */
export function FormMistake({
  error,
  fields = [],
}: {
  readonly error: Error | null
  readonly fields?: readonly string[]
}) {
  if (error === null || (error instanceof ApiError && error.field !== undefined && fields.includes(error.field)))
    return null
  return (
    // Several lines of a file may be wrong, each told on its own.
    <p role="alert" className="rounded-lg bg-bad-wash px-3 py-2 text-sm whitespace-pre-line text-bad">
      <Sentence of={error.message} />
    </p>
  )
}

/** What a form has done, beside its button. */
export function Done({ children }: { readonly children: ReactNode }) {
  return (
    <span role="status" className="text-sm text-good">
      {children}
    </span>
  )
}

/** The end of a form that stays where it is: what is wrong, the button, and that it is done. */
export function Save({
  by,
  fields,
  action = 'Save',
  done = 'Saved.',
}: {
  readonly by: { readonly isPending: boolean; readonly isSuccess: boolean; readonly error: Error | null }
  /** Those that say themselves what is wrong with them. */
  readonly fields: readonly string[]
  readonly action?: string
  readonly done?: string
}) {
  return (
    <>
      <FormMistake error={by.error} fields={fields} />
      <div className="flex items-center gap-3">
        <Button type="submit" busy={by.isPending}>
          {action}
        </Button>
        {by.isSuccess && <Done>{done}</Done>}
      </div>
    </>
  )
}

/** `onSubmit` hears what was filled in, and how to empty it. A form that `saves` what stays in it takes back its "saved" when somebody goes on typing. */
export function Form({
  saves,
  onSubmit,
  ...rest
}: Omit<FormHTMLAttributes<HTMLFormElement>, 'onSubmit' | 'onChange'> & {
  readonly saves?: { readonly isSuccess: boolean; readonly reset: () => void }
  readonly onSubmit: (form: FormData, empty: () => void) => void
}) {
  return (
    <form
      className="grid gap-4"
      {...rest}
      onChange={() => saves?.isSuccess === true && saves.reset()}
      onSubmit={(event) => {
        event.preventDefault()
        const form = event.currentTarget
        onSubmit(new FormData(form), () => form.reset())
      }}
    />
  )
}

/** What was filled in, as text. */
export function textIn(form: FormData, name: string): string {
  const value = form.get(name)
  return typeof value === 'string' ? value : ''
}
