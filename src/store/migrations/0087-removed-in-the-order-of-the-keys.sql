-- Where one workspace has sent nearly all of a month, statistics know no other. Removing another one's 750,000 events of it then began each bite of 1,000 by sorting all that were left of
-- them, found by the index of transactions: a third of a second each, and half an hour for a million messages, which in the order of the keys takes less than a minute. With sorting switched
-- off only the index that has this order is left (docs/decisions/0006).
alter function erase_rows_1(text, text[], uuid, integer, text, text[]) set enable_bitmapscan = off;
alter function erase_rows_1(text, text[], uuid, integer, text, text[]) set enable_sort = off;
