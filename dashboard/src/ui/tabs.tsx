// A choice between a few views of the same thing.
export function Tabs<Name extends string>({
  label,
  names,
  chosen,
  choose,
}: {
  readonly label: string
  readonly names: readonly Name[]
  readonly chosen: Name
  readonly choose: (name: Name) => void
}) {
  return (
    <div
      role="group"
      aria-label={label}
      className="inline-flex justify-self-start rounded-lg border border-line bg-card p-0.5"
    >
      {names.map((name) => (
        <button
          key={name}
          type="button"
          aria-pressed={name === chosen}
          onClick={() => choose(name)}
          className="min-h-8 rounded-md px-3 text-sm text-soft hover:text-ink aria-pressed:bg-sunken aria-pressed:font-medium aria-pressed:text-ink"
        >
          {name}
        </button>
      ))}
    </div>
  )
}
