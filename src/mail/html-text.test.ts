// The text that a person reads in HTML, and that nothing which only looks like HTML breaks it or makes it slow.
import { expect, test } from 'vitest'
import { textOfHtml } from './html-text.ts'
import { effortOf } from '../base/effort.test-kit.ts'

test.each(['&toString;', '&valueOf;', '&constructor;', '&__proto__;', '&hasOwn;'])(
  'no entity, so it stays: %s',
  (text) => {
    expect(textOfHtml(text)).toBe(text)
  },
)

test.each([
  ['&iexcl;&sect;&laquo;&shy;&sup1;&frac12;&raquo;&iquest;', '¡§«\u00ad¹½»¿'],
  ['&Agrave;&AElig;&times;&Oslash;&THORN;&szlig;&agrave;&divide;&oslash;&yuml;', 'ÀÆ×ØÞßà÷øÿ'],
  ['&lsquo;&rsquo;&sbquo;&ldquo;&rdquo;&bdquo;', '‘’‚“”„'],
  ['&bull;&trade;&hellip;&euro;&ndash;&mdash;&middot;', '•™…€–—·'],
  ['a&zwnj;b&zwj;c&thinsp;d&ensp;e&emsp;f&nbsp;g', 'a\u200cb\u200dc\u2009d\u2002e\u2003f g'],
  ['&auml;&Auml;', 'äÄ'],
  ['&lt;b&gt; &amp;amp; &quot;x&quot; &apos;y&apos;', '<b> &amp; "x" \'y\''],
  ['&bogus; &EURO;', '&bogus; &EURO;'],
  // HTML's table of what C1 numbers mean; five of them mean nothing.
  ['&#128;&#130;&#x91;&#146;&#x96;&#151;&#153;&#156;&#x9E;&#159;', '€‚‘’–—™œžŸ'],
  ['a&#129;b&#141;c&#143;d&#144;e&#157;f&#160;g', 'a b c d e f g'],
  ['&#xD800;&#57343;&#127;&#0;', '\ufffd\ufffd\x7f'],
])('entities are their characters: %s', (html, text) => {
  expect(textOfHtml(html)).toBe(text)
})

test.each([
  ['<a title="a>b" href="x">l</a>', 'l'],
  ["<a title='a>b' href=x>l</a>", 'l'],
  ['<a title = "it\'s > that">l</a>', 'l'],
  ['<img alt="<b>"><a title="">l</a>', 'l'],
  ['</p title="a>b">l', 'l'],
  ['<script src="a>b">x</script>l', 'l'],
  // Quotes that open no value: a browser takes them for a letter.
  ['<a "b>l</a> "m"', 'l "m"'],
  ['<a href=x"y>l</a> "m"', 'l "m"'],
  ['<a href=x?y="z>l</a> "m"', 'l "m"'],
  ['<a title="a" "b>l</a>', 'l'],
])('a tag ends where a browser lets it end: %s', (html, text) => {
  expect(textOfHtml(html)).toBe(text)
})

test('a quote that is never closed, or only far away, costs its own tag alone', () => {
  expect(textOfHtml('<a href="x>l</a><p>rest')).toBe('l\nrest')
  expect(textOfHtml("<a href='x>l</a><p>rest")).toBe('l\nrest')
  expect(textOfHtml('<a href="x>l</a> He said "yes" and went')).toBe('l He said "yes" and went')
  const rest = 'word '.repeat(2_000).trim()
  expect(textOfHtml(`<a href="x>l</a><p>${rest}<p class="y">end`)).toBe(`l\n${rest}\nend`)
})

test('a long value in which no tag could end is a value: a picture in its address', () => {
  const picture = `data:image/png;base64,${'QUJD'.repeat(100_000)}`
  expect(textOfHtml(`<img src="${picture}" alt="a>b">l`)).toBe('l')
})

test.each([
  ['<center>Hello</center><center>World</center>', 'Hello\n\nWorld'],
  ['<form>a</form><nav>b</nav><figure>c</figure>d', 'a\n\nb\n\nc\nd'],
  ['<details>a<summary>b</summary></details>c', 'a\nb\n\nc'],
  ['<aside>a<fieldset>b<legend>c</legend>d<figcaption>e<menu>f<dialog>g', 'a\nb\nc\nd\ne\nf\ng'],
  ['<select><option>a<option>b</select>', 'a\nb'],
  ['<table><caption>a</caption><thead><tr><th>b<tbody><tr><td>c</table>', 'a\n\nb\n\nc'],
  ['a<span>b</span><b>c</b><formula>d</formula>', 'abcd'],
])('words of two blocks do not run together: %s', (html, text) => {
  expect(textOfHtml(html)).toBe(text)
})

test.each([
  ['<pre>line 1\r\nline 2\rline 3\nline 4</pre>line 5\nstill 5', 'line 1\nline 2\nline 3\nline 4\nline 5 still 5'],
  ['a<pre>\nb\r\n\r\nc</pre>', 'a\nb\n\nc'],
  ['a<PRE class=x>\r\nsum  1\n<b>of</b>\tit</PRE>', 'a\nsum  1\nof it'],
  ['<pre>a&#10;b&#xA;c</pre>d&#10;e', 'a\nb\nc\nd e'],
  ['<xmp>a\nb</xmp><textarea>c\nd</textarea>', 'a\nb\nc\nd'],
  ['</pre>a\nb<pre>c\nd<pre>e\nf</pre>g\nh</pre>i\nj', 'a b\nc\nd\ne\nf\ng\nh\ni j'],
  ['<pre>never\nclosed', 'never\nclosed'],
])('line ends stay where the text was typed so: %j', (html, text) => {
  expect(textOfHtml(html)).toBe(text)
})

test.each([
  ['<!-->shown<!-- -->x', 'shownx'],
  ['<!--->shown<!---->x', 'shownx'],
  ['<!-- a > b -- c -> d --!>shown<!--x--->y', 'showny'],
  ['<!--[if !mso]><!-->shown<!--<![endif]-->', 'shown'],
  ['<!--[if mso]>hidden<![endif]-->shown', 'shown'],
  ['<! bogus>shown<!-x>y', 'showny'],
  ['a<!--', 'a'],
  ['a<!-- b', 'a'],
  ['a<!--!>b-->c', 'ac'],
])('a comment ends where a browser lets it end: %s', (html, text) => {
  expect(textOfHtml(html)).toBe(text)
})

const hostile = [
  '<a "',
  '<a b="',
  "<a b='",
  '<a b="\'>',
  '<a b=">',
  '<a b="> "x" ',
  '<a b=',
  '<a b= ',
  'b="x" ',
  'b="x>" ',
  `b="${'x'.repeat(5_000)}" `,
  `b="${'x'.repeat(5_000)}>" `,
  `<a b="${'x>'.repeat(3_000)}`,
  '=',
]
test.each(hostile.map((piece) => [piece.slice(0, 20), piece]))(
  '1 MB of it is read in linear time: %s',
  (_, piece = '') => {
    const html = `<a ${piece.repeat(Math.ceil(1_000_000 / piece.length))}`
    expect(effortOf(() => textOfHtml(html))).toBeLessThan(1_000)
  },
)

test.each([
  '<',
  '<p>',
  '&amp;',
  '<!a>',
  '<a b=c>',
  '<a b="',
  '<script>',
  '<P>x',
  'aB',
  'x ',
  'a\r\n',
  '<!--',
  '<!-->',
  '--!',
  '<pre>\n',
  '</xmp>',
])('as much of %j as a mail may hold takes no time to speak of', (unit) => {
  const html = unit.repeat(Math.ceil(24e6 / unit.length))
  expect(effortOf(() => textOfHtml(html))).toBeLessThan(1_500) // it was seconds
})
