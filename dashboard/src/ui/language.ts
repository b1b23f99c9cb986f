// A browser without a language (LANG=C) calls it `C`, or `en-US@posix`, which are no language tags; uPlot makes a format of it as it is loaded,
// and the page that has the chart would not open.
try {
  Intl.getCanonicalLocales(navigator.language)
} catch {
  Object.defineProperty(navigator, 'language', { value: 'en' })
}
